"""What is recorded is what the model computes; what is drawn says so."""

import copy
import io

import matplotlib
import pytest
import torch
from torch.testing import assert_close

from transformer_lib.attention import (
    AdditiveAttention,
    Attention,
    BilinearAttention,
    ScaledDotProductAttention,
)
from transformer_lib.attention_maps import draw, record
from transformer_lib.decoding import beam_search, greedy_search
from transformer_lib.encoder import TransformerConfig
from transformer_lib.multi_head_attention import MultiHeadAttention
from transformer_lib.rnn import AttentionRNN, SimpleRNN
from transformer_lib.seq2seq import BOS, EOS, PAD
from transformer_lib.transformer import Transformer

matplotlib.use("agg")

SIZES = TransformerConfig.tiny(9, d_model=16, d_ff=16, n_heads=2)
SRC = torch.tensor([[3, 4, 5, EOS], [6, EOS, PAD, PAD]])
TGT = torch.tensor([[BOS, 7, 8, 3, 4], [BOS, 3, 5, EOS, PAD]])


def transformer(**parts):
    torch.manual_seed(0)
    return Transformer.from_config(SIZES, **parts).double().eval()


def rnn():
    torch.manual_seed(0)
    return AttentionRNN(9, 8, 8, AdditiveAttention(8, 8, 4)).double().eval()


# Recording


def test_every_attention_of_a_transformer_has_a_map_by_its_name():
    model = transformer()
    with record(model) as maps:
        model(SRC, TGT)
    shapes = {name: tuple(weights.shape) for name, weights in maps.items()}
    assert shapes == {
        **{f"encoder.layers.{i}.self_attention": (2, 2, 4, 4) for i in (0, 1)},
        **{f"decoder.layers.{i}.self_attention": (2, 2, 5, 5) for i in (0, 1)},
        **{
            f"decoder.layers.{i}.cross_attention": (2, 2, 5, 4) for i in (0, 1)
        },
    }
    assert next(iter(maps)) == "encoder.layers.0.self_attention"


def test_rows_sum_to_one_and_masked_keys_get_nothing():  # O37
    model = transformer()
    with record(model) as maps:
        model(SRC, TGT)
    for name, weights in maps.items():
        assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]).double())
        if name.startswith("decoder") and "self" in name:
            assert (weights.triu(1) == 0).all()
        else:
            assert (weights[1, :, :, 2:] == 0).all()


@pytest.mark.parametrize("make", [transformer, rnn])
def test_looking_changes_no_bit_of_the_output(make):
    model = make()
    with record(model):
        seen = model(SRC, TGT)
    assert torch.equal(seen, model(SRC, TGT))


def test_looking_changes_neither_training_s_dropout_nor_its_gradient():
    torch.manual_seed(0)
    mha = MultiHeadAttention(8, 2, attention=ScaledDotProductAttention(0.5))
    x = torch.randn(2, 4, 8)

    def gradient():
        torch.manual_seed(1)
        return torch.autograd.grad(mha(x, x).sum(), mha.w_q.weight)[0]

    plain = gradient()
    with record(mha) as maps:
        assert torch.equal(gradient(), plain)
    assert not maps["attention"].requires_grad


def test_a_map_holds_on_to_no_gradient():
    model = rnn()
    with record(model) as maps:
        assert model(SRC, TGT).requires_grad
    assert not maps["attention"].requires_grad


@pytest.mark.parametrize(
    "attention",
    [
        ScaledDotProductAttention(),
        BilinearAttention(4, 4),
        AdditiveAttention(4, 4, 3),
    ],
    ids=lambda attention: type(attention).__name__,
)
def test_the_map_is_the_attention_s_own_weights(attention):
    torch.manual_seed(0)
    mha = MultiHeadAttention(8, 2, attention=attention).double()
    x = torch.randn(2, 4, 8, dtype=torch.float64)
    mask = torch.rand(2, 4, 4) < 0.7
    right = mha.weights(x, x, mask)
    with record(mha) as maps:
        mha(x, x, mask)
    assert torch.equal(maps["attention"], right)


@pytest.mark.parametrize("make", [transformer, rnn])
def test_steps_give_the_map_of_the_forced_pass(make):
    model = make()
    with record(model) as forced:
        model(SRC, TGT)
    with record(model) as stepped:
        state = model.start(SRC)
        for token in TGT.T:
            _, state = model.step(token, state)
    assert forced.keys() == stepped.keys()
    for name, weights in forced.items():
        assert_close(stepped[name], weights, rtol=0, atol=1e-12)


def test_an_rnn_s_alignment_is_a_map_of_one_head():
    model = rnn()
    with record(model) as maps:
        model(SRC, TGT)
    assert maps["attention"].shape == (2, 1, 5, 4)
    assert (maps["attention"][1, :, :, 2:] == 0).all()


def test_a_greedy_translation_can_be_recorded():
    model = transformer()
    with record(model) as maps:
        (found,) = greedy_search(model, SRC[:1], 4)
    cross = maps["decoder.layers.1.cross_attention"]
    assert cross.shape == (1, 2, len(found.tokens), 4)


def test_a_second_pass_is_below_the_first_with_zeros_for_absent_keys():
    mha, x = MultiHeadAttention(8, 2).double(), torch.randn(1, 4, 8).double()
    short = x[:, :3]
    with record(mha) as maps:
        mha(x, x)
        mha(short, short)
    first, second = maps["attention"].split([4, 3], dim=-2)
    assert torch.equal(first, mha.weights(x, x))
    assert torch.equal(second[..., :3], mha.weights(short, short))
    assert (second[..., 3:] == 0).all()


def parts_of(model):
    return [(name, id(part)) for name, part in model.named_modules()]


@pytest.mark.parametrize("make", [transformer, rnn])
def test_all_parts_are_back_in_their_places_afterwards(make):
    model = make()
    before, names = parts_of(model), list(model.state_dict())
    with record(model):
        model(SRC, TGT)
        assert parts_of(model) != before
    assert parts_of(model) == before
    assert list(model.state_dict()) == names


def test_all_parts_are_back_after_an_error():
    model = transformer()
    before = parts_of(model)
    with pytest.raises(KeyError), record(model):
        raise KeyError
    assert parts_of(model) == before


def test_one_recording_in_another_sees_the_same():
    model = transformer()
    before = parts_of(model)
    with record(model) as outer, record(model) as inner:
        model(SRC, TGT)
    assert outer.keys() == inner.keys()
    for name in outer:
        assert torch.equal(outer[name], inner[name])
    assert parts_of(model) == before


@pytest.mark.parametrize("make", [transformer, rnn])
def test_recordings_may_end_in_any_order(make):
    model = make()
    before = parts_of(model)
    first, second, third = (record(model) for _ in range(3))
    first.__enter__()
    maps = second.__enter__()
    others = third.__enter__()
    first.__exit__(None, None, None)
    third.__exit__(None, None, None)
    model(SRC, TGT)
    assert maps
    assert not others
    second.__exit__(None, None, None)
    assert parts_of(model) == before


@pytest.mark.parametrize("make", [transformer, rnn])
def test_a_copy_made_while_looking_is_a_plain_model(make):
    model = make()
    plain = [(name, type(part)) for name, part in model.named_modules()]
    with record(model) as maps, record(model):
        twin = copy.deepcopy(model)
        seen = twin(SRC, TGT)
        assert not maps
    assert [(n, type(part)) for n, part in twin.named_modules()] == plain
    assert torch.equal(seen, model(SRC, TGT))
    for mine, its in zip(model.parameters(), twin.parameters(), strict=True):
        assert mine is not its


def test_parameters_keep_their_names_and_can_be_loaded_while_looking():
    model, state = rnn(), rnn().state_dict()
    state["attention.w"] += 1
    with record(model), record(model):
        assert list(model.state_dict()) == list(state)
        model.load_state_dict(state)
    assert torch.equal(model.attention.w, state["attention.w"])


def test_looking_leaves_training_and_evaluation_to_the_model():
    mha = MultiHeadAttention(8, 2, attention=ScaledDotProductAttention(0.5))
    attention = mha.attention.eval()
    with record(mha), record(mha):
        assert not attention.training
        mha.train()
        assert attention.training
        mha.eval()
        assert not attention.training
    assert not attention.training


def test_an_attention_shared_by_two_layers_has_a_map_in_each():
    shared = ScaledDotProductAttention()
    model = transformer(
        attention=lambda c: MultiHeadAttention(
            c.d_model, c.n_heads, attention=shared
        )
    )
    with record(model) as maps:
        model(SRC, TGT)
    assert len(maps) == 6


class Own(Attention):
    """Its output is more than its weights times the values."""

    def scores(self, q, k):
        return q @ k.mT

    def forward(self, q, k, v, mask=None):
        return super().forward(q, k, v, mask) + 1


def test_an_attention_with_an_output_of_its_own_keeps_it():
    torch.manual_seed(0)
    mha, x = MultiHeadAttention(8, 2, attention=Own()), torch.randn(1, 3, 8)
    plain = mha(x, x)
    with record(mha):
        assert torch.equal(mha(x, x), plain)


@pytest.mark.bad_input
def test_a_model_without_attention_is_named():
    with pytest.raises(ValueError, match="no Attention in SimpleRNN"):
        record(SimpleRNN(9, 8, 8)).__enter__()


@pytest.mark.bad_input
def test_a_changing_number_of_sentences_is_refused():
    model = transformer()
    with (
        record(model),
        pytest.raises(ValueError, match=r"maps of \(1, 2\), then \(2, 2\)"),
    ):
        beam_search(model, SRC[:1], beam=2, max_len=6)
    assert len(model(SRC, TGT)) == 2


# Drawing

WEIGHTS = torch.tensor([[0.5, 0.3, 0.2], [0.0, 0.1, 0.9]])


@pytest.fixture
def drawn():
    """Draws, and renders as the book does; closed afterwards."""
    import matplotlib.pyplot as plt

    def render(*args, **kwargs):
        fig = draw(*args, **kwargs)
        fig.savefig(io.BytesIO(), format="svg")
        return fig

    yield render
    plt.close("all")


def ticks(axis):
    positions = axis.get_ticklocs().tolist()
    labels = [label.get_text() for label in axis.get_ticklabels()]
    return list(zip(positions, labels, strict=True))


def test_rows_are_queries_from_the_top_and_columns_keys(drawn):  # O37
    ax, *_ = drawn(WEIGHTS, ["x", "y"], ["a", "b", "c"]).axes
    (image,) = ax.images
    assert_close(torch.tensor(image.get_array().data), WEIGHTS)
    assert ax.get_ylim() == (1.5, -0.5)  # row 0 on top
    assert ax.get_xlim() == (-0.5, 2.5)


def test_labels_stand_at_the_cells_they_name(drawn):  # O37
    ax, *_ = drawn(WEIGHTS, ["x", "y"], ["a", "b", "c"]).axes
    assert ticks(ax.xaxis) == [(0, "a"), (1, "b"), (2, "c")]
    assert ticks(ax.yaxis) == [(0, "x"), (1, "y")]


def test_one_query_and_one_key_make_a_map(drawn):  # O37
    ax, *_ = drawn(torch.ones(1, 1), ["x"], ["a"]).axes
    assert ticks(ax.xaxis) == [(0, "a")]


@pytest.mark.filterwarnings("ignore:Glyph")
@pytest.mark.parametrize("token", ["$", "$_$", "<pad>", "👋", "$x^$", "\\"])
def test_a_token_is_drawn_as_it_is_written(drawn, token):  # O37
    ax, *_ = drawn(WEIGHTS, [token, "y"], [token, "b", token]).axes
    assert ticks(ax.xaxis) == [(0, token), (1, "b"), (2, token)]
    assert not any(label.get_parse_math() for label in ax.get_xticklabels())
    assert not any(label.get_parse_math() for label in ax.get_yticklabels())


def test_many_heads_share_a_grid_and_a_colour_scale(drawn):  # O37
    heads = torch.rand(6, 2, 3)
    axes = drawn(heads, ["x", "y"], ["a", "b", "c"], across=4).axes
    panels = [ax for ax in axes if ax.images]
    assert [ax.get_title() for ax in panels] == [f"head {i}" for i in range(6)]
    for ax, head in zip(panels, heads, strict=True):
        assert_close(torch.tensor(ax.images[0].get_array().data), head)
        assert ax.images[0].get_clim() == (0, heads.max().item())
    rows = {round(ax.get_subplotspec().rowspan.start, 2) for ax in panels}
    assert rows == {0, 1}


def test_every_column_of_the_grid_is_labelled_at_its_foot(drawn):
    axes = drawn(torch.rand(6, 2, 3), ["x", "y"], ["a", "b", "c"]).axes
    panels = [ax for ax in axes if ax.images]
    feet = [ax.xaxis.get_tick_params()["labelbottom"] for ax in panels]
    assert feet == [False, False, True, True, True, True]


def test_a_figure_is_returned_and_not_shown(drawn, monkeypatch):  # O37
    import matplotlib.pyplot as plt

    monkeypatch.setattr(plt, "show", lambda: pytest.fail("was shown"))
    fig = drawn(WEIGHTS.requires_grad_(), "xy", "abc")
    assert isinstance(fig, matplotlib.figure.Figure)
    assert fig.get_size_inches()[0] <= 7.5


def test_a_figure_of_many_queries_stays_drawable(drawn):
    tall = draw(torch.rand(150, 1), ["x"] * 150, "a").get_size_inches()[1]
    assert tall < 22


def test_a_lone_surrogate_is_written_as_its_number(drawn):
    ax, *_ = drawn(WEIGHTS, ["\ud83d", "y"], ["a", "\udc80", "é"]).axes
    assert ticks(ax.yaxis) == [(0, "\\ud83d"), (1, "y")]
    assert ticks(ax.xaxis) == [(0, "a"), (1, "\\udc80"), (2, "é")]


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("shape", "across", "message"),
    [
        ((0, 2, 3), 4, "0 heads"),
        ((1, 0, 3), 4, "0 queries"),
        ((2, 0), 4, "0 keys"),
        ((2, 3), 0, "across=0"),
        ((2, 3), -1, "across=-1"),
    ],
)
def test_a_picture_of_nothing_is_refused(shape, across, message):
    weights = torch.ones(shape)
    with pytest.raises(ValueError, match=message):
        draw(weights, "x" * shape[-2], "a" * shape[-1], across)


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("rows", "columns", "message"),
    [("xyz", "abc", "3 labels for 2 rows"), ("xy", "ab", "2 .* 3 columns")],
)
def test_labels_that_do_not_fit_are_refused(rows, columns, message):  # O37
    with pytest.raises(ValueError, match=message):
        draw(WEIGHTS, rows, columns)


@pytest.mark.bad_input
def test_a_batch_of_maps_is_refused_by_shape():
    with pytest.raises(ValueError, match=r"\(1, 1, 2, 3\).*one sentence"):
        draw(WEIGHTS[None, None], "xy", "abc")
