"""The command line: train a translator, translate with it, evaluate it.

python -m transformer_lib translate "je suis étudiant"
"""

import argparse
import hashlib
import itertools
import json
import os
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from transformer_lib.attention_maps import draw
from transformer_lib.checkpoints import average, resume, save_checkpoint
from transformer_lib.corpus import Pair, read_pairs
from transformer_lib.distributed import agreed, join, leave, shared
from transformer_lib.grammar import (
    PARTS,
    PHENOMENA,
    corpus,
    pronoun_of,
    references,
)
from transformer_lib.loss import Batches
from transformer_lib.loss import evaluate as evaluate_loss
from transformer_lib.minutes import CONFIGS, planned
from transformer_lib.models import MODELS, SIZES
from transformer_lib.real_corpus import KNOWN, taught
from transformer_lib.recipe import (
    GRAMMAR,
    PRECISIONS,
    Settings,
    examples,
    lessons,
    parts,
    training_run,
)
from transformer_lib.tokenization import Tokenizer, make_batch
from transformer_lib.training import Training, train_until
from transformer_lib.translator import Translator, exact_match, normalise

PROGRAM = "python -m transformer_lib"

_CHECKPOINT, _LOG, _RUN = "checkpoint.safetensors", "log.jsonl", "run.json"
_WORDS, _ODD = "tokenizer.json", "odd_lines.tsv"
_LAST = "last-{}.safetensors"  # weights, this many checkpoints from the end


def train(args: argparse.Namespace) -> int:
    """Learns, and writes the translator into the folder of the run."""
    start, folder = time.monotonic(), Path(args.out)
    begun = _begun(folder) if args.resume else {}
    settings = _settings(args, begun, folder)
    device = _device(args.device or begun.get("device", "cpu"))
    join(device)
    if args.threads or begun:
        torch.set_num_threads(args.threads or begun["threads"])
    _say(f"{settings.corpus}: reading pairs")
    data, valid, odd = _read(settings)
    words = folder / _WORDS
    tokenizer = Tokenizer.load(words) if begun and words.is_file() else None
    made = _made(settings, data, tokenizer, device)
    if args.minutes and not begun:
        how = {"tokenizer": made[0].tokenizer, "device": device}
        left = args.minutes - (time.monotonic() - start) / 60
        settings, said = planned(settings, data, left, _made, agreed, **how)
        _say(said)
        made = _made(settings, data, **how)
    digest = hashlib.sha256(repr(data).encode()).hexdigest()
    if not begun:
        begun = {"settings": asdict(settings), "data": digest}
        begun |= {"threads": torch.get_num_threads(), "device": str(device)}
        begun["half"] = args.half
        begun["every"] = args.every or max(1, min(500, settings.steps // 8))
        if _first():
            _begin(folder, begun, odd, made[0].tokenizer)
    if digest != begun["data"]:
        raise ValueError(
            f"{settings.corpus} has changed since {folder} was begun: bring "
            "it back as it was, or begin another run"
        )
    every = args.every or begun["every"]
    half = args.half or begun.get("half", False)
    code = _go_on(folder, settings, every, half, valid, *made)
    leave()
    return code


def _made(settings: Settings, *args: Any, **how: Any) -> tuple:
    """As training_run; under torchrun with its batches shared."""
    translator, run, batches = training_run(settings, *args, **how)
    if int(os.environ.get("WORLD_SIZE", 1)) > 1:
        dtype = PRECISIONS[settings.precision]
        run, batches = shared(run, batches, dtype)
    return translator, run, batches


def _begin(
    folder: Path, begun: dict, odd: dict[int, str], tokenizer: Tokenizer
) -> None:
    """What a run needs to be resumed; run.json last, as it is the mark."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"{n}\t{why}\n" for n, why in sorted(odd.items())]
    _write(folder / _ODD, "".join(lines))
    _write(folder / _WORDS, tokenizer.bpe.to_str(pretty=True))
    _write(folder / _RUN, json.dumps(begun, indent=1) + "\n")


def _say(text: str) -> None:
    if _first():
        print(text, file=sys.stderr)


def _first() -> bool:
    """Whether this process is the one that speaks and writes."""
    return int(os.environ.get("RANK", 0)) == 0


def _read(
    settings: Settings,
) -> tuple[list[Pair], list[Pair], dict[int, str]]:
    """Pairs to learn from, pairs to watch it by, and the odd lines."""
    if settings.corpus == GRAMMAR:
        return examples(settings), [], {}
    odd: dict[int, str] = {}
    train, valid, test = parts(settings, odd)
    _say(
        f"{len(train)} pairs to learn from, {len(valid)} to watch it by, "
        f"{len(test)} to test with; {len(odd)} lines gave none"
    )
    if settings.corpus in KNOWN:
        _say(KNOWN[settings.corpus].credit)
    return lessons(train, settings), valid, odd


def _begun(folder: Path) -> dict[str, Any]:
    """What the folder's run was begun with; clears away what a kill left."""
    if not (folder / _RUN).is_file():
        raise FileNotFoundError(
            f"{folder} holds no run to go on with: leave out --resume"
        )
    for partial_file in folder.glob(".*.partial"):
        if partial_file.is_dir():
            shutil.rmtree(partial_file)
        else:
            partial_file.unlink()
    return json.loads((folder / _RUN).read_text(encoding="utf-8"))


def _settings(
    args: argparse.Namespace, begun: dict[str, Any], folder: Path
) -> Settings:
    """Those asked for, or those of the run that was begun."""
    names = {f.name for f in fields(Settings)} - {"sizes"}
    asked = {k: v for k, v in vars(args).items() if k in names}
    asked = {k: v for k, v in asked.items() if v is not None}
    if not begun:
        if any(not path.match(".*.partial") for path in folder.glob("*")):
            raise FileExistsError(
                f"{folder} is not empty: go on with the run in it by "
                "--resume, or name another folder as --out"
            )
        usual = CONFIGS.get(args.config, {})
        model = asked.get("model", Settings.model)
        sizes = usual.get("sizes", {}) | _sizes(args.set, model)
        return Settings(**usual | asked | {"sizes": sizes})
    old = begun["settings"]
    asked |= _sizes(args.set, old["model"])
    for name, value in asked.items():
        was = (old["sizes"] | old)[name]
        if value != was:
            raise ValueError(
                f"{name} {value}: the run in {folder} was begun with {was}, "
                "and to go on is to keep that; or begin another run"
            )
    return Settings(**old)


def _sizes(items: Iterable[str], model: str) -> dict[str, Any]:
    """The sizes in d_model=64, …, as numbers."""
    sizes, usual = {}, SIZES.get(model, {})
    for name, _, text in (item.partition("=") for item in items):
        if name not in usual:
            has = ", ".join(usual) or ", ".join(MODELS)
            raise ValueError(f"{model} has no size {name!r}: there are {has}")
        try:
            sizes[name] = type(usual[name])(text)
        except ValueError:
            raise ValueError(
                f"{name} is {text!r}, expected one like {usual[name]!r}"
            ) from None
    return sizes


def _go_on(
    folder: Path,
    settings: Settings,
    every: int,
    half: bool,
    valid: list[Pair],
    translator: Translator,
    run: Training,
    batches: Callable[[int], Batches],
) -> int:
    """Trains to the end, or to Ctrl-C; exit code."""
    checkpoint, alone = folder / _CHECKPOINT, type(run) is Training
    if _first():
        run.log = folder / _LOG
    else:
        run.no_bar = True
    call = f"{PROGRAM} {{}} {shlex.quote(str(folder))}"

    def save(run: Training) -> None:
        left = settings.steps - run.step
        if left % every == 0 and left // every < settings.average > 1:
            if _first():
                path = folder / _LAST.format(left // every)
                save_checkpoint(path, run.model)
        if run.step % every == 0 or left == 0:
            if _first():
                save_checkpoint(checkpoint, run, asdict(settings))
            else:  # which asks every process for its state
                run.state_dict()

    def watch(run: Training) -> dict[str, Any]:
        due = run.step % every == 0 or run.step == settings.steps
        if due and valid and _first():
            return {"valid": _quality(translator, valid)}
        return {}

    run.save, run.after_step = save, watch
    if checkpoint.is_file():
        resume(checkpoint, run)
    elif _first():
        run.log.unlink(missing_ok=True)
    try:
        train_until(run, batches, settings.steps)
    except KeyboardInterrupt:
        if not alone:  # the others may be at another step
            raise
        old = signal.signal(signal.SIGINT, signal.SIG_IGN)  # this is short
        if run.history and "valid" not in run.history[-1]:
            run.history[-1] |= watch(run)  # the interrupt may have cut it
        save_checkpoint(checkpoint, run, asdict(settings))
        signal.signal(signal.SIGINT, old)
        print(f"\nstopped and saved after step {run.step}; to go on:")
        print("  " + call.format("train --resume --out"))
        return 130
    if not _first():
        return 0
    if settings.average > 1:
        each = [folder / _LAST.format(i) for i in range(settings.average)]
        mean = average(path for path in each if path.is_file())
        translator.model.load_state_dict(mean)
        if valid:
            found = _quality(translator, valid)
            _say(f"the mean of the last {settings.average}: {found}")
    translator.save(folder, half)
    print(f"the translator is in {folder}; to translate with it:")
    print("  " + call.format("translate --model"))
    return 0


WATCHED = 500  # sentences translated to watch a run by


def _quality(translator: Translator, valid: list[Pair]) -> dict[str, float]:
    """What was found on pairs held out; of a two-way model, each way."""
    if not translator.mark:
        return _measured(translator, valid)
    back = [Pair(p.target, p.source) for p in valid]
    return {
        "{} {source}-{target}".format(what, **way.config): number
        for way, pairs in [(translator, valid), (translator.turned(), back)]
        for what, number in _measured(way, pairs).items()
    }


def _measured(translator: Translator, valid: list[Pair]) -> dict[str, float]:
    """Loss a token, and BLEU of greedy search."""
    encode, found = translator.tokenizer.encode, []
    plain = taught(valid, translator.config["source"])
    for i in range(0, len(plain), 100):
        src, tgt = zip(*plain[i : i + 100], strict=True)
        src = [[*translator.mark, *encode(text)] for text in src]
        found.append(make_batch(src, [*map(encode, tgt)]))
    nll = evaluate_loss(translator.model, found)["nll"]
    cases = cases_of(valid, WATCHED)
    judge(translator, cases, beam=1)
    bleu = scores(cases, cased=True)["BLEU"][0]
    return {"nll": round(nll, 4), "BLEU": round(bleu, 2)}


def _write(path: Path, text: str) -> None:
    """Whole or not at all."""
    partial_file = path.with_name(f".{path.name}.partial")
    partial_file.write_text(text, encoding="utf-8")
    partial_file.replace(path)


def _device(name: str) -> torch.device:
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        why = str(error).splitlines()[0]
        raise ValueError(f"there is no device {name!r} here: {why}") from None


def _translator(args: argparse.Namespace) -> Translator:
    """The one asked for, into the language asked for."""
    args.model = args.model or "fr-en"
    found = Translator.load(args.model, _device(args.device or "cpu"))
    if not args.target or args.target == found.config["target"]:
        return found
    if found.mark and args.target == found.config["source"]:
        return found.turned()
    raise ValueError(
        f"{args.model} writes {found.config['target']}"
        f"{' and ' + found.config['source'] if found.mark else ''}, "
        f"not {args.target}: name another --model or --target"
    )


def translate(args: argparse.Namespace) -> int:
    """A line in, a line out; of n best, up to n lines."""
    translator = _translator(args)
    if not args.text and not args.file and sys.stdin.isatty():
        print("a sentence a line; Ctrl-D ends", file=sys.stderr)
        groups = ([line] for line in _lines(sys.stdin.buffer, "input"))
    else:
        groups = iter([_all_lines(args)])
    for lines in groups:
        with _bar(len(lines)) as bar:
            found = translator.translate(
                lines, args.beam, args.n_best, progress=bar.update
            )
        for best in found:
            for text, score in best:
                before = f"{score:.4f}\t" if args.n_best > 1 else ""
                print(before + text, flush=sys.stdin.isatty())
        if args.attention:
            _draw(translator, lines, args)
    return 0


def _bar(total: int) -> tqdm:
    """On terminals, and where there is time to look at it."""
    quiet = total < 100 or not sys.stderr.isatty()
    return tqdm(total=total, unit="line", disable=quiet)


def _all_lines(args: argparse.Namespace) -> list[str]:
    if args.text:
        texts = [os.fsencode(text) for text in args.text]
        return list(_lines(texts, "TEXT"))
    if args.file:
        with open(args.file, "rb") as file:
            return list(_lines(file, args.file))
    return list(_lines(sys.stdin.buffer, "input"))


def _lines(stream: Iterable[bytes], name: str) -> Iterator[str]:
    for number, line in enumerate(stream, 1):
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{name}, line {number}: byte {error.start + 1} is not UTF-8"
            ) from None
        yield text.removeprefix("\ufeff" if number == 1 else "").rstrip("\r\n")


def _draw(
    translator: Translator, lines: list[str], args: argparse.Namespace
) -> None:
    """Where the last layer looks in the source, a head a picture."""
    if len(lines) != 1:
        raise ValueError(f"--attention draws one sentence, not {len(lines)}")
    try:
        import matplotlib
    except ImportError:
        raise ValueError(
            "--attention needs matplotlib: pip install matplotlib"
        ) from None
    matplotlib.use("agg")
    read, written, maps = translator.attention(lines[0], args.beam)
    across = [name for name in maps if "encoder" not in name.split(".")]
    figure = draw(maps[across[-1]][0], written, read)
    figure.savefig(args.attention)


def evaluate(args: argparse.Namespace) -> int:
    """Counts what is right, and says it in the measures of the field."""
    if not args.pairs and args.corpus == GRAMMAR:
        args.model = args.model or "grammar-fr-en"
    translator = _translator(args)
    if args.pairs:
        report = {"model": args.model, "pairs": args.pairs}
        pairs = read_pairs(args.pairs, source=0, target=1)
        cases = cases_of(pairs, args.count)
    elif args.corpus != GRAMMAR:
        report = {"model": args.model, "corpus": args.corpus}
        ways = {k: translator.config[k] for k in ("source", "target")}
        some = Settings(corpus=args.corpus, columns=args.columns or [], **ways)
        pairs = parts(some)[("train", "valid", "test").index(args.part)]
        cases = cases_of(pairs, args.count or 1000)
    else:
        report = {"model": args.model, "part": args.part, "seed": args.seed}
        wanted = args.count or 1000, args.seed, args.part, args.phenomena
        cases = held_out(translator, *wanted)
    with _bar(len(cases)) as bar:
        judge(translator, cases, args.beam, bar.update)
    report |= {"beam": args.beam, "of": len(cases)}
    cased = translator.config.get("text") == "heard"
    report |= scores(cases, cased) | {"sentences": cases}
    _show(report)
    if args.json:
        text = json.dumps(report, ensure_ascii=False, indent=1) + "\n"
        _write(Path(args.json), text)
    return 0


Case = dict[str, Any]


def cases_of(found: Iterable[Pair], count: int | None) -> list[Case]:
    """The sources of pairs, each once, with its translations.

    Of more than `count` some from all over: files are often sorted by
    length, and the first of them would be the shortest.
    """
    right: dict[str, set[str]] = {}
    for pair in found:
        right.setdefault(pair.source, set()).add(pair.target)
    every, n = [*right.items()], min(count or len(right), len(right))
    some = (every[i * len(every) // n] for i in range(n))
    return [{"source": s, "references": sorted(r)} for s, r in some]


def held_out(
    translator: Translator,
    count: int,
    seed: int,
    part: str = "test",
    phenomena: Sequence[str] = PHENOMENA,
) -> list[Case]:
    """Sentences of the grammar with all their right translations.

    Raises ValueError for a translator of other languages.
    """
    source, target = (translator.config[k] for k in ("source", "target"))
    if {source, target} != {"fr", "en"}:
        raise ValueError(
            f"a translator from {source} to {target}, which the grammar has "
            "not: name a file as --pairs"
        )
    return [
        {
            "source": sentence.french if source == "fr" else sentence.english,
            "references": sorted(references(sentence, source)),
            "tags": sorted(sentence.tags),
        }
        for sentence in corpus(count, seed, part, phenomena)
    ]


def judge(
    translator: Translator,
    cases: Sequence[Case],
    beam: int = 4,
    progress: Callable[[int], Any] | None = None,
) -> None:
    """Adds to each case its translation, score, and whether it is right."""
    sources = [case["source"] for case in cases]
    found = translator.translate(sources, beam, progress=progress)
    for case, ((text, score),) in zip(cases, found, strict=True):
        right = exact_match([text], [case["references"]]) == 1
        case |= {"translation": text, "score": score, "right": right}


def scores(cases: Sequence[Case], cased: bool = False) -> dict[str, Any]:
    """Exact match, by phenomenon too; pronouns; BLEU and chrF.

    `cased` sentences are compared in lower case with their marks, others
    as `normalise` makes them.
    """
    from sacrebleu.metrics import BLEU, CHRF

    said = [case["translation"] for case in cases]
    right = [case["references"] for case in cases]
    report = {"exact_match": _share(case["right"] for case in cases)}
    report["phenomena"] = {
        name: _share(c["right"] for c in cases if name in c.get("tags", ()))
        for name in PHENOMENA
        if any("tags" in case for case in cases)
    }
    report["pronouns"] = _share(
        pronoun_of(case["translation"]) in set(map(pronoun_of, refs))
        for case, refs in zip(cases, right, strict=True)
        if "coreference" in case.get("tags", ()) and pronoun_of(refs[0])
    )
    plain = str if cased else normalise
    lists = itertools.zip_longest(*[[*map(plain, refs)] for refs in right])
    lists, said = [[*refs] for refs in lists], [*map(plain, said)]
    metrics = BLEU(lowercase=cased), CHRF(lowercase=cased)
    for name, metric in zip(("BLEU", "chrF"), metrics, strict=True):
        score = metric.corpus_score(said, lists).score
        report[name] = [score, str(metric.get_signature())]
    return report


def _share(each: Iterable[bool]) -> dict[str, int]:
    each = list(each)
    return {"right": sum(each), "of": len(each)}


def _show(report: dict[str, Any]) -> None:
    rows = [("exact match", report["exact_match"])]
    rows += report["phenomena"].items()
    rows += [("il or elle", report["pronouns"])]
    for name, share in rows:
        if share["of"]:
            part = share["right"] / share["of"]
            print(f"{name:14}{part:7.1%}{share['right']:7} of {share['of']}")
    for name in ("BLEU", "chrF"):
        score, signature = report[name]
        print(f"{name:14}{score:6.2f}   {signature}")


def _natural(text: str) -> int:
    """A number of argparse's own: 1, 2, …"""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is none of 1, 2, 3, …")
    return int(text)


def _corpus(text: str) -> str:
    named = text in (GRAMMAR, *KNOWN)
    return text if named else str(Path(text).resolve())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROGRAM, description=__doc__.splitlines()[0]
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for run, options in [
        (train, _train_options),
        (translate, _translate_options),
        (evaluate, _evaluate_options),
    ]:
        says = run.__doc__.splitlines()[0]
        command = commands.add_parser(
            run.__name__, help=says, description=says
        )
        command.set_defaults(run=run, parser=command)
        options(command.add_argument)
        command.add_argument("--device", help="cpu (default), cuda, mps")
    return parser


def _train_options(add: Callable) -> None:
    add("--out", required=True, metavar="FOLDER", help="of the run")
    add("--resume", action="store_true", help="go on with the run in it")
    add("--model", choices=MODELS, help=f"default: {Settings.model}")
    add(
        "--set",
        nargs="+",
        action="extend",
        default=[],
        metavar="SIZE=N",
        help="sizes of the model, as d_model=64",
    )
    add("--source", help="language to translate from (default: fr)")
    add("--target", help="and into (default: the other of fr and en)")
    add("--config", choices=CONFIGS, help="settings that go together")
    _corpus_options(add, None, "pairs (default: the book's grammar)")
    _phenomena_option(add)
    for name, what in [
        ("sentences", "pairs to learn from, at most"),
        ("longest", "words of a sentence, at most"),
        ("vocab", "pieces of the tokenizer"),
        ("steps", "of the optimizer"),
        ("tokens", "of a batch, padding included"),
        ("accumulate", "batches a step"),
        ("average", "checkpoints whose mean is kept"),
        ("warmup", "steps until the peak of the rate (default: a tenth)"),
    ]:
        usual = getattr(Settings, name)
        says = what + (f" (default: {usual})" if usual else "")
        add(f"--{name}", type=_natural, metavar="N", help=says)
    add("--rate", type=float, help=f"the peak (default: {Settings.rate})")
    add("--smoothing", type=float, help=f"default: {Settings.smoothing}")
    add("--precision", choices=PRECISIONS, help="of matrix products")
    add("--seed", type=int, help=f"default: {Settings.seed}")
    add(
        "--minutes",
        type=_natural,
        metavar="N",
        help="as many steps, in the faster precision, as fit here",
    )
    add("--half", action="store_true", help="keep it in half precision")
    for name, what in [
        ("every", "steps between checkpoints (default: 500)"),
        ("threads", "of the processor; another number, other last digits"),
    ]:
        add(f"--{name}", type=_natural, metavar="N", help=what)


def _corpus_options(add: Callable, usual: str | None, what: str) -> None:
    says = f"{what}: {', '.join(KNOWN)}, or a tab-separated file"
    add("--corpus", type=_corpus, metavar="NAME", default=usual, help=says)
    says = "languages of the file's columns (default: source, target)"
    add("--columns", nargs="+", metavar="LANGUAGE", help=says)


def _phenomena_option(add: Callable, **more: Any) -> None:
    says = f"sentences with no others: {', '.join(PHENOMENA)} (default: all)"
    more |= {"choices": PHENOMENA, "metavar": "NAME", "help": says}
    add("--phenomena", nargs="+", **more)


def _model_options(add: Callable, usual: str) -> None:
    names = "fr-en, en-fr, grammar-fr-en, grammar-en-fr, or a folder"
    add("--model", metavar="NAME", help=f"{names} (default: {usual})")
    add("--target", metavar="LANGUAGE", help="to write, of a two-way model")
    add("--beam", type=_natural, default=4, metavar="N", help="default: 4")


def _translate_options(add: Callable) -> None:
    add("text", nargs="*", metavar="TEXT", help="default: standard input")
    add("--file", help="of sentences, one a line")
    _model_options(add, "fr-en")
    add(
        "--n-best",
        type=_natural,
        default=1,
        metavar="N",
        help="translations of each, with score, tab, text",
    )
    add("--attention", metavar="FILE.svg", help="draw what it looks at")


def _evaluate_options(add: Callable) -> None:
    _model_options(add, "grammar-fr-en, or fr-en for real sentences")
    _corpus_options(add, GRAMMAR, "to draw from (default: the grammar)")
    names = [*PARTS, "valid"]
    add("--part", choices=names, default="test", help="of the corpus")
    add("--seed", type=int, default=1, help="of the sentences drawn")
    _phenomena_option(add, default=PHENOMENA)
    add(
        "--count",
        type=_natural,
        metavar="N",
        help="default: 1000, or all; from all over",
    )
    add("--pairs", metavar="FILE.tsv", help="pairs instead, source first")
    add("--json", metavar="FILE", help="for every number and sentence")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; its exit code, 1 with the reason on an error."""
    args = _parser().parse_args(arguments)
    if getattr(args, "n_best", 1) > getattr(args, "beam", 1):
        args.parser.error(f"--n-best {args.n_best} needs --beam {args.n_best}")
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        code = args.run(args)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        return 130
    except (ValueError, OSError, FloatingPointError) as error:
        print(f"{args.parser.prog}: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
