"""`make gpu`: what needs a CUDA device, in pieces of minutes, in order of worth.

    python -m benchmarks.gpu               the pieces that are left, for 9 minutes; a second call goes on
    python -m benchmarks.gpu --list        the pieces, with their time, memory and claims of the paper
    python -m benchmarks.gpu --only NAME   one piece, also a finished one if its file was removed
    python -m benchmarks.gpu --dry-run     every piece with tiny sizes on the CPU, into a temporary directory

A finished piece is a file results/gpu/NAME.json with its device, versions, commit and date. A training goes on from its
last checkpoint in benchmarks/results/gpu; the other pieces start again. `python -m reproduction
--records results/paper-quick.json results/gpu/*.json` shows the claims of the paper that these files decide.
"""

from __future__ import annotations

import argparse
import datetime
import json
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

from benchmarks import open_models, parity
from benchmarks.remake import RESULTS, ROOT, WORK
from benchmarks.timing import Report, Work, seconds
from reproduction import figure_1, models
from reproduction.items import ITEMS
from reproduction.judge import Size, own, part
from reproduction.records import Records, plain
from unmask import generate, score
from unmask.core import progress
from unmask.core.errors import UnmaskError
from unmask.core.files import code, finite, origin, write_json
from unmask.core.memory import available, size
from unmask.core.threads import torch_threads
from unmask.experiments.recipe import from_dict
from unmask.experiments.run import sweep
from unmask.languages import load as load_language
from unmask.models.trained import Network, Shape, checkpoints, preset
from unmask.models.trained.loop import PART_TOKENS, Conditions, Training, needed, train
from unmask.models.trained.recipe import recipe
from unmask.planning import flops
from unmask.planning.clock import device_name, peak

MINUTES = 9.0
STEP_PASSES = 3.0  # time of a training step in forward passes: one forward, two backward
SMALL = 4 * 10**9  # bytes of networks of at most 25 million parameters, with their caches
MOST = 40e9  # bytes of the device that a piece may allocate
TINY = {"length": 12, "steps": 4, "batch": 2, "preset": "quick", "layers": 2}  # of each cell, in a dry run
LEARNED = (*figure_1.NGRAMS, figure_1.HMM)
WARM, TIMED = 10, 20  # steps that tell how many fit
SOFT: dict[str, Any] = {"batch": 64, "rate": 7e-3, "fall": 0.6, "average": 0.998}
SOFT |= {"targets": "posterior", "optimiser": "muon"}
MASKED = SOFT | {"spread": 0.5, "run": 7}


class Lesson(NamedTuple):
    """The paper's network of a language, and what differs from its recipe."""

    language: str
    kind: str
    seconds: float
    neighbours: int = 0  # of the n-gram memory
    changes: Mapping[str, Any] = {}


LESSONS = {
    "paper": Lesson("paper-4gram", "mdm", 75),
    "ours": Lesson("paper-4gram", "mdm", 75, 5, MASKED),
    "ours-ar": Lesson("paper-4gram", "ar", 30, 0, SOFT),
    "ours-2gram": Lesson("paper-2gram", "mdm", 30, 5, MASKED),
}
OPEN = {"0.5b": (1024, 24), "1.5b": (2048, 20), "3b": (2560, 32), "7b": (4096, 32)}  # hidden size, layers
VOCABULARY, HEAD = 126_464, 128  # of LLaDA
GIVEN, NEW, STEPS = 512, 256, 64  # tokens, and steps of an open model
SPEED = 1.8e14  # FLOP per second of the paper's training, measured on an H200; --list estimates by it


class Here(NamedTuple):
    """Where and how large; tiny: a dry run."""

    device: str
    out: Path  # finished pieces
    work: Path  # checkpoints and cells
    tiny: bool

    @property
    def size(self) -> Size:
        return Size(True, self.device)


class Piece(NamedTuple):
    """minutes: on an H200, those of Figure 1 estimated; resumes: whether it goes on where it stopped."""

    about: str
    minutes: float
    bytes: int
    run: Callable[[Here], dict[str, Any]]
    resumes: bool = False
    after: tuple[str, ...] = ()  # pieces that it needs
    claims: tuple[str, ...] = ()  # of the paper, which it decides


class TimeUp(KeyboardInterrupt):
    """The minutes of this call are over."""


def compared(here: Here) -> dict[str, Any]:
    report = Report("toy" if here.tiny else "full", here.out)
    parity.measure(report, here.device)
    return {"checks": [asdict(check) for check in report.checks]}


def times(here: Here) -> dict[str, Any]:
    """The poster's times, and those of Figure 1."""
    clocked = {"language": figure_1.LEARNED, "preset": "paper", "device": here.device}
    return measured(
        here,
        *models.times(here.size),
        part("clock", kind=["mdm", "ar"], length=512, batch=16, **clocked),
        own("valid_steps", length=512, steps=64),
    )


def training(language: str, kind: str, here: Here) -> dict[str, Any]:
    network = figure_1.network(here.size) | {"language": language}
    return measured(here, part("training", kind=[kind], layers=layers_of(language), **network))


def figure(here: Here) -> dict[str, Any]:
    return measured(here, *figure_1.cells(here.size))


def measured(here: Here, *parts: dict[str, Any]) -> dict[str, Any]:
    """Records of these cells, as `python -m reproduction` reads them. All pieces share one store, so one network."""
    cells = [tiny(part) for part in parts] if here.tiny else list(parts)
    made = sweep(from_dict({"name": "gpu", "parts": cells}), store=here.work / "sweep", engine="here", fresh=True)
    records = [plain(finite(row)) for row in made.whole().rows()]
    size = "quick" if here.tiny else "full"
    return {"size": size, "seconds": made.work, "records": records} | verdicts(records)


def tiny(part: dict[str, Any]) -> dict[str, Any]:
    """The same part with tiny values, and a training of three steps."""
    grid = {name: [TINY.get(name, value) for value in values[: 1 if name in TINY else None]]
            for name, values in part["grid"].items()}  # fmt: skip
    fixed = {name: TINY.get(name, value) for name, value in part["fixed"].items()}
    if set(part["jobs"]) & {"training", "learned"}:
        fixed |= {"training_steps": 3}
    return part | {"grid": grid, "fixed": fixed} | ({"rows": 8} if "rows" in part else {})


def verdicts(records: list[dict[str, Any]]) -> dict[str, Any]:
    """The claims that these records decide."""
    of, found = Records(records), {}
    for claim in (claim for item in ITEMS.values() for claim in item.claims.values()):
        with suppress(UnmaskError):  # records that do not fit this claim
            found[claim.name] = claim.finding(of).verdict
    return {"claims": {name: verdict for name, verdict in found.items() if verdict != "not tested"}}


def learning(name: str, here: Here) -> dict[str, Any]:
    """The paper's network after so many seconds of a recipe: its losses, and its samples."""
    named, kind, budget, neighbours, changes = LESSONS[name]
    shape = preset("paper", kind, 8, neighbours=neighbours, layers=layers_of(named))
    how = replace(recipe("paper", kind), samples=None, **changes)  # no sequence twice
    if here.tiny:
        shape, how = replace(shape, hidden=32, length=12, layers=2), replace(how, batch=2)
    language, conditions = load_language(named), Conditions(here.device, say=progress.note)
    with tempfile.TemporaryDirectory() as directory:
        trial = Training(language, named, shape, how, Path(directory), conditions)

        def learn(end: int) -> float:
            for _ in trial.learn(end):
                pass
            return float(trial.unseen[-1][0])  # waits for the device

        learn(WARM)
        pace = seconds(partial(learn, WARM + TIMED)) / TIMED
        how = replace(how, steps=4 if here.tiny else int(budget / pace))
        place = Path(directory) / "whole"
        made = train(language, shape, how, place, label=named, conditions=conditions)
        journal, trunk = checkpoints.facts(place).journal, checkpoints.load(place, here.device)
    network = Network(mdm=trunk) if kind == "mdm" else Network(ar=trunk)
    sampling: dict[str, Any] = {"sampler": "ancestral", "steps": 64} if kind == "mdm" else {"sampler": "autoregressive"}
    samples = generate(network, rows=4 if here.tiny else 500, length=shape.length, seed=1, **sampling)
    trained = {name: value for name, value in made.to_dict().items() if name != "directory"}
    told = {"language": named, "recipe": how.to_dict(), "shape": shape.to_dict(), "seconds_a_step": pace}
    told |= {"trained": trained, "journal": journal, "sampling": sampling}
    return told | {"score": score(samples, language).to_dict()}


def layers_of(language: str) -> int | None:
    """The paper has two layers more for its hardest language."""
    return 10 if language == "paper-4gram" else None


def opened(name: str, here: Here) -> dict[str, Any]:
    """Steps per second and memory; the published loop runs the same network."""
    hidden, layers, vocabulary, head = (32, 1, 500, 16) if here.tiny else (*OPEN[name], VOCABULARY, HEAD)
    given, new, steps = (8, 8, 4) if here.tiny else (GIVEN, NEW, STEPS)
    block, usual = min(32, new // 2), torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        model = open_models.model_of(hidden, layers, vocabulary, head, here.device)
    finally:
        torch.set_default_dtype(usual)
    prompt = torch.randint(2, vocabulary - 1, (1, given), generator=torch.Generator().manual_seed(1))

    def logits_of(x: torch.Tensor) -> torch.Tensor:
        return model.body.logits(model.body.states(x, None, None, None))

    def published() -> torch.Tensor:
        return open_models.published(logits_of, prompt.to(here.device), new, steps, block, vocabulary - 1).cpu()

    works = {"unmask": partial(open_models.ours, model, prompt, new, steps, block)}
    works["published loop"] = published
    report = Report("toy" if here.tiny else "full", here.out)
    task = f"open-{name}: {given} tokens given, {new} written in {steps} steps"
    found = report.race(task, 1, new, {who: Work(run, 1) for who, run in works.items()}, 3, patience=20.0)
    table = {}
    for who, run in works.items():
        with peak(torch.device(here.device)) as most:
            seconds(run)
            table[who] = {"steps_per_second": steps / found[who].seconds, "peak_bytes": most()}
    same = float((works["unmask"]() == published()).double().mean())
    parameters = sum(weight.numel() for weight in model.body.parameters())
    about = {"parameters": parameters, "same_tokens_as_published": same, "by": table}
    return about | {"measurements": [asdict(one) for one in report.measurements]}


def pieces() -> dict[str, Piece]:
    """By name, in order of worth a minute."""
    claims: tuple[str, ...] = ("timing.ar", "timing.considerable", "figure-1.speed")
    found = {
        "parity": Piece("every engine gives the sequences of the CPU", 0.7, SMALL, compared),
        "timing": Piece(
            "512 steps and AR at 512, 1024, 2048 tokens, as on the poster", 0.4, SMALL, times, claims=claims
        ),
    }
    for name, (hidden, layers) in OPEN.items():
        weights = 2 * (2 * VOCABULARY * hidden + 12 * hidden**2 * layers)
        logits = 20 * (GIVEN + NEW) * VOCABULARY  # bfloat16, and float64 twice
        about = f"an open model of {name[:-1]} billion parameters, next to the published loop"
        found[f"open-{name}"] = Piece(about, 0.3 + weights / 8e10, weights + logits, partial(opened, name))
    for name, (language, kind, budget, _, _) in LESSONS.items():
        about = f"{budget:.0f} seconds of an {kind.upper()} learning {language} by the recipe {name}, and samples"
        room = _trained_bytes(preset("paper", kind, 8, layers=layers_of(language)))
        found[f"learning-{name}"] = Piece(about, 0.9 + budget / 60, room, partial(learning, name))
    for language in LEARNED:
        for kind in ("mdm", "ar"):
            shape = preset("paper", kind, 8, layers=layers_of(language))
            how = recipe("paper", kind)
            flop = STEP_PASSES * flops.evaluation(shape, shape.length) * how.batch * how.steps
            about = f"the paper's training of an {kind.upper()} on {language}"
            run = partial(training, language, kind)
            found[f"{language}-{kind}"] = Piece(about, flop / SPEED / 60, _trained_bytes(shape), run, resumes=True)
        if language == figure_1.LEARNED:
            claims = tuple(f"figure-1.{name}" for name in ("ar-zero", "learned", "assumption", "whose-fault"))
            after = tuple(name for name in found if name.startswith(language))
            found["figure-1"] = Piece("Figure 1", 30, SMALL, figure, True, after, claims)
    return found


def _trained_bytes(shape: Shape) -> int:
    rows = min(recipe("paper", shape.kind).batch, PART_TOKENS["cuda"] // shape.length)
    return needed(shape, rows, True)


def state(name: str, piece: Piece, here: Here, room: float) -> str:
    """done, waits, too large or left."""
    if (here.out / f"{name}.json").exists():
        return "done"
    if waits := [one for one in piece.after if not (here.out / f"{one}.json").exists()]:
        return f"waits for {', '.join(waits)}"
    if not here.tiny and piece.bytes > room:
        return f"too large: it needs {size(piece.bytes)}, and {size(int(room))} are available"
    return "left"


def about_device(device: str) -> dict[str, Any]:
    """Name, memory and abilities of the device."""
    found: dict[str, Any] = {"device": device_name(torch.device(device)), "torch": torch.__version__}
    if device == "cpu":
        return found | {"bytes": available()}
    capability = torch.cuda.get_device_capability()
    free, total = torch.cuda.mem_get_info()
    abilities = {"bfloat16": torch.cuda.is_bf16_supported(), "tf32": capability >= (8, 0), "fp8": capability >= (8, 9)}
    abilities |= {"capability": ".".join(map(str, capability)), "cuda": torch.version.cuda}
    return found | {"bytes": total, "free_bytes": free} | abilities


@contextmanager
def within(minutes: float) -> Iterator[None]:
    """Raise TimeUp in this thread after so many minutes."""

    def stop(number: int, frame: object) -> None:
        raise TimeUp

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, max(60 * minutes, 1e-3))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def run(chosen: Mapping[str, Piece], here: Here, minutes: float) -> dict[str, str]:
    """Run the pieces that are left, and return the state of each."""
    about, began, first = about_device(here.device), time.monotonic(), True
    room = min(MOST, about.get("free_bytes", about["bytes"]))
    if here.device != "cpu":
        torch.cuda.set_per_process_memory_fraction(min(1.0, MOST / about["bytes"]))
    try:
        with within(minutes):
            for name, piece in chosen.items():
                left = minutes - (time.monotonic() - began) / 60
                if (found := state(name, piece, here, room)) != "left":
                    progress.note(f"{name}: {found}")
                elif not first and not piece.resumes and piece.minutes > left:
                    progress.note(f"{name}: needs about {piece.minutes:.0f} minutes, and {left:.0f} are left")
                else:
                    first = False
                    progress.note(f"{name}: {piece.about}, about {piece.minutes:.3g} minutes")
                    write_piece(name, piece, here, about)
    except TimeUp:
        progress.note(f"{minutes:g} minutes are over. The same command goes on")
    except KeyboardInterrupt:
        progress.note("interrupted. The same command goes on")
    return {name: state(name, piece, here, room) for name, piece in chosen.items()}


def write_piece(name: str, piece: Piece, here: Here, about: dict[str, Any]) -> None:
    began = time.monotonic()
    try:
        with progress.command(name):
            made = piece.run(here)
    except Exception as error:  # the other pieces go on
        if not isinstance(error, UnmaskError):
            traceback.print_exc()
        progress.note(f"{name}: {error}")
        return
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    told = origin() | about | {"commit": _commit(), "code": code(), "date": today}
    write_json(here.out / f"{name}.json", finite({"piece": name, "origin": told} | made))
    progress.note(f"{name}: done in {time.monotonic() - began:.0f} s")


def _commit() -> str:
    with suppress(OSError, subprocess.CalledProcessError):
        words = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    return "unknown"


def missed(out: Path, names: Mapping[str, Piece]) -> list[str]:
    """Checks of finished pieces that are not met."""
    files = [out / f"{name}.json" for name in names]
    checks = [check for file in files if file.exists() for check in json.loads(file.read_text()).get("checks", [])]
    return [f"{check['claim']}: {check['value']:.3g}" for check in checks if check["met"] is False]


def listed(here: Here) -> str:
    return "\n".join(
        f"{name:18} {piece.minutes:5.0f} min {size(piece.bytes):>8}  {state(name, piece, here, MOST)}: {piece.about}"
        + (f" ({', '.join(piece.claims)})" if piece.claims else "")
        for name, piece in pieces().items()
    )


def main(words: list[str] | None = None) -> int:
    every = pieces()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=every, metavar="NAME", nargs="+", help="only these pieces")
    parser.add_argument("--list", action="store_true", help="list the pieces")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="stop after so many minutes (default: 9)")
    parser.add_argument("--dry-run", action="store_true", help="tiny sizes on the CPU")
    parser.add_argument("--out", type=Path, help="directory of finished pieces (default: results/gpu)")
    asked = parser.parse_args(words)
    if asked.list:
        print(listed(Here("cuda", asked.out or RESULTS / "gpu", WORK / "gpu", False)))
        return 0
    chosen = {name: piece for name, piece in every.items() if not asked.only or name in asked.only}
    with tempfile.TemporaryDirectory() as directory:
        out = asked.out or (Path(directory) if asked.dry_run else RESULTS / "gpu")
        if asked.dry_run:
            here = Here("cpu", out, out / "work", True)
        elif torch.cuda.is_available():
            here = Here("cuda", out, WORK / "gpu", False)
        else:
            parser.error("torch finds no CUDA device; --dry-run tries every piece on the CPU, --list shows them")
        for place in (here.out, here.work):
            place.mkdir(parents=True, exist_ok=True)
        with torch_threads(1) if here.tiny else nullcontext():
            states = run(chosen, here, asked.minutes)
        wrong = missed(here.out, chosen)
    for claim in wrong:
        print(f"MISSED  {claim}")
    print(json.dumps(about_device(here.device) | {"pieces": states, "missed": wrong, "out": str(out)}))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
