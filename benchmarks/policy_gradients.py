"""The study of policy gradients: surrogates of log p(x) against the exact gradient, on tiny languages.

    python -m benchmarks.policy_gradients --out DIR       all cells into DIR/policy-gradients.json; goes on where it was
    python -m benchmarks.policy_gradients --table         the tables of docs/policy-gradients.md from results/
    python -m benchmarks.policy_gradients --figure        docs/policy-gradients.svg

Languages: a chain of three symbols, the last of which ends a text, at L = 4 and 6; at L = 8 one of two symbols, which
keeps the number of contexts below 10,000. Networks of about 84,000 weights are trained at each length for a few and for
many steps. Parts:

    bias     every sampler x tokens of a step x reward x network, expectations; at L = 4 finite differences of E r
    check    finite differences at L = 6 and 8, in float64
    tables   free tables of logits from N(0, 1) in place of networks, and a random fifth of texts as the reward
    noise    groups of 16 rollouts, 1, 4, 16 evaluations, at L = 4
    steps    the reward after 1 and 40 steps of length 0.02 along each expectation, at L = 4
    curves   200 updates of Adam, each by 16 rollouts and 4 evaluations, at L = 4
"""

from __future__ import annotations

import argparse
import copy
import itertools
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unmask import train
from unmask.core.files import atomic, origin
from unmask.diagnosis.policy import SURROGATES, gradient
from unmask.diagnosis.policy.compare import Moment, compare
from unmask.diagnosis.policy.gradient import Policy, task_of
from unmask.languages import NGram
from unmask.models import trained
from unmask.models.trained.recipe import recipe
from unmask.models.trained.trunk import Trunk

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results" / "policy-gradients.json"
BUDGETS = (20, 200)  # training steps of a network
SIZES = {4: (1, 2, 4), 6: (1, 2, 3), 8: (1, 2, 4)}  # tokens of a step
LOW = "low-confidence(ties='position')"
SAMPLERS = {"random": "fixed-size", "low-confidence": LOW, "by blocks": "blocks(block_length={half}, inner={inner!r})"}
REWARDS = ("valid", "rare", "length")
DISTINCT = ("trajectory", "one-step", "elbo", "coupled", "gdpo", "spg-upper", "spg-mixed", "wd1")  # expectations
EVALUATIONS = (1, 4, 16)
UPDATES, EVERY, RATE, ROLLOUTS = 200, 10, 1e-3, 16
CURVES = ("exact", "trajectory", "one-step", "elbo", "antithetic", "coupled", "gdpo", "spg-mixed", "wd1")
NUDGE = 1e-5  # larger ones cross a jump at L = 8: the distribution jumps where two scores cross
TAUGHT = "valid"  # the reward of noise and steps, of the less trained network
LEARNT = {"valid": 1, "rare": 3}  # of curves, with their seeds
STEP = 0.02  # of the weights
NOISY = (("random", 1), ("random", 2), ("low-confidence", 1), ("low-confidence", 2))
CURVED = {"valid": NOISY[:2] + NOISY[3:], "rare": (NOISY[1], NOISY[3])}
Record = dict[str, Any]


def language(length: int) -> NGram:
    """Three symbols: a, b (never twice in a row), and an end that stays; or two, of which the second never repeats."""
    if length == 8:
        return NGram(2, [0.6, 0.4], [[0.45, 0.55], [1.0, 0.0]])
    return NGram(2, [0.6, 0.35, 0.05], [[0.15, 0.6, 0.25], [0.7, 0.0, 0.3], [0.0, 0.0, 1.0]])


def reward(name: str, length: int) -> Callable[[Tensor], Tensor]:
    """valid: in the language; rare: the first symbol three times; length: the part before the first end, or before the
    second symbol."""
    own = language(length)
    last = own.vocabulary - 1

    def of(texts: Tensor) -> Tensor:
        if name == "valid":
            return own.supports(texts).double()
        if name == "rare":
            return ((texts[:, :3] == 0).all(1)).double()
        return (texts != last).long().cumprod(1).sum(1).double() / length

    return of


def sampler_of(name: str, length: int) -> str:
    return SAMPLERS[name].format(half=length // 2, inner=LOW)


NETWORKS: dict[tuple[int, int], Trunk] = {}


def network(length: int, budget: int) -> Trunk:
    """A network after some training steps; float64 at L = 4, where directions are compared to many digits."""
    if (length, budget) not in NETWORKS:
        own = language(length)
        shape = trained.Shape("mdm", own.vocabulary, length, hidden=48, layers=3, heads=4)
        with tempfile.TemporaryDirectory() as directory:
            train(own, shape, recipe("quick", "mdm", steps=budget), Path(directory, "mdm"))
            trunk = trained.load(Path(directory, "mdm"))
        NETWORKS[length, budget] = trunk.double() if length == 4 else trunk
    return NETWORKS[length, budget]


def error(length: int, budget: int) -> float:
    """KL(q || p) in nats per text of one position at a time in a random order, by its bound: E_q log q - elbo."""
    own, policy = language(length), Policy(network(length, budget))
    contexts = policy.contexts(length)
    log_q = own.log_prob(contexts.texts)
    some = log_q.isfinite()
    elbo = SURROGATES["elbo"].score(contexts, contexts.texts, None).detach()  # type: ignore[misc]
    return float((log_q.exp() * (log_q - elbo))[some].sum())


def moment(length: int, budget: int, name: str, size: int, wanted: str) -> Moment:
    policy = Policy(network(length, budget))
    contexts = policy.contexts(length)
    task = task_of(contexts, sampler_of(name, length), length // size, reward(wanted, length), "linear")
    return Moment(policy, contexts, task)


def biased(length: int, budget: int, name: str, size: int) -> list[Record]:
    """Every reward: the direction of each surrogate against the exact one, and E r by finite differences."""
    found = []
    first = moment(length, budget, name, size, REWARDS[0])
    log_p = first.p.detach().clamp(min=1e-300).log()
    for wanted in REWARDS:
        task = task_of(first.contexts, first.task.sampler, length // size, reward(wanted, length), "linear")
        now = Moment(first.policy, first.contexts, task)
        now.__dict__["p"] = first.p
        names = ("exact", *DISTINCT)
        vectors = first.policy.pulled(first.contexts, [now.direction(SURROGATES[one]) for one in names])
        exact = vectors[0]
        record: Record = {"reward": wanted, "value": now.reward, "norm": float(exact.norm())}
        for one, vector in zip(names[1:], vectors[1:], strict=True):
            record[one] = {
                "bias": float((vector - exact).norm() / exact.norm()),
                "cosine": float(torch.cosine_similarity(vector, exact, dim=0)),
                "length": float(vector.norm() / exact.norm()),
            }
        if length == 4:
            record["difference"] = differed(length, budget, name, size, wanted, exact)
        found.append(record)
    elbo = SURROGATES["elbo"].score(first.contexts, first.contexts.texts, None).detach()  # type: ignore[misc]
    gap = float(first.p.detach() @ (elbo - log_p))
    return [record | {"elbo minus log p": gap} for record in found]


def differed(length: int, budget: int, name: str, size: int, wanted: str, exact: Tensor) -> float:
    """|dE r / dv - g v| / |g|, v = g / |g|, the first by central differences of the enumerated reward."""
    unit, rewards = exact / exact.norm(), []
    for sign in (1, -1):
        moved = copy.deepcopy(network(length, budget))
        Policy(moved).move(sign * NUDGE * unit)
        how = (sampler_of(name, length), length // size, reward(wanted, length), length)
        rewards.append(gradient(moved, *how).reward)
    return float(abs((rewards[0] - rewards[1]) / 2 / NUDGE - exact.norm()) / exact.norm())


def trained_by(surrogate: str, name: str, size: int, wanted: str, seed: int, length: int = 4) -> list[float]:
    """The exact reward after every tenth of 200 updates of Adam."""
    policy = Policy(copy.deepcopy(network(length, BUDGETS[0])))
    optimiser = torch.optim.Adam(policy.weights, lr=RATE)
    generator = torch.Generator().manual_seed(seed)
    task, values = None, []
    for update in range(UPDATES + 1):
        contexts = policy.contexts(length)
        task = task or task_of(contexts, sampler_of(name, length), length // size, reward(wanted, length), "linear")
        now = Moment(policy, contexts, task)
        if update % EVERY == 0:
            values.append(now.reward)
        rows = torch.multinomial(now.p.detach(), ROLLOUTS, replacement=True, generator=generator)
        options = {} if SURROGATES[surrogate].score is None else {"calls": 4}
        vector = now.sampled(SURROGATES[surrogate], rows, generator, **options)
        for weight, part in zip(policy.weights, vector.split([w.numel() for w in policy.weights]), strict=True):
            weight.grad = -part.view_as(weight).to(weight)
        optimiser.step()
    return values


class Free(torch.nn.Module):
    """Free logits for each context of L positions and V symbols."""

    def __init__(self, vocabulary: int, length: int, seed: int) -> None:
        super().__init__()
        shape = ((vocabulary + 1) ** length, length, vocabulary)
        generator = torch.Generator().manual_seed(seed)
        self.table = torch.nn.Parameter(torch.randn(shape, generator=generator, dtype=torch.float64))
        self.vocabulary, self.digits = vocabulary, (vocabulary + 1) ** torch.arange(length).flip(0)

    def forward(self, contexts: Tensor) -> Tensor:
        return self.table[(contexts * self.digits).sum(-1)]


def tables(name: str, size: int, seeds: int = 6, length: int = 4) -> Record:
    """Mean cosine of each surrogate over free tables."""
    found: dict[str, list[float]] = {one: [] for one in DISTINCT}
    for seed in range(seeds):
        policy = Policy(Free(3, length, seed))
        contexts = policy.contexts(length)
        chance = torch.rand(len(contexts.texts), generator=torch.Generator().manual_seed(100 + seed))
        task = task_of(contexts, sampler_of(name, length), length // size, lambda _, r=chance: r < 0.2, "linear")
        now = Moment(policy, contexts, task)
        exact = now.direction(SURROGATES["exact"]).flatten()
        for one in DISTINCT:
            vector = now.direction(SURROGATES[one]).flatten()
            found[one].append(float(torch.cosine_similarity(vector, exact, dim=0)))
    return {one: sum(values) / seeds for one, values in found.items()}


def check(length: int, name: str) -> float:
    """The relative error of |g| against finite differences, of the better network in float64."""
    NETWORKS[length, BUDGETS[1]] = network(length, BUDGETS[1]).double()
    how = (sampler_of(name, length), length // 2, reward("length", length), length)
    exact = gradient(network(length, BUDGETS[1]), *how).vector
    return differed(length, BUDGETS[1], name, 2, "length", exact)


Cell = tuple[dict[str, Any], Callable[[], Any]]


def cells() -> Iterator[Cell]:
    for length in SIZES:
        for budget in BUDGETS:
            yield {"part": "network", "length": length, "budget": budget}, partial(error, length, budget)
    yield from biases(4)
    for name, size in NOISY:
        for surrogate in SURROGATES:
            key = {"part": "noise", "sampler": name, "tokens": size, "surrogate": surrogate}
            yield key, partial(noisy, surrogate, name, size)
    yield from biases(6)
    yield from biases(8)
    for name, size in itertools.product(("random", "low-confidence"), (1, 2)):
        yield {"part": "tables", "sampler": name, "tokens": size}, partial(tables, name, size)
    for wanted, seeds in LEARNT.items():
        for seed, (name, size), surrogate in itertools.product(range(seeds), CURVED[wanted], CURVES):
            key = {"part": "curves", "sampler": name, "tokens": size, "surrogate": surrogate, "seed": seed}
            yield key | {"reward": wanted}, partial(trained_by, surrogate, name, size, wanted, seed)
    for length, name in itertools.product((6, 8), ("random", "low-confidence")):
        yield {"part": "check", "length": length, "sampler": name}, partial(check, length, name)


def biases(length: int) -> Iterator[Cell]:
    """Each network, sampler and number of tokens; at L = 8 the better network alone, for time."""
    for budget in BUDGETS[1:] if length == 8 else BUDGETS:
        for name in SAMPLERS:
            for size in SIZES[length]:
                if name == "by blocks" and length // size < 2:
                    continue
                key = {"part": "bias", "length": length, "budget": budget, "sampler": name, "tokens": size}
                yield key, partial(biased, length, budget, name, size)


def noisy(surrogate: str, name: str, size: int, length: int = 4) -> Record:
    """Noise of groups, and rewards along the expectation."""
    how = (sampler_of(name, length), length // size, reward(TAUGHT, length), length)
    return compare(surrogate, network(length, BUDGETS[0]), *how, calls=EVALUATIONS, step=STEP).table()


def study(directory: Path) -> None:
    """Every cell that the file does not have yet."""
    torch.set_num_threads(1)
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / RESULTS.name
    made: Record = json.loads(path.read_text()) if path.exists() else {"origin": origin(), "records": []}
    known = [record["cell"] for record in made["records"]]
    for key, run in cells():
        if key in known:
            continue
        began = time.process_time()
        result = run()
        made["records"].append({"cell": key, "result": result, "seconds": round(time.process_time() - began, 2)})
        with atomic(path) as file:
            file.write((json.dumps(made, indent=1) + "\n").encode())
        print(key, made["records"][-1]["seconds"], flush=True)


SHOWN = {
    "trajectory": "trajectory",
    "one-step": "one-step",
    "elbo": "elbo",
    "coupled": "coupled",
    "gdpo": "gdpo",
    "spg-upper": "spg-upper",
    "spg-mixed": "spg-mixed",
}
KINDS = ("1 token", "2 tokens", "3 or 4", "all at once")


def kind(cell: dict[str, Any]) -> str:
    """How many tokens a step reveals."""
    if cell["tokens"] == cell["length"]:
        return KINDS[3]
    return {1: KINDS[0], 2: KINDS[1]}.get(cell["tokens"], KINDS[2])


def cosines(made: Record) -> dict[tuple[str, str], dict[str, list[float]]]:
    """Cosines of each surrogate, by sampler and tokens of a step, over lengths, networks and rewards."""
    found: dict[tuple[str, str], dict[str, list[float]]] = {}
    for record in made["records"]:
        if record["cell"]["part"] == "bias":
            own = found.setdefault((record["cell"]["sampler"], kind(record["cell"])), {one: [] for one in DISTINCT})
            for result in record["result"]:
                for one in DISTINCT:
                    own[one].append(result[one]["cosine"])
    return found


def table(made: Record) -> str:
    """Three tables: mean and least cosines; free tables; noise, gains and curves."""
    lines = [
        "| sampler | a step | " + " | ".join(f"`{one}`" for one in SHOWN) + " |",
        "|---|---|" + "---|" * len(SHOWN),
    ]
    for (name, size), own in sorted(
        cosines(made).items(), key=lambda one: (list(SAMPLERS).index(one[0][0]), KINDS.index(one[0][1]))
    ):
        cells = [f"{sum(values) / len(values):.2f} ({min(values):.2f})" for values in (own[one] for one in SHOWN)]
        lines.append(f"| {name} | {size} | " + " | ".join(cells) + " |")
    lines += [
        "",
        "| sampler | a step | " + " | ".join(f"`{one}`" for one in SHOWN) + " |",
        "|---|---|" + "---|" * len(SHOWN),
    ]
    for cell, result in parts(made, "tables"):
        tokens = f"{cell['tokens']} token" + "s" * (cell["tokens"] > 1)
        lines.append(f"| {cell['sampler']} | {tokens} | " + " | ".join(f"{result[one]:.2f}" for one in SHOWN) + " |")
    titles = [f"{name}, {size}" for name, size in NOISY]
    for words, shown in (
        ("variance at 1 / 4 / 16 model calls", spreads),
        ("valid after 0 / 40 steps / 200 updates / rare after 200", gains),
    ):
        lines += ["", f"| {words} | " + " | ".join(titles) + " |", "|---|" + "---|" * len(titles)]
        for surrogate in SURROGATES:
            lines.append(f"| `{surrogate}` | " + " | ".join(shown(made, surrogate, *one) for one in NOISY) + " |")
    return "\n".join(lines)


def noise_of(made: Record, surrogate: str, name: str, size: int) -> Record:
    wanted = {"part": "noise", "sampler": name, "tokens": size, "surrogate": surrogate}
    return next((result for cell, result in parts(made, "noise") if cell == wanted), {})


def spreads(made: Record, surrogate: str, name: str, size: int) -> str:
    result = noise_of(made, surrogate, name, size)
    return " / ".join(f"{result[f'variance at {k}']:.1f}" for k in EVALUATIONS if f"variance at {k}" in result)


def gains(made: Record, surrogate: str, name: str, size: int) -> str:
    result = noise_of(made, surrogate, name, size)
    numbers = [result[f"reward after {count} steps"] for count in (0, 40)] if result else []
    for wanted in LEARNT:
        ends = [
            values[-1]
            for cell, values in parts(made, "curves")
            if (cell["sampler"], cell["tokens"], cell["surrogate"], cell["reward"]) == (name, size, surrogate, wanted)
        ]
        numbers += [sum(ends) / len(ends)] if ends else []
    return " / ".join(f"{value:.3f}" for value in numbers)


def parts(made: Record, part: str) -> list[tuple[dict[str, Any], Any]]:
    return [(record["cell"], record["result"]) for record in made["records"] if record["cell"]["part"] == part]


HUES = ("#000000", "#0077bb", "#ee7733", "#009988", "#cc3311", "#8c6bb1", "#997700", "#33bbee", "#ee3377")


def figure(made: Record) -> str:
    """SVG: mean cosines against tokens of a step, and the reward in training."""
    import altair as alt
    import pandas as pd

    from unmask.report.charts import svg

    means = cosines(made)
    rows = [
        {"sampler": name, "x": size, "y": sum(values) / len(values), "surrogate": one}
        for (name, size), own in means.items()
        for one, values in own.items()
        if one in SHOWN
    ]
    curved: dict[tuple[str, str], list[list[float]]] = {}
    for cell, values in parts(made, "curves"):
        if cell["reward"] == "valid":
            tokens = f"{cell['tokens']} token" + "s" * (cell["tokens"] > 1)
            curved.setdefault((f"{cell['sampler']}, {tokens} a step", cell["surrogate"]), []).append(values)
    trained_rows = [
        {"sampler": name, "x": EVERY * number, "y": sum(one) / len(one), "surrogate": surrogate}
        for (name, surrogate), runs in curved.items()
        for number, one in enumerate(zip(*runs, strict=True))
    ]
    names = [*CURVES[:1], *SHOWN, *(one for one in CURVES if one not in SHOWN and one != "exact")]
    colour = alt.Color("surrogate:N", title=None).scale(domain=names, range=list(HUES[: len(names)]))
    size = {"width": 200, "height": 190}
    top = (
        alt.Chart(pd.DataFrame(rows))
        .mark_line(point=True)
        .encode(
            x=alt.X("x:N", title="revealed in a step", sort=list(KINDS), axis=alt.Axis(labelAngle=-30)),
            y=alt.Y("y:Q", title="cosine with the exact gradient").scale(domain=[0.4, 1]),
            color=colour,
        )
    )
    low = (
        alt.Chart(pd.DataFrame(trained_rows))
        .mark_line()
        .encode(
            x=alt.X("x:Q", title="updates"), y=alt.Y("y:Q", title="exact reward, valid").scale(zero=False), color=colour
        )
    )
    panels = [
        chart.properties(**size).facet(column=alt.Column("sampler:N", title=None, sort=order))
        for chart, order in ((top, list(SAMPLERS)), (low, None))
    ]
    chart = alt.vconcat(*panels).properties(background="white").configure_view(stroke=None)
    return svg(chart.configure_legend(orient="bottom", columns=5).to_dict())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    for name in ("table", "figure"):
        parser.add_argument(f"--{name}", action="store_true")
    chosen = parser.parse_args()
    if chosen.table:
        print(table(json.loads(RESULTS.read_text())))
    elif chosen.figure:
        (ROOT / "docs" / "policy-gradients.svg").write_text(figure(json.loads(RESULTS.read_text())) + "\n")
    else:
        study(chosen.out)


if __name__ == "__main__":
    main()
