"""The decoder is PyTorch's, sees no future, and its cache changes nothing."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from transformer_lib.attention import causal_mask
from transformer_lib.decoder import Cache, Decoder, DecoderLayer
from transformer_lib.feed_forward import FeedForward
from transformer_lib.multi_head_attention import MultiHeadAttention
from transformer_lib.normalization import LayerNorm, PostNorm, PreNorm
from transformer_lib.residual import Residual

D, H, D_FF, T, S = 16, 4, 24, 7, 4
ORDERS = pytest.mark.parametrize(
    "around", [PostNorm, PreNorm], ids=["post", "pre"]
)


pytestmark = pytest.mark.usefixtures("in_float64")


def make_layer(around=PostNorm, p_drop=0.0):
    parts = [
        MultiHeadAttention(D, H),
        MultiHeadAttention(D, H),
        FeedForward(D, D_FF),
    ]
    arounds = [around(LayerNorm(D), Residual(p_drop)) for _ in parts]
    return DecoderLayer(*parts, *arounds)


def make_decoder(around=PostNorm, n=3):
    norm = LayerNorm(D) if around is PreNorm else None
    decoder = Decoder([make_layer(around) for _ in range(n)], norm)
    for p in decoder.parameters():
        nn.init.normal_(p, std=0.3)
    return decoder


def inputs(B=2):
    """Embedded targets, memory, and its mask: the last rows are padded."""
    real = torch.ones(B, 1, S).bool()
    real[1:, :, 2:] = False
    return torch.randn(B, T, D), torch.randn(B, S, D), real


def in_chunks(decoder, x, sizes, memory, real):
    state, rows = decoder.start(memory, real), []
    for chunk in x.split(sizes, dim=1):
        y, state = decoder.extend(chunk, state)
        rows.append(y)
    return torch.cat(rows, dim=1), state


def pytorch_layer(ours: DecoderLayer, norm_first: bool):
    """nn.TransformerDecoderLayer with our weights."""
    theirs = nn.TransformerDecoderLayer(
        D, H, D_FF, dropout=0.0, batch_first=True, norm_first=norm_first
    )
    wanted = {
        "linear1": ours.feed_forward.w_1,
        "linear2": ours.feed_forward.w_2,
        "norm1": ours.around_self.norm,
        "norm2": ours.around_cross.norm,
        "norm3": ours.around_feed_forward.norm,
        "self_attn.out_proj": ours.self_attention.w_o,
        "multihead_attn.out_proj": ours.cross_attention.w_o,
    }
    packed = {
        theirs.self_attn: ours.self_attention,
        theirs.multihead_attn: ours.cross_attention,
    }
    with torch.no_grad():
        for p in theirs.parameters():
            p.zero_()
        for name, part in wanted.items():
            target = theirs.get_submodule(name)
            target.weight.copy_(part.weight)
            if part.bias is not None:
                target.bias.copy_(part.bias)
        for target, mha in packed.items():
            qkv = [mha.w_q.weight, mha.w_k.weight, mha.w_v.weight]
            target.in_proj_weight.copy_(torch.cat(qkv))
    return theirs


@ORDERS
def test_a_layer_equals_pytorchs(around):
    ours = make_decoder(around, n=1).layers[0]
    theirs = pytorch_layer(ours, around is PreNorm)
    x, memory, real = inputs()
    expected = theirs(
        x,
        memory,
        tgt_mask=~causal_mask(T)[0],
        memory_key_padding_mask=~real[:, 0],
    )
    given = ours(x, memory, causal_mask(T), real)
    assert_close(given, expected, rtol=0, atol=1e-12)


@ORDERS
def test_a_stack_equals_pytorchs(around):
    ours = make_decoder(around)
    norm_first = around is PreNorm
    theirs = nn.TransformerDecoder(
        pytorch_layer(ours.layers[0], norm_first),
        len(ours.layers),
        norm=ours.final_norm if norm_first else None,
    )
    theirs.layers = nn.ModuleList(
        pytorch_layer(layer, norm_first) for layer in ours.layers
    )
    x, memory, _ = inputs()
    expected = theirs(x, memory, tgt_mask=~causal_mask(T)[0])
    given = ours(x, memory, causal_mask(T))
    assert_close(given, expected, rtol=0, atol=1e-12)


# The mask


@ORDERS
def test_a_changed_token_changes_nothing_before_it_not_one_bit(around):  # O03
    decoder, j = make_decoder(around), 4
    x, memory, real = inputs()
    other = x.clone()
    other[:, j] += torch.randn(x.size(-1))  # a norm would hide a constant
    before = decoder(x, memory, causal_mask(T), real)
    after = decoder(other, memory, causal_mask(T), real)
    assert after[:, :j].equal(before[:, :j])
    assert (after[:, j:] != before[:, j:]).any(dim=-1).all()


def test_the_gradient_from_later_positions_is_exactly_zero():
    decoder = make_decoder(n=2)
    x, memory, real = inputs()
    x.requires_grad_()
    y = decoder(x, memory, causal_mask(T), real)
    for i in range(T):
        (g,) = torch.autograd.grad(y[0, i].sum(), x, retain_graph=True)
        assert g[:, i + 1 :].eq(0).all()
        assert g[0, : i + 1].ne(0).any(dim=-1).all()


def uniform_layer():
    """A layer that passes on what cross-attention with equal scores reads."""
    layer = make_decoder(n=1).layers[0]
    with torch.no_grad():
        layer.cross_attention.w_q.weight.zero_()
        nn.init.eye_(layer.cross_attention.w_v.weight)
        nn.init.eye_(layer.cross_attention.w_o.weight)
    layer.around_self = layer.around_feed_forward = PassOn()
    layer.around_cross = Only()
    return layer


class PassOn(nn.Module):
    def forward(self, x, sublayer):
        return x


class Only(nn.Module):
    def forward(self, x, sublayer):
        return sublayer(x)


@pytest.mark.parametrize("n", [2, 3])
def test_cross_attention_reads_all_of_the_source_and_no_padding(n):  # O04
    memory = torch.tensor([1.0, 3.0, 100.0]).view(1, 3, 1).expand(1, 3, D)
    real = torch.tensor([[[True, True, False]]])
    layer = uniform_layer()
    read = layer(torch.randn(1, n, D), memory, causal_mask(n), real)
    assert_close(read, torch.full_like(read, 2.0))


def test_padding_of_the_memory_changes_nothing():  # O28
    decoder = make_decoder()
    x, memory, _ = inputs()
    padded = torch.cat([memory, 1e4 * torch.randn(2, 3, D)], dim=1)
    real = (torch.arange(S + 3) < S).expand(2, 1, -1)
    alone = decoder(x, memory, causal_mask(T))
    inside = decoder(x, padded, causal_mask(T), real)
    assert_close(inside, alone, rtol=0, atol=1e-12)


def test_padding_behind_the_target_changes_nothing():  # O28
    decoder = make_decoder()
    x, memory, real = inputs()
    padded = torch.cat([x, 1e4 * torch.randn(2, 2, D)], dim=1)
    alone = decoder(x, memory, causal_mask(T), real)
    inside = decoder(padded, memory, causal_mask(T + 2), real)[:, :T]
    assert_close(inside, alone, rtol=0, atol=1e-12)


# The cache


@ORDERS
@pytest.mark.parametrize("grad", [False, True], ids=["no_grad", "grad"])
@pytest.mark.parametrize(
    "sizes", [[1] * T, [2, 5], [3, 1, 1, 2], [T]], ids=str
)
def test_chunks_equal_one_pass(around, grad, sizes):  # O26
    decoder = make_decoder(around)
    x, memory, real = inputs()
    full = decoder(x, memory, causal_mask(T), real)
    with torch.set_grad_enabled(grad):
        given, state = in_chunks(decoder, x, sizes, memory, real)
    assert state.length == T
    assert_close(given, full, rtol=0, atol=1e-12)


def test_gradients_through_the_cache_equal_those_of_one_pass():
    decoder = make_decoder()
    x, memory, real = inputs()
    u = torch.randn(2, T, D)
    found = []
    for run in (
        decoder(x, memory, causal_mask(T), real),
        in_chunks(decoder, x, [1] * T, memory, real)[0],
    ):
        decoder.zero_grad()
        (run * u).sum().backward()
        found.append([p.grad.clone() for p in decoder.parameters()])
    for one, other in zip(*found, strict=True):
        assert_close(one, other, rtol=1e-9, atol=1e-11)


def test_queries_alone_may_be_trained_through_the_cache():
    decoder, (x, memory, real) = make_decoder(), inputs()
    for name, p in decoder.named_parameters():
        p.requires_grad_(name.endswith("self_attention.w_q.weight"))
    # The first layer's keys and values need no gradient, its queries do.
    own = decoder.layers[0].self_attention.w_q.weight
    one = decoder(x, memory, causal_mask(T), real)
    expected = torch.autograd.grad(one.square().sum(), own)
    for ahead in (0, 3):  # so many tokens are read without autograd first
        state, rows = decoder.start(memory, real), []
        for t in range(T):
            with torch.set_grad_enabled(t >= ahead):
                y, state = decoder.extend(x[:, t : t + 1], state)
            rows.append(y)
        with torch.no_grad():  # memory that autograd keeps is not written
            decoder.extend(x[:, -1:], state)
        loss = torch.cat(rows[ahead:], 1).square().sum()
        given = torch.autograd.grad(loss, own)
        if ahead == 0:
            assert_close(given, expected, rtol=1e-10, atol=1e-10)


def test_a_state_made_in_inference_mode_is_continued_outside():
    decoder, (x, memory, real) = make_decoder(), inputs()
    with torch.no_grad():
        expected = decoder(x, memory, causal_mask(T), real)
    with torch.inference_mode():
        state = decoder.start(memory, real)
        for t in range(3):
            _, state = decoder.extend(x[:, t : t + 1], state)
    with torch.no_grad():
        for t in range(3, T):
            y, state = decoder.extend(x[:, t : t + 1], state)
            assert_close(y[:, 0], expected[:, t], rtol=0, atol=1e-12)


@torch.no_grad()
def test_an_old_state_may_be_continued_again_and_again():
    decoder = make_decoder()
    x, memory, real = inputs()
    full = decoder(x, memory, causal_mask(T), real)
    state = decoder.start(memory, real)
    states = [state]
    for t in range(T):
        _, state = decoder.extend(x[:, t : t + 1], state)
        states.append(state)
    for t in reversed(range(T)):  # another word in each one's place
        decoder.extend(torch.randn(2, 1, D), states[t])
    for t in reversed(range(T)):
        y, after = decoder.extend(x[:, t : t + 1], states[t])
        assert_close(y, full[:, t : t + 1], rtol=0, atol=1e-12)
        if t + 1 < T:
            y, _ = decoder.extend(x[:, t + 1 : t + 2], after)
            assert_close(y, full[:, t + 1 : t + 2], rtol=0, atol=1e-12)


@torch.no_grad()
def test_the_last_state_is_continued_in_place():
    decoder = make_decoder(n=1)
    x, memory, real = inputs()
    state = decoder.start(memory, real)
    places = set()
    for t in range(T):
        _, state = decoder.extend(x[:, t : t + 1], state)
        places.add(state.own[0].memory[0].data_ptr())
    assert len(places) == 3  # room for 1, 4 and 10 tokens


@torch.no_grad()
def test_selected_rows_go_on_as_their_originals():  # O27
    decoder = make_decoder()
    x, memory, real = inputs(3)
    full = decoder(x, memory, causal_mask(T), real)
    rows = torch.tensor([2, 0, 0, 1])
    _, state = in_chunks(decoder, x[:, :4], [1] * 4, memory, real)
    chosen = state.select(rows)
    y, _ = decoder.extend(x[rows, 4:], chosen)
    assert_close(y, full[rows, 4:], rtol=0, atol=1e-12)


@torch.no_grad()
def test_a_selection_and_its_original_never_touch_each_other():  # O27
    decoder = make_decoder()
    x, memory, real = inputs()
    full = decoder(x, memory, causal_mask(T), real)
    _, state = in_chunks(decoder, x[:, :3], [1] * 3, memory, real)
    chosen = state.select(torch.tensor([1, 0]))
    decoder.extend(torch.randn(2, 1, D), state)
    y, chosen = decoder.extend(x[[1, 0], 3:4], chosen)
    assert_close(y, full[[1, 0], 3:4], rtol=0, atol=1e-12)
    y, _ = decoder.extend(x[:, 3:4], state)
    assert_close(y, full[:, 3:4], rtol=0, atol=1e-12)


@torch.no_grad()
def test_sentences_may_leave_before_the_first_token():
    decoder = make_decoder()
    x, memory, real = inputs()
    full = decoder(x, memory, causal_mask(T), real)
    state = decoder.start(memory, real).select(torch.tensor([1]))
    y, _ = decoder.extend(x[1:], state)
    assert_close(y, full[1:], rtol=0, atol=1e-12)


def test_a_memory_without_mask_is_read_in_full():
    decoder = make_decoder()
    x, memory, _ = inputs()
    full = decoder(x, memory, causal_mask(T))
    state = decoder.start(memory).select(torch.tensor([0, 1]))
    y, _ = decoder.extend(x, state)
    assert_close(y, full, rtol=0, atol=1e-12)


def test_one_mask_for_all_memories_is_selected_with_their_rows():
    decoder, (x, memory, _) = make_decoder(), inputs(B=3)
    shared = torch.tensor([[[True, True, True, False]]])
    rows = torch.tensor([2, 0, 2, 1])
    with torch.no_grad():
        expected = decoder(x, memory, causal_mask(T), shared)[rows]
        _, state = decoder.extend(x[:, :3], decoder.start(memory, shared))
        given, _ = decoder.extend(x[rows, 3:], state.select(rows))
    assert_close(given, expected[:, 3:], rtol=0, atol=1e-12)


@pytest.mark.bad_input
def test_a_mask_of_another_batch_is_refused_at_the_start():
    decoder, (_, memory, real) = make_decoder(), inputs(B=3)
    for wrong in (real[:2], real[:, :, 1:], real[:, 0]):
        with pytest.raises(ValueError, match="a mask of shape"):
            decoder.start(memory, wrong)


def test_memory_of_another_width_is_read():
    wide = MultiHeadAttention(D, H, d_kv=10)
    layer = make_layer()
    layer.cross_attention = wide
    decoder = Decoder([layer])
    x, memory = torch.randn(1, T, D), torch.randn(1, S, 10)
    full = decoder(x, memory, causal_mask(T))
    y, _ = in_chunks(decoder, x, [3, 4], memory, None)
    assert_close(y, full, rtol=0, atol=1e-12)


def test_a_cache_holds_keys_and_values_of_different_widths():
    cache = Cache()
    k, v = torch.randn(2, H, 5, 3), torch.randn(2, H, 5, 6)
    for t in range(5):
        kept = cache.append(k[:, :, t : t + 1], v[:, :, t : t + 1])
    assert kept[0].equal(k)
    assert kept[1].equal(v)
    assert cache.length == 5


@pytest.mark.bad_input
def test_a_batch_of_another_size_than_the_states_is_refused():
    decoder = make_decoder()
    x, memory, real = inputs()
    _, state = decoder.extend(x[:, :1], decoder.start(memory, real))
    for B in (1, 3):
        with pytest.raises((ValueError, RuntimeError)):
            decoder.extend(torch.randn(B, 1, D), state)


@pytest.mark.bad_input
def test_one_layer_at_two_places_is_refused():  # O17
    layer = make_layer()
    with pytest.raises(ValueError, match=r"layers\.0 and layers\.1"):
        Decoder([layer, layer])


def test_dropout_acts_in_training_only():  # O09
    decoder = Decoder([make_layer(p_drop=0.5)])
    x, memory, _ = inputs()
    mask = causal_mask(T)
    assert not decoder(x, memory, mask).equal(decoder(x, memory, mask))
    decoder.eval()
    assert decoder(x, memory, mask).equal(decoder(x, memory, mask))
