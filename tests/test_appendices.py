"""What the appendices point at is there, and the costs of chapter 21 hold."""

import ast
import importlib
import inspect
import math
import re
import sys
import tomllib
from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from transformer_lib.multi_head_attention import MultiHeadAttention

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "book" / "_ext"))

import formula_index  # noqa: E402

FORMULAS = formula_index.formulas()


def test_the_index_has_all_thirty_formulas_in_order():
    assert [f["number"] for f in FORMULAS] == [*range(1, 31)]


def test_every_equation_in_the_index_is_in_a_chapter():
    where = formula_index.chapters(ROOT / "notebooks")
    missing = {x for f in FORMULAS for x in f["labels"]} - where.keys()
    assert not missing, f"no chapter has the equations {sorted(missing)}"


def test_every_perturbed_equation_of_a_formula_is_in_the_index():
    """An equation may serve several formulas; it must stand with one."""
    known = {label for f in FORMULAS for label in f["labels"]}
    lost = set()
    for path in sorted((ROOT / "tests/perturbations").glob("*.toml")):
        listed = tomllib.loads(path.read_text(encoding="utf-8"))
        for change in listed.get("perturbation", []):
            if change.get("formula", 0) and not is_of_the_corpus(path):
                lost |= {change["equation"]} - known
    assert not lost, f"book/formulas.toml lacks {sorted(lost)}"


def is_of_the_corpus(path):
    """Chapters 2 and 3, and those on tools, stand beside the thirty."""
    return re.match(r"0[23]|1[4589]_|20", path.name) is not None


@pytest.mark.parametrize(
    "name", sorted({c for f in FORMULAS for c in f["code"]})
)
def test_every_function_in_the_index_exists_with_a_docstring(name):
    module, _, attribute = name.rpartition(".")
    found = getattr(
        importlib.import_module(f"transformer_lib.{module}"), attribute
    )
    assert inspect.getdoc(found)


@pytest.mark.parametrize(
    "name", sorted({t for f in FORMULAS for t in f["tests"]})
)
def test_every_test_in_the_index_exists(name):
    file, _, function = name.partition("::")
    tree = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))
    assert function in {getattr(node, "name", "") for node in tree.body}


def asked(q, k, v, *_, **__):
    """FLOPs of fused attention on the CPU, by the shapes (B, H, n, d)."""
    return 2 * math.prod(q[:3]) * k[2] * (k[3] + v[3])


def counted(f, *args):
    cpu = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    with FlopCounterMode(
        display=False, custom_mapping={cpu: asked}
    ) as counter:
        f(*args)
    return counter.get_total_flops()


def test_layers_cost_what_their_formulas_say():
    """Chapter 21's exponents, on the library's own layers: exact."""
    for d in (8, 16, 32):
        for n in (4, 16, 64, 256):
            x = torch.randn(1, n, d)
            attention = MultiHeadAttention(d, 2)
            flops = counted(attention, x, x)
            assert flops == 8 * n * d**2 + 4 * n**2 * d
            gru = torch.nn.GRU(d, d, batch_first=True)
            assert counted(gru, x) == 12 * n * d**2
            kernel = torch.nn.Conv1d(d, d, 3, padding=1)
            assert counted(kernel, x.mT) == 2 * 3 * n * d**2
