"""The codes of chapter 6 and the three modules that add them."""

import copy
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from transformer_lib.positional_encoding import (
    LearnedPositionalEncoding,
    NoPosition,
    SinusoidalPositionalEncoding,
    frequencies,
    sinusoids,
)

F64 = torch.float64
steady = settings(deadline=None, derandomize=True)
even_widths = st.integers(1, 40).map(lambda half: 2 * half)
positions = st.integers(0, 400)


def by_loop(pos: float, d_model: int) -> torch.Tensor:
    """The definition, letter by letter."""
    row = []
    for i in range(d_model // 2):
        angle = pos / 10000 ** (2 * i / d_model)
        row += [math.sin(angle), math.cos(angle)]
    return torch.tensor(row, dtype=F64)


def turned_by(k: int, code: torch.Tensor) -> torch.Tensor:
    """R_k applied to a code, pair by pair."""
    out = torch.empty_like(code)
    for i in range(len(code) // 2):
        angle = k / 10000 ** (2 * i / len(code))
        c, s = math.cos(angle), math.sin(angle)
        sine, cosine = code[2 * i], code[2 * i + 1]
        out[2 * i] = c * sine + s * cosine
        out[2 * i + 1] = -s * sine + c * cosine
    return out


def embeddings(*shape: int, dtype: torch.dtype = torch.float32):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(*shape, generator=generator).to(dtype)


def encodings(d_model: int, max_len: int):
    return [
        SinusoidalPositionalEncoding(d_model, max_len),
        LearnedPositionalEncoding(d_model, max_len),
    ]


EACH = pytest.mark.parametrize(
    "encoding",
    [*encodings(4, 5), NoPosition()],
    ids=["sinusoidal", "learned", "none"],
)
WITH_TABLE = pytest.mark.parametrize(
    "encoding", encodings(4, 5), ids=["sinusoidal", "learned"]
)


# The table


@steady
@given(d_model=even_widths, n=st.integers(0, 60))
def test_the_table_is_the_definition(d_model, n):
    table = sinusoids(n, d_model, dtype=F64)
    assert table.shape == (n, d_model)
    for pos in range(n):
        assert_close(table[pos], by_loop(pos, d_model), atol=1e-12, rtol=0)


def test_frequencies_fall_from_one_by_a_constant_ratio():
    omega = frequencies(512)
    assert omega[0] == 1
    ratio = torch.full((255,), 10000 ** (-2 / 512), dtype=F64)
    assert_close(omega[1:] / omega[:-1], ratio, atol=1e-14, rtol=0)


@steady
@given(d_model=even_widths, pos=positions, k=positions)
def test_a_step_is_a_rotation_that_knows_no_position(d_model, pos, k):
    table = sinusoids(pos + k + 1, d_model, dtype=F64)
    moved = turned_by(k, table[pos])
    assert_close(moved, table[pos + k], atol=1e-10, rtol=0)


@steady
@given(d_model=even_widths, p=positions, q=positions)
def test_inner_products_depend_on_the_distance_only(d_model, p, q):
    table = sinusoids(401, d_model, dtype=F64)
    wanted = sum(
        math.cos((p - q) / 10000 ** (2 * i / d_model))
        for i in range(d_model // 2)
    )
    assert math.isclose(table[p] @ table[q], wanted, abs_tol=1e-10)


def test_every_code_has_length_root_of_half_the_width():
    norms = sinusoids(4096, 64, dtype=F64).norm(dim=1)
    assert_close(norms, torch.full((4096,), 32**0.5, dtype=F64))


@pytest.mark.parametrize("d_model", [2, 4, 16, 512])
def test_no_two_of_4096_positions_share_a_code(d_model):
    assert len(sinusoids(4096, d_model).unique(dim=0)) == 4096


def test_the_table_takes_torch_s_default_dtype():
    assert sinusoids(3, 4).dtype == torch.float32
    torch.set_default_dtype(F64)
    try:
        assert sinusoids(3, 4).dtype == F64
    finally:
        torch.set_default_dtype(torch.float32)


# O12: computed in float64, cast last


@pytest.mark.parametrize(
    ("dtype", "n", "bound"),
    [(torch.float16, 4096, 2.5e-4), (torch.bfloat16, 1024, 2.0e-3)],
)
class TestHalfPrecision:
    def check(self, codes, n, bound):
        right = sinusoids(n, 16, dtype=F64)
        assert (codes.double() - right).abs().max() < bound
        assert not (codes[1:] == codes[:-1]).all(1).any()

    def test_a_half_table_is_rounded_once(self, dtype, n, bound):
        self.check(sinusoids(n, 16, dtype=dtype), n, bound)

    def test_a_module_made_half_keeps_its_codes(self, dtype, n, bound):
        encoding = SinusoidalPositionalEncoding(16, n).to(dtype)
        codes = encoding(torch.zeros(1, n, 16, dtype=dtype))[0]
        assert codes.dtype == dtype
        self.check(codes, n, bound)

    def test_autocast_keeps_the_codes(self, dtype, n, bound):
        encoding = SinusoidalPositionalEncoding(16, n)
        with torch.autocast("cpu", dtype=dtype):
            codes = encoding(torch.zeros(1, n, 16))[0]
            halves = encoding(torch.zeros(1, n, 16, dtype=dtype))[0]
        assert torch.equal(codes, sinusoids(n, 16))
        assert halves.dtype == dtype
        self.check(halves, n, bound)

    def test_half_and_back_is_exact(self, dtype, n, bound):
        encoding = SinusoidalPositionalEncoding(16, n).to(dtype).float()
        assert torch.equal(encoding.table, sinusoids(n, 16))

    def test_built_under_a_half_default_dtype(self, dtype, n, bound):
        torch.set_default_dtype(dtype)
        try:
            encoding = SinusoidalPositionalEncoding(16, n)
        finally:
            torch.set_default_dtype(torch.float32)
        codes = encoding(torch.zeros(1, n, 16))[0]
        assert torch.equal(codes, sinusoids(n, 16))


def test_the_sum_is_rounded_once():
    x = embeddings(1, 512, 16, dtype=torch.bfloat16)
    encoding = SinusoidalPositionalEncoding(16).bfloat16()
    exact = x.double() + sinusoids(512, 16).double()
    assert torch.equal(encoding(x).float(), exact.bfloat16().float())


def test_double_makes_the_table_exact_to_float64():
    encoding = SinusoidalPositionalEncoding(16, 300).double()
    zeros = torch.zeros(1, 300, 16, dtype=F64)
    assert torch.equal(encoding(zeros)[0], sinusoids(300, 16, dtype=F64))


# The modules


@EACH
@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float32, F64]
)
def test_the_result_has_the_shape_and_dtype_of_x(encoding, dtype):
    x = embeddings(2, 3, 4, dtype=dtype)
    out = encoding(x)
    assert out.shape == x.shape
    assert out.dtype == dtype


@EACH
def test_parts_read_one_after_the_other_get_the_codes_of_the_whole(encoding):
    x = embeddings(2, 5, 4)
    parts = [encoding(x[:, :2]), encoding(x[:, 2:3], 2), encoding(x[:, 3:], 3)]
    assert torch.equal(torch.cat(parts, dim=1), encoding(x, start=0))


@EACH
def test_every_sentence_of_a_batch_gets_the_same_codes(encoding):
    x = embeddings(3, 5, 4)
    for b in range(3):
        assert torch.equal(encoding(x)[b], encoding(x[b : b + 1])[0])


@EACH
def test_x_is_not_changed_in_place(encoding):
    x = embeddings(2, 5, 4)
    before = x.clone()
    encoding(x)
    assert torch.equal(x, before)


@EACH
def test_the_gradient_reaches_x_unchanged(encoding):
    x = embeddings(2, 5, 4).requires_grad_()
    arriving = embeddings(2, 5, 4).flip(0)
    (dx,) = torch.autograd.grad((encoding(x) * arriving).sum(), x)
    assert torch.equal(dx, arriving)


@EACH
def test_an_empty_sequence_passes(encoding):
    assert encoding(torch.empty(2, 0, 4), start=5).shape == (2, 0, 4)


def test_the_sinusoidal_module_adds_the_table():
    x = embeddings(2, 5, 4)
    encoding = SinusoidalPositionalEncoding(4, max_len=9)
    wanted = torch.stack([by_loop(pos, 4) for pos in range(3, 8)])
    assert_close(encoding(x, start=3), x + wanted.float())


def test_the_learned_module_adds_its_rows():
    x = embeddings(2, 3, 4)
    encoding = LearnedPositionalEncoding(4, 8)
    out = encoding(x, start=2)
    for b in range(2):
        for t in range(3):
            assert torch.equal(out[b, t], x[b, t] + encoding.table[2 + t])


def test_without_positions_x_comes_back():
    x = embeddings(2, 3, 4)
    assert NoPosition()(x, start=7) is x


def test_the_sinusoidal_table_is_in_no_state_dict():
    encoding = SinusoidalPositionalEncoding(8, 20)
    assert not encoding.state_dict()
    assert not list(encoding.parameters())
    encoding.load_state_dict({}, strict=True)


def test_the_learned_table_is_a_parameter_and_starts_as_long_as_a_code():
    torch.manual_seed(0)
    encoding = LearnedPositionalEncoding(64, 2000)
    assert list(encoding.state_dict()) == ["table"]
    squares = encoding.table.detach().pow(2).sum(1)
    assert abs(squares.mean() - 32) < 0.5


def test_a_learned_row_gets_the_sum_over_the_batch_and_unseen_rows_none():
    encoding = LearnedPositionalEncoding(4, 7).double()
    x = embeddings(3, 5, 4, dtype=F64)
    h = encoding(x)
    h.retain_grad()
    (torch.tanh(h).cumsum(1) ** 2).sum().backward()
    for p in range(5):
        total = h.grad[0, p] + h.grad[1, p] + h.grad[2, p]
        assert_close(encoding.table.grad[p], total)
    assert (encoding.table.grad[5:] == 0).all()


def test_a_copy_keeps_the_codes():
    encoding = SinusoidalPositionalEncoding(8, 20)
    x = embeddings(1, 20, 8)
    assert torch.equal(copy.deepcopy(encoding)(x), encoding(x))


# Any device


def test_nothing_is_made_on_the_wrong_device():
    x = torch.empty(2, 5, 4, device="meta")
    for encoding in encodings(4, 5):
        assert encoding.to("meta")(x).device.type == "meta"
    assert sinusoids(5, 4, device="meta").device.type == "meta"
    with torch.device("meta"):
        assert sinusoids(5, 4).device.type == "meta"
        assert sinusoids(5, 4, device="cpu").device.type == "cpu"
        for encoding in encodings(4, 5):
            assert encoding.table.device.type == "meta"


def test_a_module_built_on_meta_and_filled_later_has_the_right_codes():
    with torch.device("meta"):
        encoding = SinusoidalPositionalEncoding(16, 300)
    encoding = encoding.to_empty(device="cpu")
    encoding.load_state_dict({}, strict=True)
    assert torch.equal(encoding.table, sinusoids(300, 16))


# O10, O11: what is refused, and how it is said


@pytest.mark.bad_input
@pytest.mark.parametrize("d_model", [1, 3, 5, 29])  # O10
@pytest.mark.parametrize(
    "make",
    [lambda d: sinusoids(3, d), SinusoidalPositionalEncoding, frequencies],
)
def test_an_odd_width_is_refused_by_its_name(make, d_model):
    with pytest.raises(
        ValueError, match=f"d_model must be even, got {d_model}"
    ):
        make(d_model)


@pytest.mark.bad_input
@pytest.mark.parametrize("d_model", [0, -2])
def test_a_width_below_two_is_refused(d_model):
    with pytest.raises(
        ValueError, match=f"d_model must be at least 2, got {d_model}"
    ):
        sinusoids(3, d_model)


def test_a_learned_table_may_have_an_odd_width():
    assert LearnedPositionalEncoding(3, 5)(torch.zeros(1, 5, 3)).shape[2] == 3


@pytest.mark.bad_input
@WITH_TABLE
@pytest.mark.parametrize(("n", "start"), [(6, 0), (2, 4), (1, 5)])  # O11
def test_too_long_a_sequence_is_refused_with_both_numbers(encoding, n, start):
    with pytest.raises(ValueError, match=r"\b6 positions.*max_len is 5\b"):
        encoding(torch.zeros(1, n, 4), start)


@WITH_TABLE
@pytest.mark.parametrize(("n", "start"), [(5, 0), (1, 4), (2, 3)])  # O11
def test_exactly_max_len_positions_pass(encoding, n, start):
    encoding(torch.zeros(1, n, 4), start)


def test_row_five_of_a_longer_table():  # O11
    right = torch.tensor([-0.958924, 0.283662, 0.049979, 0.998750])
    assert_close(sinusoids(6, 4)[5], right, atol=1e-6, rtol=0)


@pytest.mark.bad_input
@EACH
def test_a_negative_start_is_refused(encoding):
    with pytest.raises(ValueError, match="start must be at least 0, got -1"):
        encoding(torch.zeros(1, 2, 4), start=-1)


@pytest.mark.bad_input
@WITH_TABLE
@pytest.mark.parametrize("shape", [(1, 2, 3), (1, 2, 1), (2, 4), (1, 2, 2, 4)])
def test_a_wrong_shape_is_refused_even_if_it_would_broadcast(encoding, shape):
    with pytest.raises(ValueError, match=r"expected \(B, T, 4\)") as refused:
        encoding(torch.zeros(shape))
    assert str(shape) in str(refused.value)


@pytest.mark.bad_input
@WITH_TABLE
@pytest.mark.parametrize(
    ("shape", "hint"),
    [
        ((1, 2, 3), "d_model of the embeddings"),
        ((2, 4), "add the batch axis"),
        ((4,), "three axes"),
        ((1, 2, 2, 4), "three axes"),
    ],
)
def test_a_wrong_shape_gets_the_hint_that_mends_it(encoding, shape, hint):
    with pytest.raises(ValueError, match=hint):
        encoding(torch.zeros(shape))


@pytest.mark.bad_input
@WITH_TABLE
@pytest.mark.parametrize("shape", [(2, 3), (1, 2, 4)])
def test_token_ids_are_refused_as_ids_whatever_their_shape(encoding, shape):
    with pytest.raises(TypeError, match="embeddings, not token ids"):
        encoding(torch.zeros(shape, dtype=torch.long))


@pytest.mark.bad_input
@EACH
@pytest.mark.parametrize("start", [2.0, "2", None])
def test_a_start_that_is_no_whole_number_is_refused(encoding, start):
    with pytest.raises(TypeError, match="start must be a whole number"):
        encoding(torch.zeros(1, 2, 4), start)


@pytest.mark.bad_input
@pytest.mark.parametrize("dtype", [torch.long, torch.bool, torch.complex64])
def test_a_table_of_whole_numbers_is_refused(dtype):
    with pytest.raises(TypeError, match=f"floating-point type, got {dtype}"):
        sinusoids(3, 4, dtype=dtype)


@pytest.mark.bad_input
@pytest.mark.parametrize(("d_model", "max_len"), [(4, -4), (-4, 4), (0, 4)])
def test_a_learned_table_of_no_size_is_refused(d_model, max_len):
    with pytest.raises(ValueError, match="max_len ≥ 0 and d_model ≥ 1"):
        LearnedPositionalEncoding(d_model, max_len)


@pytest.mark.bad_input
def test_a_negative_number_of_positions_is_refused():
    with pytest.raises(ValueError, match="got -1"):
        sinusoids(-1, 4)
