"""The study of joint draws: six languages, networks, imperfect marginals, constraints that a model does not know.

    python -m benchmarks.joint --out DIR   all cells into DIR/joint.json, 45 minutes of one core; goes on where it was
    python -m benchmarks.joint --table     the table of docs/joint-draws.md from results/joint.json
    python -m benchmarks.joint --figure    docs/joint.svg
    python -m benchmarks.joint --speed     seconds of CPU

An SER is never alone: each cell has the bigram distance and E KL(q || p_order) of the same draw.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from benchmarks import joint_text
from unmask import generate, train
from unmask.core.files import origin
from unmask.denoisers import Denoiser, Ideal, Perturbed
from unmask.languages import Answers, Language, NGram, automata, load
from unmask.languages.patterns import regex
from unmask.languages.schemas import schema
from unmask.metrics.windows import total_variation
from unmask.models import trained
from unmask.models.trained.recipe import recipe
from unmask.models.trained.trunk import Trunk
from unmask.samplers.contract import as_sampler
from unmask.samplers.joint import Joint, divergence, log_paths
from unmask.samplers.joint.draws import as_joint

LANGUAGES = ("paper-2gram", "paper-3gram", "sparse-hmm", "interval-5", "brackets", "modular-sum")
STEPS = (1, 2, 4, 8, 16, 32, 64)
FEW = (1, 4, 16, 64)  # steps of the longest
DRAWS = ("product", "fitted", "alone", "coupled", "soft")
NETWORKS = {"paper-2gram": (20, 100), "sparse-hmm": (40, 200), "brackets": (40, 200)}  # training steps
LEVELS = (0.01, 0.03, 0.1, 0.3, 1.0)  # nats of a token, of Perturbed "leak"
WORK = 1e7  # edges times positions times steps of a cell
MOST, LEAST = 200, 24  # rows
ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results" / "joint.json"
Record = dict[str, Any]


class Flat(Denoiser):
    """No model: every token is equally likely. Cut to an automaton, its strings are uniform."""

    def __init__(self, language: Language) -> None:
        self.language, self.vocabulary = language, language.vocabulary

    def posterior(self, tokens: Tensor, positions: Tensor | None = None, time: Tensor | None = None) -> Tensor:
        shape = tokens.shape if positions is None else positions.shape
        return torch.full((*shape, self.vocabulary), 1 / self.vocabulary, dtype=torch.float64)


def measured(language: Language, length: int, steps: int, draw: str, model: Denoiser | None, rows: int) -> Record:
    how: dict[str, Any] = {"draw": draw}
    if draw == "uniform noise":
        how = {"sampler": "uniform-ancestral"}
    elif draw == "no model":
        model, how = Flat(language), {"draw": "coupled"}
    source = model or language
    if isinstance(model, trained.Network) and draw != "product":  # which knows no language
        how["draw"] = as_joint(draw, as_sampler("ancestral"), Ideal(language), length)
    tokens = generate(source, steps=steps, length=length, rows=rows, seed=1, **how).tokens
    found: Record = {
        "rows": rows,
        "ser": 1 - float(language.supports(tokens).double().mean()),
        "bigrams": total_variation(tokens, language).value,
    }
    if "draw" in how:
        plan = divergence(language, how["draw"], steps=steps, length=length, rows=rows, seed=2, denoiser=model)
        found |= {"plan": plan.value, "low": plan.low, "high": plan.high}
    return found


def rows_of(language: Language, length: int, steps: int, draw: str) -> int:
    """Rows that a cell can afford."""
    automaton = automata.support(language)
    edges = {"product": 20, "alone": 6 * automaton.edges, "soft": language.vocabulary**2}.get(draw, automaton.edges)
    return int(min(max(WORK / (edges * length * steps), LEAST), MOST))


Cell = tuple[dict[str, Any], Callable[[], Record]]


def grid(wanted: int, numbers: tuple[int, ...]) -> Iterator[Cell]:
    """Six languages, some numbers of steps, and the draws; no model has no steps."""
    for name in LANGUAGES:
        language = load(name)
        length = language.nearest_lengths(wanted)[0]
        cells = [(draw, steps) for draw in (*DRAWS, "uniform noise") for steps in numbers if steps <= length]
        for draw, steps in [("no model", 1), *cells]:
            key = {"part": "grid", "language": name, "length": length, "draw": draw, "steps": steps}

            def run(language=language, length=length, draw=draw, steps=steps) -> Record:  # type: ignore[no-untyped-def]
                return measured(language, length, steps, draw, None, rows_of(language, length, steps, draw))

            yield key, run


def learnt(source: Language, steps: int, length: int) -> trained.Network:
    shape = trained.preset("quick", "mdm", source.vocabulary, length=length, hidden=32, layers=2)
    with tempfile.TemporaryDirectory() as directory:
        train(source, shape, recipe("quick", "mdm", steps=steps), Path(directory, "mdm"))
        return trained.Network(trained.load(Path(directory, "mdm")))


def imperfect() -> Iterator[Cell]:
    """Networks at two learning errors, and Perturbed at five. The plan of the product at N = L is their error."""
    models: list[tuple[str, str, Callable[[], Denoiser]]] = []
    for name, budgets in NETWORKS.items():
        for budget in budgets:
            models.append(
                (name, f"network, {budget} steps", lambda name=name, budget=budget: learnt(load(name), budget, 32))
            )
    for name, level in itertools.product(("paper-2gram", "sparse-hmm"), LEVELS):
        models.append((name, f"leak {level:g}", lambda name=name, level=level: Perturbed(load(name), "leak", level)))
    for name, label, make in models:
        made: list[Denoiser] = []
        for draw, steps in [("product", 32), *itertools.product(DRAWS, (4, 16))]:
            key = {"part": "models", "model": label, "language": name, "length": 32, "draw": draw, "steps": steps}

            def run(name=name, make=make, made=made, draw=draw, steps=steps) -> Record:  # type: ignore[no-untyped-def]
                if not made:
                    made.append(make())
                return measured(load(name), 32, steps, draw, made[0], 200)

            yield key, run


FULL = 6  # tokens of the strings below
PATHS = 4096  # that are measured at once
SLOT = 3  # the position whose label is compared
CONSTRAINTS = {
    "sum mod 4 = 0": lambda strings: strings.sum(1) % 4 == 0,
    "sorted": lambda strings: (strings.diff(dim=1) >= 0).all(1),
    "no symbol twice in a row": lambda strings: (strings.diff(dim=1) != 0).all(1),
    "exactly two 0": lambda strings: (strings == 0).sum(1) == 2,
}


def full_chain() -> NGram:
    """A chain over four symbols in which everything is possible."""
    weights = torch.distributions.Dirichlet(torch.full((4,), 0.7)).sample((5,)).double()
    rows = weights / weights.sum(1, keepdim=True)
    return NGram(2, rows[0].tolist(), rows[1:].tolist())


class Listed(Denoiser):
    """p(x_i | revealed) of listed strings with probabilities q, V symbols."""

    def __init__(self, strings: Tensor, q: Tensor, vocabulary: int) -> None:
        self.vocabulary, self.q = vocabulary, q
        self.each = one_hot(strings, vocabulary).flatten(1).double()  # (A, L V)

    def posterior(self, tokens: Tensor, positions: Tensor | None = None, time: Tensor | None = None) -> Tensor:
        shown = one_hot(tokens, self.vocabulary + 1)[..., :-1].flatten(1).double()
        agrees = shown @ self.each.T == shown.sum(1, keepdim=True)
        table = ((agrees * self.q) @ self.each).view(*tokens.shape, -1)
        table = table / table.sum(2, keepdim=True).clamp(min=1e-300)
        return table if positions is None else at(table, positions)


class Local(Listed):
    """The usual practice: the model's marginals without the tokens that no allowed string has there, one by one."""

    def __init__(self, inner: Denoiser, strings: Tensor) -> None:
        super().__init__(strings, torch.ones(len(strings), dtype=torch.float64), inner.vocabulary)
        self.inner = inner

    def posterior(self, tokens: Tensor, positions: Tensor | None = None, time: Tensor | None = None) -> Tensor:
        table = (super().posterior(tokens) > 0) * self.inner.posterior(tokens, None, time).double()
        table = table / table.sum(2, keepdim=True).clamp(min=1e-300)
        return table if positions is None else at(table, positions)


def at(table: Tensor, positions: Tensor) -> Tensor:
    """(B, K, V) of (B, L, V) at positions (B, K)."""
    return table.gather(1, positions.unsqueeze(2).expand(-1, -1, table.shape[2]))


def law(denoiser: Denoiser, joint: Joint | None, strings: Tensor, steps: int) -> Tensor:
    """(strings): the probability of each, over the orders of equal parts; of the 90 of N = 3, every third."""
    every = sorted(set(itertools.permutations([1 + k * steps // FULL for k in range(FULL)])))
    labels = every[::3] if steps == 3 else every
    rows, orders = strings.repeat(len(labels), 1), torch.tensor(labels).repeat_interleave(len(strings), 0)
    parts = zip(rows.split(PATHS), orders.split(PATHS), strict=True)
    log = torch.cat([log_paths(denoiser, some, order, joint) for some, order in parts])
    return log.exp().view(len(labels), -1).mean(0)


def unknown() -> Iterator[Cell]:
    """q(x | A) for constraints that the model does not know: a full chain, and a network that has learnt it."""
    torch.manual_seed(4)
    chain = full_chain()
    strings = torch.cartesian_prod(*[torch.arange(4)] * FULL)
    networks: list[Denoiser] = []

    def network() -> Denoiser:
        if not networks:
            networks.append(learnt(chain, 200, FULL))
        return networks[0]

    settings = ("chain", 1), ("chain", 3), ("network", 3)
    for (label, steps), name in itertools.product(settings, CONSTRAINTS):
        allowed = CONSTRAINTS[name](strings)

        def run(label=label, allowed=allowed, steps=steps) -> Record:  # type: ignore[no-untyped-def]
            model: Denoiser = Ideal(chain) if label == "chain" else network()
            inside = strings[allowed]
            q = chain.log_prob(inside).exp()
            q = q / q.sum()
            automaton = automata.support(Answers(inside, vocabulary=4))
            draws = {
                "local": (Local(model, inside), None),
                "coupled": (model, Joint(automaton, 0, single=False)),
                "fitted": (model, Joint(automaton)),
                "fitted, marginals of q(x | A)": (Listed(inside, q, 4), Joint(automaton)),
            }
            found: Record = {"slot": slot(inside, q)}
            for draw, (source, joint) in draws.items():
                p = law(source, joint, inside, steps)
                apart = 0.5 * float((p - q).abs().sum() + max(1 - float(p.sum()), 0))
                found[draw] = {"ser": 1 - float(p.sum()), "tv": apart, "slot": slot(inside, p)}
            return found

        yield {"part": "constraints", "model": label, "constraint": name, "steps": steps}, run


TEMPLATE = {"city": ["rome", "oslo", "bern"], "open": "boolean", "n": "integer"}


def books() -> Answers:
    """JSON records of characters: a city, whether it is open there, and a number that depends on both."""
    cities, states = {"rome": 0.5, "oslo": 0.3, "bern": 0.2}, {"true": 0.8, "false": 0.2}
    weights = {}
    for (city, p), (state, k), n in itertools.product(cities.items(), states.items(), range(1, 25)):
        odds = p * (1 - k if city == "bern" else k)
        centre = 4 + 3 * list(cities).index(city) + (6 if state == "false" else 0)
        weights[f'{{"city": "{city}", "open": {state}, "n": {n}}}'] = odds * math.exp(-abs(n - centre) / 3)
    names = sorted(set("".join(weights)) | {" "})
    longest = max(map(len, weights))
    tokens = [[names.index(sign) for sign in text.ljust(longest)] for text in weights]
    return Answers(tokens, len(names), list(weights.values())).named(names)


def enum(language: Answers, tokens: Tensor, weights: Tensor) -> Record:
    """The fraction of valid records, and P(open), P(city | open) of the valid ones."""
    pattern, found = re.compile(schema(TEMPLATE) + " *"), dict[tuple[bool, str], float]()
    for row, weight in zip(tokens, weights.tolist(), strict=True):
        if matched := pattern.fullmatch(language.render(row)):
            value = json.loads(matched[0])
            key = value["open"], value["city"]
            found[key] = found.get(key, 0.0) + weight
    total = sum(found.values())
    of = {state: sum(mass for (opened, _), mass in found.items() if opened is state) for state in (True, False)}
    given = {f"{city} | {str(state).lower()}": mass / of[state] for (state, city), mass in sorted(found.items())}
    return {"valid": total / float(weights.sum()), "open": of[True] / total, "enum": given}


def forms() -> Iterator[Cell]:
    """JSON records by a network in 4 steps: whether they are valid, and the probabilities of the enum in them."""
    language, made = books(), list[Denoiser]()
    length = language.answers.shape[1]
    automaton = regex(schema(TEMPLATE) + " *", language.vocabulary, language.names)
    draws: dict[str, str | Joint] = {"product": "product", "fitted": Joint(automaton)}
    draws |= {"alone": Joint(automaton, alone=True), "coupled": Joint(automaton, 0, single=False)}

    def run(draw: str, steps: int) -> Record:
        if draw == "exact":
            return enum(language, language.answers, language.weights)
        if not made:
            made.append(learnt(language, 150, length))
        tokens = generate(made[0], steps=steps, length=length, rows=2000, seed=1, draw=draws[draw]).tokens
        return enum(language, tokens, torch.ones(len(tokens)))

    for draw, steps in [("exact", 1), ("product", length), *itertools.product(draws, (4,))]:
        yield {"part": "json", "draw": draw, "steps": steps}, partial(run, draw, steps)


def slot(strings: Tensor, p: Tensor) -> list[float]:
    """The probability of each label at a position, among allowed strings."""
    counts = torch.zeros(4, dtype=torch.float64).index_add_(0, strings[:, SLOT], p)
    return [round(one, 6) for one in (counts / counts.sum()).tolist()]


def study(out: Path, most: float) -> None:
    """Measure the cells that are not there yet, for at most some seconds of CPU. Write joint.json after the last."""
    torch.set_num_threads(1)
    out.mkdir(parents=True, exist_ok=True)
    kept = out / "records.jsonl"
    records = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    known = {json.dumps(record["cell"]) for record in records}
    grids = grid(128, FEW), imperfect(), grid(512, FEW), grid(32, STEPS), grid(128, STEPS)
    for key, run in itertools.chain(forms(), unknown(), *grids, joint_text.cells(out)):
        if json.dumps(key) in known:
            continue
        if time.process_time() > most:
            return
        known.add(json.dumps(key))
        used = time.process_time()
        record = {"cell": key} | run() | {"cpu": round(time.process_time() - used, 2)}
        with kept.open("a") as file:
            file.write(json.dumps(record) + "\n")
        records.append(record)
        print(json.dumps(record), flush=True)
    made = {"origin": origin(), "records": [rounded(record) for record in records]}
    (out / "joint.json").write_text(json.dumps(made))


def rounded(value: Any) -> Any:
    """Four digits of each number, 0 exactly where it is 0."""
    if isinstance(value, dict):
        return {name: rounded(one) for name, one in value.items()}
    if isinstance(value, list):
        return [rounded(one) for one in value]
    if isinstance(value, float):
        return float(f"{value:.4g}") if math.isfinite(value) else str(value)
    return value


def table(made: Record, wanted: int = 128) -> str:
    """SER, bigram distance and nats of each draw at one length, N = 1, 4, 16, 64."""
    cells = {tuple(record["cell"].values()): record for record in made["records"] if record["cell"]["part"] == "grid"}
    draws = ("no model", *DRAWS, "uniform noise")
    lines = [f"| language | N | {' | '.join(draws)} |", "|---" * (len(draws) + 2) + "|"]
    for name, steps in itertools.product(LANGUAGES, FEW):
        length = load(name).nearest_lengths(wanted)[0]
        shown = [cells.get(("grid", name, length, draw, 1 if draw == "no model" else steps)) for draw in draws]
        words = ["" if one is None else said(one) for one in shown]
        lines.append(f"| {name} | {steps} | {' | '.join(words)} |")
    return "\n".join(lines)


def said(record: Record) -> str:
    ser = "0" if record["ser"] == 0 else f"{record['ser']:.2f}"
    nats = record.get("plan", math.nan)
    return ", ".join([ser, f"{record['bigrams']:.3f}", "?" if nats != nats else f"{round(nats, 4) + 0.0:.3g}"])


SHOWN = {"product": "independently (product)", "fitted": "together (fitted)", "coupled": "together (coupled)"}
HUES = ("#0077bb", "#ee7733", "#8c6bb1", "#59636f", "#009988")


def figure(made: Record, name: str = "sparse-hmm", wanted: int = 128) -> str:
    """SVG: SER and KL against model calls, of the product, two joint draws, no model and AR."""
    import altair as alt
    import pandas as pd

    from unmask.report.charts import svg

    length = load(name).nearest_lengths(wanted)[0]
    rows: list[Record] = []
    for record in made["records"]:
        cell = record["cell"]
        if cell["part"] != "grid" or (cell["language"], cell["length"]) != (name, length):
            continue
        if cell["draw"] in SHOWN:
            rows.append({"x": cell["steps"], "draw": SHOWN[cell["draw"]], "ser": record["ser"], "kl": record["plan"]})
        elif cell["draw"] == "no model":
            rows += [{"x": x, "draw": "no model", "ser": 0.0, "kl": record["plan"]} for x in (1, length)]
    rows.append({"x": length, "draw": "autoregressive", "ser": 0.0, "kl": 0.0})
    series = [*SHOWN.values(), "no model", "autoregressive"]
    base = alt.Chart(pd.DataFrame(rows)).encode(
        x=alt.X("x:Q", title="model calls per sequence").scale(type="log", domain=[1, length]),
        color=alt.Color("draw:N", title=None).scale(domain=series, range=HUES[: len(series)]),
        strokeDash=alt.condition("datum.draw == 'no model'", alt.value([4, 4]), alt.value([1, 0])),
    )
    panels = []
    for field, title in (("ser", "fraction of impossible sequences"), ("kl", "KL divergence, nats per sequence")):
        y = alt.Y(f"{field}:Q", title=title)
        y = y.scale(domain=[0, 1]) if field == "ser" else y.scale(type="symlog", domainMin=0)
        marks = base.mark_line(strokeWidth=2), base.mark_point(filled=True, size=50).transform_filter("datum.x > 0")
        panels.append(alt.layer(*marks).encode(y=y).properties(width=300, height=240))
    words = f"{name}, {length} tokens: valid is not correct"
    chart = alt.hconcat(*panels).properties(title=alt.TitleParams(words, anchor="start"), background="white")
    return svg(chart.configure_view(stroke=None).configure_legend(orient="bottom").to_dict())


def speed() -> None:
    """Seconds of CPU: exact denoisers at 2,000 x 512, and an untrained network of preset `small` at 16 x 128; N = 8."""
    torch.set_num_threads(1)
    for name in ("paper-2gram", "sparse-hmm"):
        language = load(name)
        network = trained.Network(Trunk(trained.preset("small", "mdm", language.vocabulary)))
        own = automata.support(language)
        draws: dict[str, str | Joint] = {"product": "product", "fitted": Joint(own), "alone": Joint(own, alone=True)}
        for draw, joint in draws.items():
            generate(network, steps=2, length=16, rows=9, draw=joint)
            exact = seconds(partial(generate, language, steps=8, length=512, rows=2000, draw=joint))
            small = partial(generate, network, steps=8, length=128, rows=16, draw=joint)
            print(f"{name} {draw}: {exact:.2f} s, network {min(seconds(small) for _ in range(3)):.3f} s", flush=True)


def seconds(work: Callable[[], Any]) -> float:
    """Of CPU."""
    used = time.process_time()
    work()
    return time.process_time() - used


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    for name in ("table", "figure", "speed"):
        parser.add_argument(f"--{name}", action="store_true")
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop after these seconds of CPU")
    chosen = parser.parse_args()
    if chosen.speed:
        speed()
    elif chosen.table:
        made = json.loads(RESULTS.read_text())
        print(f"{table(made)}\n\n{joint_text.table(made)}")
    elif chosen.figure:
        (ROOT / "docs" / "joint.svg").write_text(figure(json.loads(RESULTS.read_text())) + "\n")
    else:
        study(chosen.out, chosen.seconds)


if __name__ == "__main__":
    main()
