"""Models by name, and one that translates both ways: chapter 20a."""

import pytest
import torch
from torch.testing import assert_close

from transformer_lib.encoder import TransformerConfig
from transformer_lib.models import MODELS, SIZES, TwoWays, build
from transformer_lib.rnn import AttentionRNN, ContextRNN, SimpleRNN
from transformer_lib.seq2seq import BOS, EOS, PAD, Seq2Seq, log_prob
from transformer_lib.transformer import Transformer

from tiny import SMALL


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("transformer", Transformer),
        ("two-way", TwoWays),
        ("simple-rnn", SimpleRNN),
        ("context-rnn", ContextRNN),
        ("attention-rnn", AttentionRNN),
    ],
)
def test_every_name_builds_its_model(name, kind):
    model = build(name, vocab_size=50, **SMALL[name])
    assert type(model) is kind
    assert isinstance(model, Seq2Seq)
    mark = [51] if name == "two-way" else []
    src = torch.tensor([[*mark, 5, EOS]])
    logits = model(src, torch.tensor([[BOS, 7, 8]]))
    assert logits.shape == (1, 3, 50)
    assert MODELS.keys() == SIZES.keys()


def test_the_norm_stands_where_it_is_asked_to():
    pre, post, usual = (
        build("transformer", vocab_size=50, **SMALL["transformer"], **norm)
        for norm in ({"norm": "pre"}, {"norm": "post"}, {})
    )
    names = [set(m.state_dict()) for m in (pre, post, usual)]
    final = {n for n in names[0] if "final_norm" in n}
    assert final
    assert names[0] - names[1] == final
    assert names[0] == names[2]


def test_sizes_that_are_not_named_are_those_of_the_table():
    model = build("transformer", vocab_size=50, d_model=64)
    assert model.src_embedding.weight.shape == (50, 64)
    assert (
        len(model.encoder.layers) == SIZES["transformer"]["n_encoder_layers"]
    )


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("name", "sizes", "says"),
    [
        ("lstm", {}, "'lstm': there are transformer, two-way, si"),
        ("simple-rnn", {"n_heads": 2}, "'n_heads'; it has vocab_size, d_em"),
        ("transformer", {"depth": 2}, "'depth'.*n_decoder_layers.*norm"),
        ("transformer", {"norm": "mid"}, "'mid', expected 'pre' or 'post'"),
        ("transformer", {"n_heads": 3}, "3"),
    ],
)
def test_what_there_is_not_is_refused_with_what_there_is(name, sizes, says):
    with pytest.raises(ValueError, match=says):
        build(name, vocab_size=50, **sizes)


# One model, two languages to write

FIRST, SECOND = 20, 21
SRC = torch.tensor([[FIRST, 5, 6, 7, EOS], [SECOND, 8, 9, EOS, PAD]])
TGT = torch.tensor([[BOS, 3, 4, EOS], [BOS, 7, EOS, PAD]])


@pytest.fixture
def model():
    config = TransformerConfig.tiny(20, d_model=16, d_ff=16, n_heads=2)
    torch.manual_seed(0)
    return TwoWays.from_config(config).double().eval()


def test_the_memory_is_that_of_the_words_with_a_vector_added(model):
    memory, mask = model.encode(SRC)
    assert mask[:, 0].tolist() == [[True] * 4, [True] * 3 + [False]]
    x = 4 * model.src_embedding.weight[SRC[:, 1:]]
    x = x + 4 * model.languages.weight[[0, 1]][:, None]
    assert_close(memory, model.encoder(model.positional(x), mask))


def test_sentences_of_either_direction_share_a_batch(model):
    together = log_prob(model, SRC, TGT)
    alone = [log_prob(model, SRC[:1], TGT[:1])]
    alone += [log_prob(model, SRC[1:, :4], TGT[1:, :3])]
    assert_close(together, torch.cat(alone))
    turned = SRC.clone()
    turned[:, 0] = FIRST + SECOND - SRC[:, 0]
    assert ((log_prob(model, turned, TGT) - together).abs() > 1e-3).all()


def test_without_vectors_it_is_the_model_of_one_direction(model):
    torch.nn.init.zeros_(model.languages.weight)
    config = TransformerConfig.tiny(20, d_model=16, d_ff=16, n_heads=2)
    plain = Transformer.from_config(config).double().eval()
    state = model.state_dict()
    del state["languages.weight"]
    plain.load_state_dict(state)
    assert_close(log_prob(model, SRC, TGT), log_prob(plain, SRC[:, 1:], TGT))


def test_steps_give_what_one_pass_gives(model):
    state, whole = model.start(SRC), model(SRC, TGT)
    assert whole.shape == (2, 4, 20)  # no logit of a mark
    for t in range(4):
        logits, state = model.step(TGT[:, t], state)
        assert_close(logits, whole[:, t])


@pytest.mark.bad_input
@pytest.mark.parametrize("first", [5, 19, 22])
def test_a_source_without_a_mark_is_refused(model, first):
    src = SRC.clone()
    src[1, 0] = first
    with pytest.raises(ValueError, match=f"20, {first}.*expected 20 or 21"):
        model(src, TGT)
