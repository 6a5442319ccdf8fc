"""joeynmt, in a virtual environment of its own, for so many minutes.

    python benchmarks/translation/joey.py DATA OUT --minutes 30 --rate 0.25

`--rate` is the factor of its noam schedule, at whose peak (250 steps) the
rate is 0.004 times it.
"""

import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import yaml
from common import arguments, keep, read, texts

HERE = Path(__file__).parent
PLACE = HERE / ".joeynmt"  # its environment, made on the first call
NEEDS = ["torch==2.13.0", "joeynmt==2.3.0", "importlib-metadata", "setuptools"]
WARMUP = 250  # about a third of the steps of half an hour on two cores


def python() -> Path:
    found = PLACE / "bin" / "python"
    if not found.is_file():
        subprocess.run([sys.executable, "-m", "venv", PLACE], check=True)
        subprocess.run(
            [found, "-m", "pip", "install", "-q", *NEEDS], check=True
        )
    return found


def config(data: Path, out: Path, rate: float) -> dict:
    side = {"level": "word", "max_length": 100, "voc_limit": 10_000,
            "voc_min_freq": 1, "lowercase": False,
            "voc_file": str(out / "pieces.txt")}  # fmt: skip
    stack = {
        "type": "transformer", "num_layers": 3, "num_heads": 4,
        "hidden_size": 256, "ff_size": 1024, "dropout": 0.1,
        "layer_norm": "pre",
        "embeddings": {"embedding_dim": 256, "scale": True, "dropout": 0.0},
    }  # fmt: skip
    return {
        "name": "tatoeba",
        "joeynmt_version": "2.3.0",
        "model_dir": str(out / "model"),
        "use_cuda": False,
        "random_seed": 42,
        "data": {
            "train": str(data / "train"), "dev": str(data / "valid"),
            "test": str(data / "test"), "dataset_type": "plain",
            "src": side | {"lang": "source"},
            "trg": side | {"lang": "target"},
        },
        "testing": {
            "batch_size": 2048, "batch_type": "token", "beam_size": 4,
            "beam_alpha": 0.6, "max_output_length": 100,
            "eval_metrics": ["bleu"],
        },
        "training": {
            "optimizer": "adam", "adam_betas": [0.9, 0.98],
            "scheduling": "noam", "learning_rate_factor": rate,
            "learning_rate_warmup": WARMUP, "learning_rate": 1e-4,
            "learning_rate_min": 1e-9, "label_smoothing": 0.1,
            "loss": "crossentropy", "normalization": "tokens",
            "batch_size": 3072, "batch_type": "token", "epochs": 1000,
            "validation_freq": 1_000_000, "logging_freq": 10,
            "early_stopping_metric": "ppl", "overwrite": True,
        },
        "model": {
            "initializer": "xavier_uniform", "init_gain": 1.0,
            "embed_initializer": "xavier_uniform", "embed_init_gain": 1.0,
            "bias_initializer": "zeros", "tied_embeddings": True,
            "tied_softmax": True, "encoder": stack, "decoder": stack,
        },
    }  # fmt: skip


def main() -> None:
    args = arguments(__doc__)
    data, out = args.data, args.out
    shutil.rmtree(out / "model", ignore_errors=True)
    # A run in the background inherits that Ctrl-C is ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # One vocabulary for both sides, so that they can share a matrix.
    sides = [read(data / f"train.{side}") for side in ("source", "target")]
    pieces = {i for lines in sides for ids in lines for i in ids}
    text = "".join(f"{i}\n" for i in sorted(pieces))
    (out / "pieces.txt").write_text(text)
    # It wants a target for the test, and never sees the right one.
    count = len(read(data / "test.source"))
    (data / "test.target").write_text("3\n" * count)
    path = out / "config.yaml"
    path.write_text(yaml.safe_dump(config(data, out, args.rate)))
    joey = [python(), "-m", "joeynmt"]
    begun = time.perf_counter()
    run = subprocess.Popen([*joey, "train", path, "--skip-test"], cwd=out)
    try:
        run.wait(60 * args.minutes)
    except subprocess.TimeoutExpired:
        run.send_signal(signal.SIGINT)  # it saves what it has
        run.wait()
    seconds = time.perf_counter() - begun
    log = (out / "model" / "train.log").read_text()
    rows = re.findall(r"Step:\s*(\d+).*?Tokens per Sec:\s*(\d+)", log)
    pace = sorted(int(tokens) for _, tokens in rows)
    [count] = re.findall(r"Total params:\s*(\d+)", log)[:1]
    last = max((out / "model").glob("*.ckpt"), key=os.path.getmtime)
    said = {
        "parameters": int(count), "rate": args.rate,
        "minutes": round(seconds / 60, 2), "steps": int(rows[-1][0]),
        "tokens a second": pace[len(pace) // 2],
        "valid": loss(joey, path, last, out),
    }  # fmt: skip
    lines = None
    if not args.no_test:
        with (data / "test.source").open() as source:
            found = subprocess.run(
                [*joey, "translate", with_model(path, last)], cwd=out,
                stdin=source, capture_output=True, text=True, check=True,
            ).stdout  # fmt: skip
        ids = [
            [int(i) for i in line.split() if i.isdigit()]
            for line in found.splitlines()
        ]
        lines = texts(data, ids)
    keep(out, said, lines)


def with_model(path: Path, checkpoint: Path) -> Path:
    chosen = yaml.safe_load(path.read_text())
    chosen["testing"]["load_model"] = str(checkpoint)
    other = path.with_name("test.yaml")
    other.write_text(yaml.safe_dump(chosen))
    return other


def loss(joey, path, checkpoint, out) -> float:
    """The loss a token on the pairs to choose by, by its own words."""
    chosen = yaml.safe_load(with_model(path, checkpoint).read_text())
    chosen["testing"] |= {"return_prob": "ref", "return_attention": True}
    chosen["data"]["test"] = chosen["data"]["dev"]
    other = path.with_name("valid.yaml")
    other.write_text(yaml.safe_dump(chosen))
    done = subprocess.run(
        [*joey, "test", other], cwd=out, capture_output=True, text=True
    )
    said = re.findall(r"ppl:\s*([\d.]+)", done.stdout + done.stderr)
    if not said:
        raise RuntimeError(done.stdout[-2000:] + done.stderr[-2000:])
    return round(math.log(float(said[-1])), 4)


if __name__ == "__main__":
    main()
