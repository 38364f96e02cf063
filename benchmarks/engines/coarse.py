"""What coarse noise does to a trained network: to the entropy of its draws, and to pass@k, the chance of an answer.

    python -m benchmarks.engines.coarse --out FILE     trains on `long-tail`, and prints the table of docs/engines.md

The network sees held-out sequences with half of the positions hidden. It draws a token at one of them, by a race whose
noise is rounded. The answer is the true token, and k draws pass if one of them is the answer. Nothing is sampled but
the sequences: the race is enumerated, so that

    pass@k = 1 - (1 - P(answer))^k
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.engines.finite import noise
from unmask import languages, train
from unmask.core.files import origin, write_json
from unmask.core.means import mean
from unmask.denoisers import as_marginals
from unmask.models import trained
from unmask.models.trained.recipe import recipe

LANGUAGE, LENGTH, COMMON = "long-tail", 16, 8  # its symbols from 8 on are rare: together .04
KS = (1, 16, 256, 4096, 65536)
POOL = 2000  # held-out sequences, of which those with a rare answer are chosen
BF16, F16 = torch.bfloat16, torch.float16


def quotients(log_p: Tensor, dtype: torch.dtype) -> Tensor:
    """(V, M): exp(l) / -log u for each value of u, all in this type, as in published rollouts at temperature 1."""
    u, _ = noise(dtype)
    return (log_p.to(dtype).exp().unsqueeze(1) / -torch.log(u)).nan_to_num(-1.0).double()


def gumbels(log_p: Tensor, dtype: torch.dtype) -> Tensor:
    """(V, M): l - log(-log u), all in this type."""
    u, _ = noise(dtype)
    return (log_p.to(dtype).unsqueeze(1) - torch.log(-torch.log(u))).nan_to_num(-torch.inf).double()


def winners(values: Tensor, chances: Tensor) -> Tensor:
    """(V): probability that each row has the largest of independent values (V, M) with chances (M); ties: the first.

    P(v) = sum_q P(q_v = q) prod_(w<v) P(q_w < q) prod_(w>v) P(q_w <= q)
    """
    grid, where = values.unique(return_inverse=True)
    point = torch.zeros(len(values), len(grid), dtype=torch.float64)
    point.scatter_add_(1, where, chances.expand(where.shape))

    most = point.cumsum(1).clamp(max=1)
    less = (most - point).clamp(min=0)
    ones = torch.ones(1, len(grid), dtype=torch.float64)
    before = torch.cat([ones, less[:-1]]).cumprod(0)
    after = torch.cat([most[1:], ones]).flip(0).cumprod(0).flip(0)
    return (point * before * after).sum(1)


RACES: dict[str, Callable[[Tensor], Tensor]] = {
    "exact": lambda p: p,
    "race in bfloat16": lambda p: winners(quotients(p.log(), BF16), noise(BF16)[1]),
    "race in float16": lambda p: winners(quotients(p.log(), F16), noise(F16)[1]),
    "Gumbel noise in bfloat16": lambda p: winners(gumbels(p.log(), BF16), noise(BF16)[1]),
}


def predicted(steps: int, items: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """(p, answers), (K, V) and (K): of a network after some training steps, on sequences that it has not seen."""
    language = languages.load(LANGUAGE)
    with tempfile.TemporaryDirectory() as directory:
        shape = trained.preset("quick", "mdm", language.vocabulary, length=LENGTH)
        train(LANGUAGE, shape, recipe("quick", "mdm", steps=steps), Path(directory, "mdm"))
        network = trained.Network(trained.load(Path(directory, "mdm")))
    texts = language.sample(items, LENGTH, seed=2**40 + seed)
    generator = torch.Generator().manual_seed(seed)
    order = torch.rand(texts.shape, generator=generator).argsort(1)
    hidden = torch.zeros(texts.shape, dtype=torch.bool).scatter_(1, order[:, : LENGTH // 2], True)
    rows, positions = torch.arange(items), order[:, 0]
    engine = network.engine(torch.where(hidden, language.vocabulary, texts))
    p = as_marginals(engine.at(rows, positions, None)).dense().double()
    return p / p.sum(1, keepdim=True), texts[rows, positions]


def measured(p: Tensor, answers: Tensor, items: int) -> list[dict[str, Any]]:
    """For each race: the entropy in bits, the mass of rare symbols, and pass@k, where the answer is common or rare."""
    common, rare = ((answers >= COMMON) == wanted for wanted in (False, True))
    found = []
    for name, race in RACES.items():
        record: dict[str, Any] = {"race": name}
        for kind, chosen in (("common", common), ("rare", rare)):
            own, right = p[chosen][:items], answers[chosen][:items].unsqueeze(1)
            q = torch.stack([race(row) for row in own])
            chance = q.gather(1, right).squeeze(1)
            record[kind] = {str(k): plain(1 - (1 - chance) ** k) for k in KS} | {"items": len(own)}
            if kind == "common":
                record["entropy"] = plain(-(q * q.clamp(min=1e-300).log2()).sum(1))
                record["rare symbols"] = plain(q[:, COMMON:].sum(1))
        found.append(record)
        print(name, record, file=sys.stderr, flush=True)
    return found


def plain(values: Tensor) -> dict[str, float]:
    estimate = mean(values)
    return {name: float(f"{getattr(estimate, name):.6g}") for name in ("value", "low", "high")}


def table(records: list[dict[str, Any]]) -> list[str]:
    """Lines of Markdown."""
    shown = [("common", 1), ("common", 16), ("rare", 256), ("rare", 4096), ("rare", 65536)]
    head = ["noise", "entropy, bits", "rare symbols", *(f"{kind} answer, pass@{k:,}" for kind, k in shown)]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for record in records:
        cells = ["{value:.3f} [{low:.3f}, {high:.3f}]".format(**record["entropy"])]
        cells += [f"{record['rare symbols']['value']:.2g}"]
        cells += [f"{record[kind][str(k)]['value']:.2g}" for kind, k in shown]
        lines.append(f"| {' | '.join([record['race'], *cells])} |")
    return lines


def main() -> None:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("coarse", description=__doc__, formatter_class=raw)
    parser.add_argument("--steps", type=int, default=300, help="Training steps of the network")
    parser.add_argument("--items", type=int, default=30, help="Held-out sequences of each kind of answer")
    parser.add_argument("--table", type=Path, help="Print the table of a JSON file, and run nothing")
    parser.add_argument("--out", type=Path, help="JSON file")
    chosen = parser.parse_args()
    if chosen.table is not None:
        print(*table(json.loads(chosen.table.read_text())["races"]), sep="\n")
        return

    p, answers = predicted(chosen.steps, POOL)
    loss = plain(-p.gather(1, answers.unsqueeze(1)).log2().squeeze(1))
    records = measured(p, answers, chosen.items)
    print(*table(records), f"{loss['value']:.3f} bits for an answer", sep="\n")
    if chosen.out is not None:
        made = origin(steps=chosen.steps, items=chosen.items)
        write_json(chosen.out, {"origin": made, "bits of an answer": loss, "races": records})


if __name__ == "__main__":
    main()
