"""The study of real models, whose weights are in packages: gaps, and joint draws under a real constraint with a judge.

    python -m benchmarks.real_models --wheels DIR --models DIR   unpack their files; no code of the packages is run
    python -m benchmarks.real_models --models DIR                all cells into results/real-models.json, resumable
    python -m benchmarks.real_models --table                     writes the tables of docs/real-models.md

The wheels are those of `pip download --no-deps antiberty==0.1.3 iglm==0.1.0 rxnmapper==0.4.3 rxnfp==0.1.0`.

A judge is an AR model of other makers: nats per residue, -log p(x | heavy, human) / L. Its rows and orders are the same
for all draws. Everything runs on one thread.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import time
import zipfile
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unmask import UnmaskError, gap, generate, load
from unmask.core.files import origin, write_json
from unmask.denoisers import Denoiser, as_marginals
from unmask.denoisers.reshaped import Around, ReshapedEngine
from unmask.diagnosis.nelbo import read
from unmask.languages.automata import Automaton
from unmask.metrics.windows import variety
from unmask.models.open import OpenModel
from unmask.samplers.contract import as_sampler
from unmask.samplers.joint.draws import as_joint

ROOT = Path(__file__).parents[1]
RESULTS, PAGE = ROOT / "results" / "real-models.json", ROOT / "docs" / "real-models.md"
FILES = {  # directories, as the packages bring them: the start of its path in a wheel, and where its vocab.txt is
    "antiberty": ("antiberty/trained_models/AntiBERTy_md_smooth/", "antiberty/trained_models/"),
    "iglm": ("iglm/trained_models/IgLM/", "iglm/trained_models/"),
    "iglm-s": ("iglm/trained_models/IgLM-S/", "iglm/trained_models/"),
    "rxnmapper": ("rxnmapper/models/transformers/albert_heads_8_uspto_all_1310k/", ""),
    "rxnfp": ("rxnfp/models/transformers/bert_pretrained/", ""),
}
LACKING = {"rxnfp": {"model_type": "bert"}}  # entries that a config.json needs, for transformers too
DTYPES = {"antiberty": "bfloat16"}
LETTERS = "ACDEFGHIKLMNPQRSTVWY"  # residues
# a heavy chain: its frameworks as far as they are conserved; a dot is any residue
FRAMEWORK = "[EQ]V[QK]L[VQ][EQ][SA]G.{13}C.{12,14}W[VI][RK]Q.{6,8}[WL].{44,50}[YF]C[ASTV].{6,20}WG[QAR]GT[LTM]VTVSS"
HEAVY = FRAMEWORK.replace(".", "[A-Z]")  # not the end of a document, which is a text, too
TRASTUZUMAB = (  # its variable part
    "EVQLVESGGGLVQPGGSLRLSCAASGFNIKDTYIHWVRQAPGKGLEWVARIYPTNGYTRY"
    "ADSVKGRFTISADTSKNTAYLQMNSLRAEDTAVYYCSRWGGDGFYAMDYWGQGTLVTVSS"
)
DRAWS = ("product", "local", "fitted", "coupled", "given", "alone")  # and, without the network, "no model"
GROUPS = {"given": 4}  # times as many rows, since only its groups of 8 rows are independent
BUDGETS = (8, 4, 16)
LENGTH, ROWS = 118, 40
SAMPLERS = ("ancestral", "fixed-size", "strided", "left-to-right", "entropy", "low-confidence")
GAPS = {"rxnfp": (48, (8, 2, 4, 16, 32)), "antiberty": (LENGTH, (8, 16, 4, 2, 32))}  # length, steps
FEW = 20  # rows of a gap
TARGETS = {"rxnfp": (0.1, 0.01), "antiberty": (0.1,)}  # nats per token, whose predicted steps are measured
Record = dict[str, Any]


def unpack(wheels: Path, models: Path) -> None:
    """The files of models, from the wheels."""
    for path in wheels.glob("*.whl"):
        with zipfile.ZipFile(path) as wheel:
            names = set(wheel.namelist())
            for model, (start, words) in FILES.items():
                wanted = {name: name[len(start) :] for name in names if name.startswith(start)}
                wanted = {name: end for name, end in wanted.items() if end and "training_args" not in end}
                if wanted and words:
                    wanted[f"{words}vocab.txt"] = "vocab.txt"
                for name, end in wanted.items():
                    (models / model).mkdir(parents=True, exist_ok=True)
                    (models / model / end).write_bytes(wheel.read(name))
    for model, entries in LACKING.items():
        config = models / model / "config.json"
        config.write_text(json.dumps(json.loads(config.read_text()) | entries))


@cache
def model_of(models: Path, name: str) -> OpenModel:
    model = load(models / name, device="cpu", dtype=DTYPES.get(name))
    assert isinstance(model, OpenModel)
    return model


class Local(Around):
    """The usual practice: at each position, only tokens with which the constraint can still be met; independently."""

    def __init__(self, inner: Denoiser, automaton: Automaton) -> None:
        super().__init__(inner)
        self.automaton = automaton

    def engine(self, tokens: Tensor, given: Tensor | None = None, valid: Tensor | None = None) -> LocalEngine:
        return LocalEngine(self, tokens, given, valid)  # type: ignore[arg-type]


class LocalEngine(ReshapedEngine):
    def at(self, rows: Tensor, positions: Tensor, time: Tensor | None) -> Tensor:
        p = as_marginals(self.inner.at(rows, positions, time)).dense().double()
        automaton: Automaton = self.denoiser.automaton  # type: ignore[attr-defined]
        table = {row: completable(automaton, self.tokens[row]) for row in rows.unique().tolist()}
        allowed = torch.stack([table[row][place] for row, place in zip(rows.tolist(), positions.tolist(), strict=True)])
        cut = p * allowed
        some = cut.sum(1, keepdim=True) > 0  # else a token of this step has excluded all: the row is not valid
        cut = torch.where(some, cut, p)
        return cut / cut.sum(1, keepdim=True)


def completable(automaton: Automaton, row: Tensor) -> Tensor:
    """Bool (L, V): whether a token at a position has a completion beside the revealed tokens of a row (L)."""
    moves, length = automaton.moves, len(row)
    kinds = [automaton.classes[[token]] if token < automaton.vocabulary else slice(None) for token in row.tolist()]
    ends = [automaton.final]  # (S): whether a string can end there, behind the last position, the one before it, ..
    for kind in reversed(kinds):
        ends.append(np.any(np.append(ends[-1], False)[moves[:, kind]], axis=1))
    here, out = np.array([0]), np.zeros((length, moves.shape[1]), dtype=bool)
    for place, kind in enumerate(kinds):
        then = moves[here]
        out[place] = np.any(np.append(ends[length - 1 - place], False)[then], axis=0)
        here = np.unique(then[:, kind][then[:, kind] >= 0])
    return torch.from_numpy(out[:, automaton.classes])


class Flat(Denoiser):
    """No model: every token is equally likely."""

    def __init__(self, like: OpenModel) -> None:
        self.vocabulary, self.tokenizer = like.vocabulary, like.tokenizer

    def posterior(self, tokens: Tensor, positions: Tensor | None = None, time: Tensor | None = None) -> Tensor:
        shape = tokens.shape if positions is None else positions.shape
        return torch.full((*shape, self.vocabulary), 1 / self.vocabulary, dtype=torch.float64)


def constrained(name: str) -> str:
    return f"{name}(constraint=regex(pattern={HEAVY!r}))"


def written(models: Path, draw: str, steps: int, rows: int, seed: int) -> Record:
    """Rows of a draw, whether they are valid, and what the judges say of each."""
    model = model_of(models, "antiberty")
    automaton = as_joint(constrained("fitted"), as_sampler("ancestral"), model, LENGTH)
    assert automaton is not None
    source: Denoiser = Local(model, automaton.automaton) if draw == "local" else model
    how = draw if draw in ("product", "local") else constrained(draw)
    if draw == "no model":
        source, how = Flat(model), constrained("coupled")
    began, used = time.monotonic(), time.process_time()
    options = {"steps": steps, "length": LENGTH, "rows": rows, "seed": seed}
    try:
        made = generate(source, draw="product" if how == "local" else how, **options)
    except UnmaskError as error:
        return {"refused": str(error)}
    about = {"wall": time.monotonic() - began, "cpu": time.process_time() - used}
    letters = [model.tokenizer.decode(row).replace(" ", "") for row in made.tokens]  # type: ignore[union-attr]
    about |= {"rows": letters, "valid": [bool(re.fullmatch(HEAVY, text)) for text in letters]}
    about |= {
        "group": made.chosen_among,
        "identity": variety(made.tokens, torch.ones_like(made.tokens, dtype=torch.bool)).identity.value,
    }
    return about | judged(models, letters)


def judged(models: Path, letters: list[str]) -> Record:
    """Nats per residue of each text, by both AR models; NaN where a text has a token that is no residue."""
    return {name: per_residue(model_of(models, name), letters) for name in ("iglm", "iglm-s")}


def per_residue(judge: OpenModel, letters: list[str]) -> list[float]:
    numbers = judge.tokenizer.coder.get_vocab()  # type: ignore[union-attr]
    begin = [numbers["[HEAVY]"], numbers["[HUMAN]"]]
    rows = [torch.tensor(begin + [numbers[letter] for letter in text]) for text in letters]
    found = read(judge, rows, [len(begin)] * len(rows))
    return [-one.nats / len(text) for one, text in zip(found, letters, strict=True)]


def spoken(models: Path, name: str) -> Record:
    """Heavy chains of an AR model, judged by both."""
    model = model_of(models, name)
    numbers = model.tokenizer.coder.get_vocab()  # type: ignore[union-attr]
    given = [numbers["[HEAVY]"], numbers["[HUMAN]"], *[model.vocabulary] * LENGTH]
    special = set(model.tokenizer.controls.values()) | {numbers[one] for one in numbers if len(one) > 1}  # type: ignore[union-attr]
    only = model.without(special)
    made = generate(only, sampler="autoregressive", given=torch.tensor([given] * ROWS), seed=1)
    names = {number: text for text, number in numbers.items()}
    letters = ["".join(names[token] for token in row) for row in made.tokens[:, 2:].tolist()]
    return {"rows": letters, "valid": [bool(re.fullmatch(HEAVY, text)) for text in letters]} | judged(models, letters)


def measured(models: Path, name: str, sampler: str, steps: int, reference: int = 0, rows: int = FEW) -> Record:
    """Loss and variety of a sampler on a masked model."""
    model, (length, _) = model_of(models, name), GAPS[name]
    began = time.monotonic()
    made = generate(model, sampler=sampler, steps=steps, length=length, rows=rows, seed=1, trace=True)
    found = gap(model, made, reference=reference, seed=1)
    own = variety(made.tokens, torch.ones_like(made.tokens, dtype=torch.bool))
    token, beside = found.token, found.reference
    about: Record = {"seconds": time.monotonic() - began, "identity": span(own.identity), "closest": own.closest}
    about |= {"nats": None if token is None else span(token), "claim": found.claim, "distinct": own.distinct}
    if beside is not None:
        about |= {"random": span(beside.random.identity), "itself": beside.itself and span(beside.itself)}
        about |= {"steps": {str(target): list(pair) for target, pair in beside.steps.items()}}
        about |= {"verdict": found.verdict}
    return about


def span(estimate: Any) -> list[float]:
    return [estimate.value, estimate.low, estimate.high]


Cell = tuple[Record, Callable[[], Record]]


def cells(models: Path, known: dict[str, Record]) -> Iterator[Cell]:
    """The most informative first."""

    def draw(name: str, steps: int, seed: int = 1, rows: int = ROWS) -> Cell:
        rows = rows * GROUPS.get(name, 1)
        key = {"part": "joint", "draw": name, "steps": steps, "rows": rows, "seed": seed}
        return key, partial(written, models, name, steps, rows, seed)

    real = [TRASTUZUMAB, TRASTUZUMAB[::-1]]
    yield {"part": "real"}, lambda: {"rows": real} | judged(models, real)
    yield draw("no model", 1)
    for seed, steps, name in itertools.product((1, 2), BUDGETS, DRAWS):
        if name != "alone" or seed == 1:
            yield draw(name, steps, seed)
    for name in ("iglm", "iglm-s"):
        yield {"part": "causal", "model": name}, partial(spoken, models, name)
    for name, (_, budgets) in GAPS.items():
        yield {"part": "reference", "model": name}, partial(measured, models, name, "ancestral", 12, FEW)
        for target in TARGETS[name]:
            beside = known.get(json.dumps({"part": "reference", "model": name}), {})
            for which, steps in enumerate(beside.get("steps", {}).get(str(target), ())):
                key = {"part": "predicted", "model": name, "target": target, "which": which, "steps": steps}
                yield key, partial(measured, models, name, "fixed-size", steps)
        for steps, sampler in itertools.product(budgets, SAMPLERS):
            key = {"part": "gap", "model": name, "sampler": sampler, "steps": steps}
            yield key, partial(measured, models, name, sampler, steps)
    for name in ("local", "coupled"):
        yield draw(name, LENGTH, rows=FEW)


def mean_of(values: list[float], group: int = 1) -> tuple[float, float]:
    """(mean, standard error), where only groups of consecutive rows are independent; NaN for fewer than two groups."""
    sums = np.array(
        [[sum(part), len(part)] for part in (values[at : at + group] for at in range(0, len(values), group))]
    )
    if len(sums) < 2:
        return float("nan"), float("nan")
    mean = sums[:, 0].sum() / sums[:, 1].sum()
    spread = (sums[:, 0] - mean * sums[:, 1]).std(ddof=1)
    return mean, spread * len(sums) ** 0.5 / sums[:, 1].sum()


def rows_of(records: list[Record], draw: str, steps: int, judge: str) -> tuple[list[float], list[bool], int]:
    """(nats per residue, validity, rows in a group) of the rows of all seeds."""
    some = [one for one in records if (one["cell"].get("draw"), one["cell"].get("steps")) == (draw, steps)]
    some = [one for one in some if "refused" not in one]
    nats = [value for one in some for value in one[judge]]
    return (
        nats,
        [value for one in some for value in one["valid"]],
        max((one.get("group", 1) for one in some), default=1),
    )


def joint_table(records: list[Record], judge: str = "iglm") -> str:
    """Validity, and nats per residue of all rows and of valid ones."""
    numbers = sorted({one["cell"]["steps"] for one in records if one["cell"]["part"] == "joint"} - {1})
    lines = ["| draw | N | rows | valid | nats per residue, all rows | valid rows | alike |", "|---" * 7 + "|"]
    for draw, steps in [("no model", 1), *itertools.product(DRAWS, numbers)]:
        nats, valid, group = rows_of(records, draw, steps, judge)
        if not nats:
            continue
        fits = [value for value, there in zip(nats, valid, strict=True) if there]
        every, right = said(*mean_of(nats, group)), said(*mean_of(fits, group if len(fits) == len(nats) else 1))
        own = [one for one in records if (one["cell"].get("draw"), one["cell"].get("steps")) == (draw, steps)]
        alike = [between_groups(one) for one in own]
        share = f"{sum(valid) / len(valid):.0%}"
        steps_shown = "" if draw == "no model" else str(steps)
        lines.append(f"| {draw} | {steps_shown} | {len(nats)} | {share} | {every} | {right} | {np.mean(alike):.0%} |")
    return "\n".join(lines)


def said(mean: float, error: float) -> str:
    return "-" if mean != mean else f"{mean:.3f} +- {error:.3f}"


def against_local(records: list[Record]) -> str:
    """The difference of each draw from local masking, in nats per residue: below 0 is better."""
    lines = ["| draw - local | N | all rows | valid rows | second judge, all rows | valid rows |", "|---" * 6 + "|"]
    for draw, steps in itertools.product(("fitted", "coupled", "given"), sorted(BUDGETS)):
        cells = []
        if not rows_of(records, draw, steps, "iglm")[0]:
            continue
        for judge in ("iglm", "iglm-s"):
            (own, _, group), (other, fits, _) = (rows_of(records, name, steps, judge) for name in (draw, "local"))
            for beside in (other, [value for value, there in zip(other, fits, strict=True) if there]):
                (a, first), (b, second) = mean_of(own, group), mean_of(beside)
                cells.append(f"{a - b:+.3f} +- {(first**2 + second**2) ** 0.5:.3f}")
        lines.append(f"| {draw} | {steps} | {' | '.join(cells)} |")
    return "\n".join(lines)


def gap_table(records: list[Record], model: str) -> str:
    """Nats per token with their interval, and the mean pairwise identity."""
    own = {
        (one["cell"].get("sampler"), one["cell"].get("steps")): one
        for one in records
        if one["cell"].get("model") == model
    }
    numbers = sorted({steps for sampler, steps in own if sampler})
    lines = [f"| sampler | {' | '.join(f'N = {steps}' for steps in numbers)} |", "|---" * (len(numbers) + 1) + "|"]
    for sampler in SAMPLERS:
        cells = [own.get((sampler, steps)) for steps in numbers]
        lines.append(f"| {sampler} | {' | '.join('' if one is None else loss(one) for one in cells)} |")
    return "\n".join(lines)


def loss(record: Record) -> str:
    value, low, high = record["nats"]
    interval = f" [{low:.2g}, {high:.2g}]" if low > -np.inf and high < np.inf else ""
    return f"{value:.3g}{interval}; {record['identity'][0]:.0%}"


def predicted_table(records: list[Record]) -> str:
    lines = ["| model | target | predicted N | measured nats per token |", "|---|---|---|---|"]
    for one in (one for one in records if one["cell"]["part"] == "predicted"):
        cell, which = one["cell"], (" without allowance", "")[one["cell"]["which"]]
        lines.append(f"| {cell['model']} | {cell['target']} | {cell['steps']}{which} | {loss(one).partition(';')[0]} |")
    return "\n".join(lines)


def between_groups(record: Record) -> float:
    """Mean fraction of equal residues of two rows of different groups."""
    rows = np.array([list(text) for text in record["rows"]])
    group = np.arange(len(rows)) // record.get("group", 1)
    return float((rows[:, None] == rows).mean(2)[group[:, None] != group].mean())


def page(text: str, records: list[Record]) -> str:
    """A page with the tables of these records."""
    made = {"joint": joint_table(records), "local": against_local(records), "predicted": predicted_table(records)}
    return filled(text, made | {name: gap_table(records, name) for name in GAPS})


def filled(text: str, made: dict[str, str]) -> str:
    """A page with its tables made again: each is between a comment with its name and the next comment."""
    for name, table in made.items():
        start, _, rest = text.partition(f"<!-- {name} -->\n")
        text = f"{start}<!-- {name} -->\n{table}\n<!-- end -->{rest.partition('<!-- end -->')[2]}"
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("wheels", "models"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument(
        "--parts", default=".*", help="a pattern of the cells, since several processes can measure some"
    )
    parser.add_argument("--table", action="store_true")
    chosen = parser.parse_args()
    if chosen.wheels is not None:
        unpack(chosen.wheels, chosen.models)
        return
    if chosen.table:
        PAGE.write_text(page(PAGE.read_text(), kept()))
        return
    torch.set_num_threads(1)
    known = {json.dumps(record["cell"]): record for record in kept()}
    for key, run in cells(chosen.models, known):
        if (label := json.dumps(key)) not in known and re.search(chosen.parts, label):
            known[label] = {"cell": key} | run()
            write_json(RESULTS, {"origin": origin()} | {"records": [*kept(), known[label]]})
            print(label, flush=True)


def kept() -> list[Record]:
    records: list[Record] = json.loads(RESULTS.read_text())["records"] if RESULTS.exists() else []
    return records


if __name__ == "__main__":
    main()
