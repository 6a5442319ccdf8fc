"""The Transformer is PyTorch's, counts as the paper's, and is one model."""

import copy
import math
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.testing import assert_close

from transformer_lib.attention import causal_mask
from transformer_lib.decoder import Decoder
from transformer_lib.embedding import TokenEmbedding
from transformer_lib.multi_head_attention import MultiHeadAttention
from transformer_lib.normalization import PostNorm, PreNorm
from transformer_lib.positional_encoding import (
    LearnedPositionalEncoding,
    NoPosition,
)
from transformer_lib.residual import NoResidual
from transformer_lib.seq2seq import Seq2Seq, State, log_prob
from transformer_lib.transformer import Transformer, TransformerConfig

V = 11
SRC = torch.tensor([[5, 6, 7, 9, 2], [8, 4, 2, 0, 0], [3, 2, 0, 0, 0]])
TGT_IN = torch.tensor([[1, 4, 9, 8, 3, 10, 2], [1, 5, 2, 0, 0, 0, 0],
                       [1, 7, 6, 5, 2, 0, 0]])  # fmt: skip
ORDERS = pytest.mark.parametrize(
    "around", [PostNorm, PreNorm], ids=["post", "pre"]
)


pytestmark = pytest.mark.usefixtures("in_float64")


def tiny(**changes) -> TransformerConfig:
    return TransformerConfig.tiny(V, **changes)


def make(around=PostNorm, randomised=True, **changes) -> Transformer:
    config = tiny(n_encoder_layers=3, n_decoder_layers=3, **changes)
    model = Transformer.from_config(config, around=around).eval()
    for p in model.parameters() if randomised else ():
        nn.init.normal_(p, std=0.3)
    return model


def n_parameters(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def copy_layer(theirs, attentions, ffn, norms):
    wanted = {"linear1": ffn.w_1, "linear2": ffn.w_2}
    wanted |= {f"norm{i}": norm for i, norm in enumerate(norms, 1)}
    with torch.no_grad():
        for p in theirs.parameters():
            p.zero_()
        for name, part in wanted.items():
            theirs.get_submodule(name).load_state_dict(part.state_dict())
        for name, mha in attentions.items():
            target = theirs.get_submodule(name)
            qkv = [mha.w_q.weight, mha.w_k.weight, mha.w_v.weight]
            target.in_proj_weight.copy_(torch.cat(qkv))
            target.out_proj.weight.copy_(mha.w_o.weight)


def pytorch_model(ours: Transformer, norm_first: bool) -> nn.Transformer:
    sizes = {"dim_feedforward": 64, "dropout": 0.0}
    kind = sizes | {"batch_first": True, "norm_first": norm_first}
    theirs = nn.Transformer(
        32,
        4,
        custom_encoder=nn.TransformerEncoder(
            nn.TransformerEncoderLayer(32, 4, **kind),
            len(ours.encoder.layers),
            norm=ours.encoder.final_norm if norm_first else None,
            enable_nested_tensor=False,
        ),
        custom_decoder=nn.TransformerDecoder(
            nn.TransformerDecoderLayer(32, 4, **kind),
            len(ours.decoder.layers),
            norm=ours.decoder.final_norm if norm_first else None,
        ),
        batch_first=True,
    )
    for to, f in zip(theirs.encoder.layers, ours.encoder.layers, strict=True):
        norms = f.around_attention.norm, f.around_feed_forward.norm
        copy_layer(to, {"self_attn": f.self_attention}, f.feed_forward, norms)
    for to, f in zip(theirs.decoder.layers, ours.decoder.layers, strict=True):
        around = f.around_self, f.around_cross, f.around_feed_forward
        own, cross = f.self_attention, f.cross_attention
        attentions = {"self_attn": own, "multihead_attn": cross}
        copy_layer(to, attentions, f.feed_forward, [a.norm for a in around])
    return theirs


@ORDERS
def test_it_equals_pytorchs(around):
    ours = make(around)
    theirs = pytorch_model(ours, around is PreNorm)
    E, positional = ours.src_embedding, ours.positional
    h = theirs(
        positional(E(SRC)),
        positional(E(TGT_IN)),
        tgt_mask=~causal_mask(TGT_IN.size(1))[0],
        src_key_padding_mask=SRC == 0,
        memory_key_padding_mask=SRC == 0,
    )
    expected = h @ E.weight.T
    assert_close(ours(SRC, TGT_IN), expected, rtol=1e-12, atol=1e-12)


# Its parameters


def counted(V, d, d_ff, N):
    attention, norm = 4 * d**2, 2 * d
    ffn = 2 * d * d_ff + d_ff + d
    encoder_layer = attention + ffn + 2 * norm
    decoder_layer = 2 * attention + ffn + 3 * norm
    return V * d + N * (encoder_layer + decoder_layer)


@pytest.mark.parametrize(
    ("config", "n"),
    [
        (TransformerConfig.base(37_000), 63_045_632),
        (TransformerConfig.big(37_000), 214_171_648),
    ],
    ids=["base", "big"],
)
def test_base_and_big_have_as_many_parameters_as_the_formula(config, n):
    model = Transformer.from_config(config, device="meta")
    d, d_ff = config.d_model, config.d_ff
    assert n_parameters(model) == counted(37_000, d, d_ff, 6) == n


def test_pre_norm_adds_one_final_norm_for_each_stack():
    pre = Transformer.from_config(tiny(), around=PreNorm)
    post = Transformer.from_config(tiny())
    assert n_parameters(pre) - n_parameters(post) == 2 * 2 * 32


class OtherPreNorm(PreNorm):
    """A pre-LN of one's own."""


@pytest.mark.parametrize(
    "around",
    [OtherPreNorm, partial(PreNorm), lambda n, r: PreNorm(n, r)],
    ids=["subclass", "partial", "function"],
)
def test_whatever_makes_a_pre_norm_gets_the_final_norms(around):
    given, expected = make(around), make(PreNorm)
    assert given.state_dict().keys() == expected.state_dict().keys()
    given.load_state_dict(expected.state_dict())
    assert torch.equal(given(SRC, TGT_IN), expected(SRC, TGT_IN))


def test_all_of_it_is_made_on_the_device_asked_for():
    model = Transformer.from_config(tiny(), device="meta")
    tensors = [*model.parameters(), *model.buffers()]
    assert all(t.is_meta for t in tensors)
    logits = model(SRC.to("meta"), TGT_IN.to("meta"))
    assert logits.is_meta
    state = model.start(SRC.to("meta"))
    one, state = model.step(TGT_IN[:, 0].to("meta"), state)
    state = state.select(torch.tensor([0, 2], device="meta"))
    assert one.is_meta


def test_device_0_is_a_device_and_not_the_lack_of_one():
    if torch.accelerator.is_available():
        model = Transformer.from_config(tiny(), device=0)
        devices = {p.device for p in model.parameters()}
        assert devices == {torch.device(0)}
    else:  # and never the CPU in its place
        with pytest.raises((RuntimeError, AssertionError)):
            Transformer.from_config(tiny(), device=0)


def test_three_uses_of_the_embedding_are_one_parameter():  # O13
    model = make(randomised=False)
    names = [k for k in model.state_dict() if "embedding" in k]
    assert names == ["src_embedding.weight"]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    labels = TGT_IN.roll(-1, 1)
    cross_entropy(
        model(SRC, TGT_IN).flatten(0, 1), labels.flatten()
    ).backward()
    optimizer.step()
    h = torch.randn(1, 1, 32)
    W = model.src_embedding.weight
    assert_close(model._logits(h), h @ W.T)
    with torch.no_grad():
        W.zero_()
    assert model(SRC, TGT_IN).eq(0).all()


def test_a_copy_of_the_model_is_tied_to_itself():
    model = make()
    other = copy.deepcopy(model)
    with torch.no_grad():
        other.src_embedding.weight.zero_()
    assert other(SRC, TGT_IN).eq(0).all()
    assert not model(SRC, TGT_IN).eq(0).any()


def test_the_loss_starts_near_that_of_random_logits():  # O13
    config = TransformerConfig.tiny(1000, d_model=64)
    model = Transformer.from_config(config).eval()
    src, tgt_in, labels = torch.randint(3, 1000, (3, 40, 12))
    with torch.no_grad():
        logits = model(src, tgt_in).flatten(0, 1)
    loss = cross_entropy(logits, labels.flatten()).item()
    assert abs(loss - (math.log(1000) + 0.5)) < 0.15


def test_no_two_layers_start_equal_or_share_memory():  # O17
    model = make(randomised=False)
    places = [p.data_ptr() for p in model.parameters()]
    assert len(places) == len(set(places))
    matrices = [p for p in model.parameters() if p.dim() == 2]
    for i, p in enumerate(matrices):
        same = [q for q in matrices[:i] if q.shape == p.shape]
        assert not any(p.equal(q) for q in same)


def test_weights_go_to_a_model_of_the_same_sizes():
    one, other = make(), make()
    other.load_state_dict(one.state_dict())
    assert other(SRC, TGT_IN).equal(one(SRC, TGT_IN))


# One model, however it is asked


@ORDERS
def test_steps_equal_one_pass(around):  # O26
    model = make(around)
    whole = model(SRC, TGT_IN)
    state = model.start(SRC)
    for t in range(TGT_IN.size(1)):
        logits, state = model.step(TGT_IN[:, t], state)
        assert_close(logits, whole[:, t], rtol=0, atol=1e-12)


@pytest.mark.parametrize("sizes", [[7], [3, 4], [1, 5, 1]], ids=str)
def test_portions_equal_one_pass(sizes):  # O26
    model = make()
    state, rows = model.start(SRC), []
    for chunk in TGT_IN.split(sizes, dim=1):
        logits, state = model.extend(chunk, state)
        rows.append(logits)
    whole = model(SRC, TGT_IN)
    assert_close(torch.cat(rows, dim=1), whole, rtol=0, atol=1e-12)


def test_learned_positions_are_counted_on_in_steps():  # O26
    model = Transformer.from_config(
        tiny(), positional=lambda c: LearnedPositionalEncoding(32, 20)
    )
    state = model.start(SRC)
    whole = model(SRC, TGT_IN)
    for t in range(TGT_IN.size(1)):
        logits, state = model.step(TGT_IN[:, t], state)
        assert_close(logits, whole[:, t], rtol=0, atol=1e-12)


@torch.no_grad()
def test_reordered_rows_score_as_a_forced_pass_does():  # O27
    model = make(randomised=False)
    generator = torch.Generator().manual_seed(1)
    B = 6
    rows = torch.arange(3).repeat_interleave(2)
    src, state = SRC[rows], model.start(SRC).select(rows)
    token = torch.ones(B, dtype=torch.long)
    written, score = token[:, None], torch.zeros(B)
    for _ in range(8):
        logits, state = model.step(token, state)
        token = torch.randint(3, V, (B,), generator=generator)
        score = score + logits.log_softmax(-1)[torch.arange(B), token]
        written = torch.cat([written, token[:, None]], dim=1)
        rows = torch.randint(B, (B,), generator=generator)
        state, src = state.select(rows), src[rows]
        token, score, written = token[rows], score[rows], written[rows]
    assert_close(log_prob(model, src, written), score, rtol=0, atol=1e-10)


@ORDERS
def test_a_sentence_decodes_the_same_alone_and_in_a_batch(around):  # O28
    model = make(around)
    together = model(SRC, TGT_IN)
    for row, (n, m) in enumerate([(5, 7), (3, 3), (2, 5)]):
        alone = model(SRC[[row], :n], TGT_IN[[row], :m])
        inside = together[[row], :m]
        assert_close(inside, alone, rtol=0, atol=1e-12)


def test_the_order_of_a_batch_is_the_order_of_its_results():  # O28
    model, order = make(), torch.tensor([2, 0, 1])
    moved = model(SRC, TGT_IN)[order]
    assert_close(model(SRC[order], TGT_IN[order]), moved, rtol=0, atol=1e-12)


def test_a_changed_target_token_changes_nothing_before_it():  # O03
    model = make()
    other = TGT_IN.clone()
    other[:, 4] = 6
    before, after = model(SRC, TGT_IN), model(SRC, other)
    changed = TGT_IN[:, 4] != 6
    assert after[:, :4].equal(before[:, :4])
    assert (after != before)[changed, 4:].any(dim=-1).all()


def test_every_real_source_token_reaches_the_first_prediction():  # O04
    model = make()
    before = model(SRC[:1], TGT_IN[:1, :1])
    for s in range(SRC.size(1)):
        other = SRC[:1].clone()
        other[0, s] = 10
        assert not model(other, TGT_IN[:1, :1]).equal(before)


@pytest.mark.parametrize("S", [0, 1, 4])
def test_an_empty_source_is_one_like_any_other(S):  # O31
    model = make()
    empty = torch.zeros(1, S, dtype=torch.long)
    logits = model(empty, TGT_IN[:1])
    assert logits.isfinite().all()
    first, _ = model.step(TGT_IN[:1, 0], model.start(empty))
    assert_close(first, logits[:, 0], rtol=0, atol=1e-12)
    if S:
        padded = SRC.clone()
        padded[0] = 0
        inside = model(padded, TGT_IN)[:1]
        assert_close(inside, logits, rtol=0, atol=1e-12)


def test_a_source_of_padding_poisons_no_gradient():  # O31
    model = make(randomised=False)
    src = SRC.clone()
    src[1] = 0
    model(src, TGT_IN)[0].sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())


def test_it_keeps_the_protocol():
    model = make()
    assert isinstance(model, Seq2Seq)
    assert isinstance(model.start(SRC), State)


# Its parts


def test_dropout_acts_on_the_sum_of_embedding_and_position():  # O16
    model = make(p_drop=0.5, randomised=False).train()
    seen = []
    model.encoder.register_forward_pre_hook(lambda _, a: seen.append(a[0]))
    model(SRC, TGT_IN)
    total = model.positional(model.src_embedding(SRC))
    kept = seen[0] != 0
    assert 0.3 < kept.double().mean() < 0.7
    assert_close(seen[0][kept], 2 * total[kept])


def test_evaluation_is_without_dropout():  # O09
    model = make(p_drop=0.5)
    before = torch.get_rng_state()
    assert model(SRC, TGT_IN).equal(model(SRC, TGT_IN))
    assert torch.get_rng_state().equal(before)
    model.train()
    assert not model(SRC, TGT_IN).equal(model(SRC, TGT_IN))


def test_a_part_is_replaced_by_passing_another():
    config = tiny()
    built = [
        Transformer.from_config(config, feed_forward=lambda c: nn.Identity()),
        Transformer.from_config(config, positional=lambda c: NoPosition()),
        Transformer.from_config(config, residual=lambda c: NoResidual()),
        Transformer.from_config(
            config, attention=lambda c: MultiHeadAttention(32, 2, bias=True)
        ),
    ]
    n = n_parameters(Transformer.from_config(config))
    ffn, biases = 2 * 32 * 64 + 64 + 32, 6 * 4 * 32
    counts = [n_parameters(model) for model in built]
    assert counts == [n - 4 * ffn, n, n, n + biases]
    for model in built:
        assert model(SRC, TGT_IN).shape == (3, 7, V)


def test_another_decoder_is_used_throughout():
    class Loud(Decoder):
        calls = 0

        def extend(self, x, state):
            Loud.calls += 1
            return super().extend(x, state)

    model = Transformer.from_config(tiny(), decoder=Loud)
    model.step(TGT_IN[:, 0], model.start(SRC))
    assert Loud.calls == 1


def test_languages_may_have_vocabularies_of_their_own():
    shared = make()
    source, target = TokenEmbedding(V, 32), TokenEmbedding(20, 32)
    stacks = shared.positional, shared.encoder, shared.decoder
    model = Transformer(source, *stacks, tgt_embedding=target)
    logits = model(SRC, TGT_IN + 9)
    assert logits.shape == (3, 7, 20)
    output = nn.Linear(32, 5)
    model = Transformer(source, *stacks, tgt_embedding=target, output=output)
    assert model(SRC, TGT_IN + 9).shape == (3, 7, 5)
    assert "output.weight" in model.state_dict()


# Bad input


@pytest.mark.bad_input
def test_an_unknown_part_is_refused_by_name():
    with pytest.raises(TypeError, match="feedforward"):
        Transformer.from_config(tiny(), feedforward=nn.Identity)


@pytest.mark.bad_input
def test_an_odd_width_is_refused():  # O10
    config = tiny(d_model=5, n_heads=1)
    with pytest.raises(ValueError, match="d_model must be even, got 5"):
        Transformer.from_config(config)


@pytest.mark.bad_input
def test_what_is_too_long_is_refused_with_both_lengths():  # O11
    model = make(max_len=5)
    model(SRC, TGT_IN[:, :5])  # exactly 5 passes
    with pytest.raises(ValueError, match=r"6.*5"):
        model(SRC, TGT_IN[:, :6])
    with pytest.raises(ValueError, match=r"6.*5"):
        model(torch.ones(1, 6, dtype=torch.long), TGT_IN[:1, :1])
    state = model.start(SRC)
    _, state = model.extend(TGT_IN[:, :4], state)
    with pytest.raises(ValueError, match=r"6.*5"):
        model.extend(TGT_IN[:, 4:6], state)


@pytest.mark.bad_input
def test_an_id_outside_the_vocabulary_is_named_with_its_place():  # O14
    model = make()
    bad = SRC.clone()
    bad[1, 2] = V
    with pytest.raises(ValueError, match=r"11 at row 1, column 2"):
        model(bad, TGT_IN)
    with pytest.raises(TypeError):
        model(SRC.double(), TGT_IN)


@pytest.mark.bad_input
def test_sources_and_targets_of_different_number_are_refused():
    with pytest.raises(ValueError, match=r"\(3, 1, 5\).*\(2, 7, 5\)"):
        make()(SRC, TGT_IN[:2])
