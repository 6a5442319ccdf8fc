"""What the library's translators of the grammar know of it.

They were trained by the commands in COMMANDS; train wrote the settings into
run.json, and they stand there as it left them.
"""

import hashlib
from pathlib import Path

import torch

from transformer_lib.__main__ import held_out, judge, scores
from transformer_lib.translator import Translator

SEEDS = [0]
KEYS = ["grammar-fr-en", "grammar-en-fr"]
STEPS = {"grammar-fr-en": 6000, "grammar-en-fr": 12000}
COMMANDS = {
    name: (
        "python -m transformer_lib train"
        f" --source {name.split('-')[1]} --set"
        " d_model=64 d_ff=256 n_heads=4 n_encoder_layers=2"
        " n_decoder_layers=2 p_drop=0 max_len=256 --sentences 400000"
        " --vocab 1200 --tokens 1024 --rate 0.005 --warmup 200"
        " --smoothing 0 --seed 0 --threads 1 --half"
        f" --steps {STEPS[name]} --out {name}"
    )
    for name in KEYS
}
SHIPPED = Path(__file__).parents[2] / "transformer_lib" / "pretrained"


def run(key):
    torch.set_num_threads(1)
    weights = (SHIPPED / key / "model.safetensors").read_bytes()
    found = {"trained by": COMMANDS[key]}
    found["sha256"] = hashlib.sha256(weights).hexdigest()
    translator = Translator.load(key)
    for part in ("test", "nouns", "length"):
        cases = held_out(translator, 1000, 1, part)
        judge(translator, cases)
        found[part] = scores(cases)
    return found
