"""The encoder is PyTorch's, blind to padding, and shares nothing."""

import json

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from transformer_lib.encoder import Encoder, EncoderLayer, TransformerConfig
from transformer_lib.feed_forward import FeedForward
from transformer_lib.multi_head_attention import MultiHeadAttention
from transformer_lib.normalization import LayerNorm, PostNorm, PreNorm
from transformer_lib.residual import Residual

D, H, D_FF = 16, 4, 24
ORDERS = pytest.mark.parametrize(
    "around", [PostNorm, PreNorm], ids=["post", "pre"]
)


pytestmark = pytest.mark.usefixtures("in_float64")


def make_layer(around=PostNorm, p_drop=0.0, bias=False):
    parts = MultiHeadAttention(D, H, bias=bias), FeedForward(D, D_FF)
    arounds = [around(LayerNorm(D), Residual(p_drop)) for _ in parts]
    return EncoderLayer(*parts, *arounds)


def make_encoder(around=PostNorm, n=3, bias=False):
    norm = LayerNorm(D) if around is PreNorm else None
    encoder = Encoder([make_layer(around, bias=bias) for _ in range(n)], norm)
    for p in encoder.parameters():
        nn.init.normal_(p, std=0.3)
    return encoder


def pytorch_layer(ours: EncoderLayer, norm_first: bool):
    """nn.TransformerEncoderLayer with our weights."""
    theirs = nn.TransformerEncoderLayer(
        D, H, D_FF, dropout=0.0, batch_first=True, norm_first=norm_first
    )
    mha, ffn = ours.self_attention, ours.feed_forward
    wanted = {
        "linear1": ffn.w_1,
        "linear2": ffn.w_2,
        "norm1": ours.around_attention.norm,
        "norm2": ours.around_feed_forward.norm,
        "self_attn.out_proj": mha.w_o,
    }
    with torch.no_grad():
        for p in theirs.parameters():
            p.zero_()
        for name, part in wanted.items():
            target = theirs.get_submodule(name)
            target.weight.copy_(part.weight)
            if part.bias is not None:
                target.bias.copy_(part.bias)
        qkv = [mha.w_q, mha.w_k, mha.w_v]
        packed = theirs.self_attn
        packed.in_proj_weight.copy_(torch.cat([w.weight for w in qkv]))
        if mha.w_q.bias is not None:
            packed.in_proj_bias.copy_(torch.cat([w.bias for w in qkv]))
    return theirs


def pytorch_encoder(ours: Encoder, norm_first: bool):
    theirs = nn.TransformerEncoder(
        pytorch_layer(ours.layers[0], norm_first),
        len(ours.layers),
        norm=ours.final_norm if norm_first else None,
        enable_nested_tensor=False,
    )
    theirs.layers = nn.ModuleList(
        pytorch_layer(layer, norm_first) for layer in ours.layers
    )
    return theirs


@ORDERS
@pytest.mark.parametrize("bias", [False, True])
def test_a_layer_equals_pytorchs(around, bias):
    ours = make_encoder(around, n=1, bias=bias).layers[0]
    theirs = pytorch_layer(ours, around is PreNorm)
    x = torch.randn(2, 5, D)
    keep = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]).bool()
    expected = theirs(x, src_key_padding_mask=~keep)
    assert_close(ours(x, keep[:, None]), expected, rtol=0, atol=1e-12)


@ORDERS
def test_a_stack_equals_pytorchs(around):
    ours = make_encoder(around)
    theirs = pytorch_encoder(ours, around is PreNorm)
    x = torch.randn(2, 5, D)
    assert_close(ours(x), theirs(x), rtol=0, atol=1e-12)


@ORDERS
def test_its_gradients_equal_pytorchs(around):
    ours = make_encoder(around, n=2)
    theirs = pytorch_encoder(ours, around is PreNorm)
    x = torch.randn(2, 5, D, requires_grad=True)
    direction = torch.randn(2, 5, D)
    (mine,) = torch.autograd.grad((ours(x) * direction).sum(), x)
    (other,) = torch.autograd.grad((theirs(x) * direction).sum(), x)
    assert_close(mine, other, rtol=1e-10, atol=1e-12)


@ORDERS
@pytest.mark.parametrize("n_pad", [1, 4])
def test_padding_changes_no_real_token(around, n_pad):  # O28
    encoder = make_encoder(around)
    x = torch.randn(2, 3, D)
    padded = torch.cat([x, 1e4 * torch.randn(2, n_pad, D)], dim=1)
    keep = (torch.arange(3 + n_pad) < 3).expand(2, 1, -1)
    inside = encoder(padded, keep)[:, :3]
    assert_close(inside, encoder(x), rtol=0, atol=1e-12)


def test_padding_gets_no_gradient_from_real_tokens():
    encoder = make_encoder()
    x = torch.randn(1, 5, D, requires_grad=True)
    keep = (torch.arange(5) < 3).view(1, 1, 5)
    encoder(x, keep)[:, :3].sum().backward()
    assert x.grad[:, 3:].eq(0).all()


def test_without_mask_the_tokens_may_come_in_any_order():  # O08
    encoder, order = make_encoder(), torch.tensor([3, 0, 4, 1, 2])
    x = torch.randn(2, 5, D)
    moved = encoder(x)[:, order]
    assert_close(encoder(x[:, order]), moved, rtol=0, atol=1e-12)


def test_no_two_layers_start_equal():  # O17
    layers = Encoder([make_layer() for _ in range(3)]).layers
    for name, p in layers[0].named_parameters():
        if "w_" in name and name.endswith("weight"):
            others = [layer.get_parameter(name) for layer in layers[1:]]
            assert not any(p.equal(q) for q in others), name
            assert not others[0].equal(others[1]), name


def test_layers_share_no_memory_and_parameters_grow_linearly():  # O17
    one, three = make_encoder(n=1), make_encoder(n=3)
    places = [p.data_ptr() for p in three.parameters()]
    assert len(places) == len(set(places))
    count = sum(p.numel() for p in one.parameters())
    assert sum(p.numel() for p in three.parameters()) == 3 * count


@pytest.mark.bad_input
def test_one_layer_at_two_places_is_refused():  # O17
    layer = make_layer()
    with pytest.raises(ValueError, match=r"layers\.0 and layers\.2"):
        Encoder([layer, make_layer(), layer])


@pytest.mark.bad_input
def test_one_part_in_two_layers_is_refused_by_name():  # O17
    a, b = make_layer(), make_layer()
    b.feed_forward = a.feed_forward
    with pytest.raises(ValueError, match=r"0\.feed_forward.* and .*1\.feed"):
        Encoder([a, b])


@pytest.mark.bad_input
def test_one_norm_at_both_places_of_a_layer_is_refused():
    layer = make_layer()
    layer.around_feed_forward.norm = layer.around_attention.norm
    with pytest.raises(ValueError, match="are one object"):
        Encoder([layer])


def test_dropout_acts_in_training_only():  # O09
    encoder = Encoder([make_layer(p_drop=0.5)])
    x = torch.randn(1, 4, D)
    assert not encoder(x).equal(encoder(x))
    encoder.eval()
    before = torch.get_rng_state()
    assert encoder(x).equal(encoder(x))
    assert torch.get_rng_state().equal(before)


def test_it_runs_without_memory_on_the_meta_device():
    with torch.device("meta"):
        out = make_encoder()(torch.empty(2, 3, D))
    assert out.is_meta
    assert out.shape == (2, 3, D)


# The sizes


def test_base_and_big_are_those_of_the_paper():
    base, big = TransformerConfig.base(37_000), TransformerConfig.big(37_000)
    sizes = ("d_model", "d_ff", "n_heads", "n_encoder_layers",
             "n_decoder_layers", "p_drop")  # fmt: skip
    assert [getattr(base, s) for s in sizes] == [512, 2048, 8, 6, 6, 0.1]
    assert [getattr(big, s) for s in sizes] == [1024, 4096, 16, 6, 6, 0.3]


def test_sizes_survive_json():
    config = TransformerConfig.tiny(50, p_drop=0.2, n_decoder_layers=1)
    text = json.dumps(config.to_dict())
    assert TransformerConfig.from_dict(json.loads(text)) == config


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"d_model": 30}, "4 heads cannot share a width of 30"),
        ({"vocab_size": 0}, "vocab_size=0"),
        ({"n_encoder_layers": -1}, "n_encoder_layers=-1"),
        ({"d_ff": 64.0}, r"d_ff=64\.0"),
        ({"n_heads": True}, "n_heads=True"),
        ({"max_len": 0}, "max_len=0"),
        ({"p_drop": 1.0}, r"p_drop=1\.0"),
        ({"p_drop": float("nan")}, "p_drop=nan"),
        ({"pad": -1}, "pad=-1"),
        ({"pad": 50}, "pad=50"),
    ],
)
def test_sizes_that_no_model_can_have_are_refused_by_name(change, said):
    values = TransformerConfig.tiny(50).to_dict() | change
    with pytest.raises(ValueError, match=said):
        TransformerConfig.from_dict(values)


@pytest.mark.bad_input
def test_unknown_and_missing_sizes_are_refused_by_name():
    with pytest.raises(TypeError, match="d_modle"):
        TransformerConfig.tiny(50, d_modle=3)
    with pytest.raises(TypeError, match="vocab_size"):
        TransformerConfig.from_dict({"d_model": 8})
