"""Constraints that a model does not know: the law of each draw against q(x | A), enumerated; 4 symbols, 6 tokens.

    python -m benchmarks.given --out FILE   all cells into a file such as results/given.json, 15 minutes of one core
    python -m benchmarks.given --table      the tables of docs/joint-draws.md from results/given.json

q is the model one token at a time, in random order; A the allowed strings. A step reveals 6 / N random positions. A
draw is a distribution over the strings that agree with a context: J, whose marginal at the step's positions it draws.

    local        each position without the tokens that no allowed string has there: the usual practice
    completable  only what can be completed: local masking that looks at the step as a whole; with one token a step it
                 draws again until a token can be completed, as published decoders do
    coupled      p cut to A;  power w: p(x_S) look(x_S)^w
    fitted       nearest to p with its marginals, on A;  alone: the same at the positions of the step
    moves k      coupled, then k redraws of a random position from q(x_i | the others), on A
    given        particles: its limit is enumerated, finite groups are sampled
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.joint import CONSTRAINTS, full_chain, learnt
from unmask import generate
from unmask.core.files import origin, write_json
from unmask.denoisers import Denoiser, Ideal
from unmask.languages import Answers, automata
from unmask.languages.kernels.machine import Floats, Ints
from unmask.samplers.joint.drawing import Joint

V, L, SLOT = 4, 6, 3
HIDDEN = V
STRINGS: Ints = np.indices((V,) * L).reshape(L, -1).T.copy()  # (V^L, L)
BASE = (V + 1) ** np.arange(L)  # of the number of a context
CONTEXTS: Ints = np.indices((V + 1,) * L).reshape(L, -1)[::-1].T.copy()  # ((V+1)^L, L): row n has number n
ALLOWED = {name: kept(torch.from_numpy(STRINGS)).numpy() for name, kept in CONSTRAINTS.items()} | {
    "ends as it begins": STRINGS[:, 0] == STRINGS[:, -1],
    "a half twice": (STRINGS[:, :3] == STRINGS[:, 3:]).all(1),
}
STEPS = (1, 2, 3, 6)
ROWS, SEEDS = 6400, 4  # of sampled draws
SWEEPS = 30
FILE = Path(__file__).parents[1] / "results" / "given.json"
Draw = Callable[[Floats, Ints, np.ndarray, Ints], Floats]
Record = dict[str, Any]


def weights(p: Floats, strings: Ints) -> Floats:
    """The product of the marginals p (L, V) at each string (n, L)."""
    return np.asarray(p[np.arange(L), strings].prod(1))


def at_step(mass: Floats, strings: Ints, step: Ints) -> tuple[Floats, Ints]:
    """(the mass of each x_S, the number of x_S of each string)."""
    number = strings[:, step] @ V ** np.arange(len(step))
    return np.bincount(number, mass, V ** len(step)), number


def local(p: Floats, strings: Ints, allowed: np.ndarray, step: Ints) -> Floats:
    out = np.ones(len(strings))
    for i in step:
        can = np.bincount(strings[allowed, i], minlength=V) > 0 if allowed.any() else np.ones(V, bool)
        own = np.where(can, p[i], 0)
        out *= (own / own.sum())[strings[:, i]]
    return spread(out, strings, step)


def spread(of_step: Floats, strings: Ints, step: Ints) -> Floats:
    """J from the probability of each string's x_S: any distribution of the other positions will do."""
    number = at_step(of_step, strings, step)[1]
    return of_step / np.bincount(number)[number]


def power(w: float) -> Draw:
    def draw(p: Floats, strings: Ints, allowed: np.ndarray, step: Ints) -> Floats:
        product = weights(p, strings)
        own, number = at_step(product, strings, step)
        met = at_step(product * allowed, strings, step)[0]
        look = np.divide(met, own, out=np.zeros_like(own), where=own > 0)
        mass = own * np.where(look > 0, np.where(look > 0, look, 1) ** w, 0)
        return spread(mass[number] / mass.sum(), strings, step)

    return draw


def fit(p: Floats, strings: Ints, places: Ints) -> Floats:
    """The distribution on strings (n, L) that has the marginals p at these places, by sweeps."""
    mass = p[places, strings[:, places]].prod(1)
    for _ in range(SWEEPS):
        for i in places:
            has = np.bincount(strings[:, i], mass, V)
            mass = mass * np.divide(p[i] * mass.sum(), has, out=np.zeros(V), where=has > 0)[strings[:, i]]
        if not mass.sum() > 0:
            return np.full(len(strings), 1 / len(strings))
        mass = mass / mass.sum()
    return mass


def fitted(p: Floats, strings: Ints, allowed: np.ndarray, step: Ints) -> Floats:
    if len(step) == 1:  # from its own marginal, without what has no completion
        return power(0)(p, strings, allowed, step)
    free = np.flatnonzero(np.ptp(strings, axis=0) > 0)
    out = np.zeros(len(strings))
    out[allowed] = fit(p, strings[allowed], free)
    return out


def alone(p: Floats, strings: Ints, allowed: np.ndarray, step: Ints) -> Floats:
    if len(step) == 1:
        return power(0)(p, strings, allowed, step)
    out, number = np.zeros(V ** len(step)), at_step(np.ones(len(strings)), strings, step)[1]
    possible, first = np.unique(number[allowed], return_index=True)
    out[possible] = fit(p, strings[allowed][first], step)
    return spread(out[number], strings, step)


DRAWS: dict[str, Draw] = {
    "local": local,
    "completable": power(0),
    "power .5": power(0.5),
    "coupled": power(1),
    "power 1.5": power(1.5),
    "fitted": fitted,
    "alone": alone,
}


class Model(Denoiser):
    """The marginals of every context, as a table ((V+1)^L, L, V)."""

    vocabulary = V

    def __init__(self, table: Floats) -> None:
        self.table = torch.from_numpy(table)

    def posterior(self, tokens: Tensor, positions: Tensor | None = None, time: Tensor | None = None) -> Tensor:
        found = self.table[tokens @ torch.from_numpy(BASE)]
        if positions is None:
            return found
        return found.gather(1, positions.expand(len(tokens), -1).unsqueeze(2).expand(-1, -1, V))


def tabulated(denoiser: Denoiser) -> Floats:
    table = denoiser.posterior(torch.from_numpy(CONTEXTS))
    assert isinstance(table, Tensor)
    found: Floats = table.double().numpy()
    return found


def models() -> Iterator[tuple[str, Floats]]:
    """A chain that is known exactly, a network that has learnt it, and a table that contradicts itself."""
    torch.manual_seed(4)
    chain = full_chain()
    yield "chain", tabulated(Ideal(chain))
    yield "network", tabulated(learnt(chain, 200, L))
    rows = np.random.default_rng(7).dirichlet(np.ones(V), size=(len(CONTEXTS), L))
    shown = np.eye(V)[np.minimum(CONTEXTS, V - 1)]
    yield "contradictory", np.where((CONTEXTS == HIDDEN)[..., None], rows, shown)


def law(table: Floats, steps: int, allowed: np.ndarray, draw: Draw) -> Floats:
    """(V^L): what a draw writes, over all orders: the mass moves from contexts to contexts."""
    masses = np.zeros(len(CONTEXTS))
    masses[-1] = 1.0  # all hidden
    for _ in range(steps):
        after = np.zeros_like(masses)
        for number in np.flatnonzero(masses):
            context = CONTEXTS[number]
            hidden = np.flatnonzero(context == HIDDEN)
            inside = (context == STRINGS)[:, context < HIDDEN].all(1)
            strings, kept = STRINGS[inside], allowed[inside]
            some = [*itertools.combinations(hidden, L // steps)]
            for step in map(np.array, some):
                joint = draw(table[number], strings, kept, step) if kept.any() or draw is local else None
                if joint is None:  # nothing can be completed: the row stays invalid
                    joint = power(0)(table[number], strings, np.ones_like(kept), step)
                following = number + (strings[:, step] - HIDDEN) @ BASE[step]
                np.add.at(after, following, masses[number] * joint / len(some))
        masses = after
    return masses[STRINGS @ BASE]


def independent(table: Floats, steps: int) -> Iterator[Floats]:
    """(V^L): what independent draws write, for each order."""
    for order in set(itertools.permutations(np.arange(L) * steps // L)):
        log, when = np.zeros(len(STRINGS)), np.array(order)
        for k in range(steps):
            contexts = np.where(when < k, STRINGS, HIDDEN) @ BASE
            for i in np.flatnonzero(when == k):
                with np.errstate(divide="ignore"):
                    log += np.log(table[contexts, i, STRINGS[:, i]])
        yield np.exp(log)


def many_particles(table: Floats, steps: int, allowed: np.ndarray) -> Floats:
    """The limit of `given`: what independent draws write, cut to A, for each order."""
    cut = [p * allowed / (p @ allowed) for p in independent(table, steps)]
    return np.asarray(np.mean(cut, axis=0))


def moved(p: Floats, q: Floats, count: int) -> Floats:
    """The law p after moves: a random position is drawn again from q(x_i | the others)."""
    for _ in range(count):
        after = np.zeros_like(p)
        for i in range(L):
            key = STRINGS @ np.where(np.arange(L) == i, 0, BASE)
            mass, norm = np.bincount(key, p), np.bincount(key, q)
            after += np.divide(q, norm[key], out=np.zeros_like(q), where=norm[key] > 0) * mass[key] / L
        p = after
    return p


def sampled(table: Floats, steps: int, allowed: np.ndarray, particles: int, seed: int) -> Floats:
    """The frequencies of strings that the package's own draw writes."""
    automaton = automata.support(Answers(torch.from_numpy(STRINGS[allowed]), V))
    draw = Joint(automaton, 0, single=False, particles=particles)
    made = generate(Model(table), sampler="fixed-size", steps=steps, length=L, rows=ROWS, draw=draw, seed=seed)
    return np.bincount(made.tokens.numpy() @ V ** np.arange(L)[::-1], minlength=len(STRINGS)) / ROWS


def compared(p: Floats, q: Floats) -> Record:
    """SER, TV and KL(q to p on what p can write), and the TV of a label, against q = q(x | A)."""
    valid = q > 0
    inside = p * valid / max(p[valid].sum(), 1e-300)
    there = valid & (inside > 0)
    labels = [np.bincount(STRINGS[:, SLOT], one, V) for one in (inside, q)]
    return {
        "ser": float(1 - p[valid].sum()),
        "tv": 0.5 * float(abs(p - q).sum()),
        "kl": float(q[there] @ np.log(q[there] / np.maximum(p[there], 1e-300))),
        "label": 0.5 * float(abs(labels[0] - labels[1]).sum()),
    }


def study() -> list[Record]:
    records = list[Record]()
    for model, table in models():
        whole = np.mean([*independent(table, L)], axis=0)  # q: one token at a time
        for name, allowed in ALLOWED.items():
            q = np.where(allowed, whole, 0) / whole[allowed].sum()
            for steps in STEPS:
                began = time.process_time()
                laws = {label: law(table, steps, allowed, draw) for label, draw in DRAWS.items()}
                laws["given, the limit"] = many_particles(table, steps, allowed)
                laws["moves 3"] = moved(laws["coupled"], q, 3)
                laws["rejection"] = np.mean([*independent(table, steps)], axis=0)
                for label, p in laws.items():
                    about = {"model": model, "constraint": name, "steps": steps, "draw": label}
                    records.append(about | compared(p, q))
                records[-1]["kept"] = float(laws["rejection"][allowed].sum())
                for particles in (4, 16) if steps > 1 else ():
                    found = [compared(sampled(table, steps, allowed, particles, seed), q) for seed in range(SEEDS)]
                    about = {"model": model, "constraint": name, "steps": steps, "draw": f"given({particles})"}
                    exact = np.random.default_rng(steps).multinomial(ROWS, q) / ROWS  # rows of q itself
                    about["noise"] = compared(exact, q)["tv"]
                    for key in ("ser", "tv", "label"):
                        values = [one[key] for one in found]
                        about |= {key: float(np.mean(values)), f"{key}_error": float(np.std(values, ddof=1) / 2)}
                    records.append(about)
                print(f"{model}, {name}, {steps} steps: {time.process_time() - began:.1f} s", flush=True)
    return records


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    if args.out:
        write_json(args.out, {"origin": origin(), "records": study()})
    if args.table:
        print(table_of(json.loads(FILE.read_text())["records"]))


def table_of(records: list[Record]) -> str:
    """The mean over constraints of each model, number of steps and draw."""
    lines = []
    for model in dict.fromkeys(one["model"] for one in records):
        for draw in dict.fromkeys(one["draw"] for one in records):
            cells = []
            for steps in STEPS:
                own = [r for r in records if (r["model"], r["draw"], r["steps"]) == (model, draw, steps)]
                mean = {k: np.mean([r[k] for r in own]) for k in ("ser", "tv", "kl", "label") if own and k in own[0]}
                cells.append(", ".join(f"{mean[k]:.3f}" if k in mean else "-" for k in ("ser", "tv", "kl", "label")))
            lines.append(f"| {model} | {draw} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
