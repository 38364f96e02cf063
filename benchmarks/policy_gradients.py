"""The study of policy gradients: surrogates of log p(x) against the exact gradient, on tiny languages.

    python -m benchmarks.policy_gradients --out DIR       all cells into DIR/policy-gradients.json; goes on where it was
    python -m benchmarks.policy_gradients --table         the tables of docs/policy-gradients.md from results/
    python -m benchmarks.policy_gradients --figure        docs/policy-gradients.svg
    python -m benchmarks.policy_gradients --authors DIR   against the authors' code, from bare or usual clones in DIR

Languages: a chain of three symbols, the last of which ends a text, at L = 4 and 6; at L = 8 one of two symbols, which
keeps the number of contexts below 10,000. Networks of about 84,000 weights are trained at each length for a few and for
many steps. Parts:

    bias     every sampler x tokens of a step x reward x network, expectations, and finite differences of E r along g
    noise    groups of 16 rollouts, 1, 4, 16 evaluations, at L = 4
    steps    the reward after 1 and 40 steps of length 0.1 along each expectation, at L = 4
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
UPDATES, EVERY, RATE, ROLLOUTS, SEEDS = 200, 10, 1e-3, 16, 2
CURVES = ("exact", "trajectory", "one-step", "elbo", "antithetic", "coupled", "gdpo", "spg-mixed", "wd1")
NUDGE = 1e-4
TAUGHT = "length"  # the reward of noise, steps and curves: valid is near 1 at one token a step
NOISY = (("random", 1), ("random", 2), ("low-confidence", 1), ("low-confidence", 2))
CURVED = (("random", 1), ("random", 2), ("low-confidence", 2))
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


def trained_by(surrogate: str, name: str, size: int, seed: int, length: int = 4) -> list[float]:
    """The exact reward after every tenth of 200 updates of Adam."""
    policy = Policy(copy.deepcopy(network(length, BUDGETS[1])))
    optimiser = torch.optim.Adam(policy.weights, lr=RATE)
    generator = torch.Generator().manual_seed(seed)
    task, values = None, []
    for update in range(UPDATES + 1):
        contexts = policy.contexts(length)
        task = task or task_of(contexts, sampler_of(name, length), length // size, reward(TAUGHT, length), "linear")
        now = Moment(policy, contexts, task)
        if update % EVERY == 0:
            values.append(now.reward)
        rows = torch.multinomial(now.p.detach(), ROLLOUTS, replacement=True, generator=generator)
        options = {} if SURROGATES[surrogate].score is None else {"evaluations": 4}
        vector = now.sampled(SURROGATES[surrogate], rows, generator, **options)
        for weight, part in zip(policy.weights, vector.split([w.numel() for w in policy.weights]), strict=True):
            weight.grad = -part.view_as(weight).to(weight)
        optimiser.step()
    return values


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
    for seed in range(SEEDS):
        for (name, size), surrogate in itertools.product(CURVED, CURVES):
            key = {"part": "curves", "sampler": name, "tokens": size, "surrogate": surrogate, "seed": seed}
            yield key, partial(trained_by, surrogate, name, size, seed)


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
    return compare(surrogate, network(length, BUDGETS[1]), *how, evaluations=EVALUATIONS).table()


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    study(chosen.out)


if __name__ == "__main__":
    main()
