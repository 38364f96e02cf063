"""A sampler with one method: does it keep the contract, and is it better than existing samplers?

python examples/your_sampler_on_the_board.py

`Surest` reveals the positions with the most confident predictions, but never two neighbors in one step: in a chain,
neighbors depend on each other most.
"""

from __future__ import annotations

import torch

import unmask
from unmask.core.chance import Stream
from unmask.experiments.board import Board, Settings, board
from unmask.samplers import SAMPLERS, Choice, Sampler, View


class Surest(Sampler):
    """Reveal the most confident positions without neighbors."""

    pace = "free"
    distribution = "order"  # positions are chosen before tokens are drawn

    def choose(self, view: View) -> Choice:
        sure = torch.where(view.hidden, view.confidence, -1.0) + 1e-6 * view.rng(Stream.TIE)
        beside = torch.nn.functional.pad(sure, (1, 1), value=-2.0).unfold(1, 3, 1).amax(2)
        peak = view.hidden & (sure == beside)
        enough = torch.where(peak, sure, -2.0).argsort(1, descending=True).argsort(1) < view.count.unsqueeze(1)
        best = sure == sure.amax(1, keepdim=True)  # at least one per step
        return Choice(view.hidden & ((peak & enough) | best))


def main(rows: int = 100) -> Board:
    print(unmask.check(Surest()))
    SAMPLERS.register("surest")(Surest)
    try:
        samplers = ("surest", "low-confidence", "ancestral")
        where = {"languages": ("paper-2gram",), "lengths": (24,)}
        few = {"rows": rows, "seeds": 2, "steps": (4, 12), "quick": True, "ter_share": 0}
        result = board(Settings(samplers=samplers, **where, **few))
    finally:
        del SAMPLERS.makers["surest"]
    for record in result.of("ser"):
        print(f"{record['sampler']:<15} {record['model_calls']:>5.1f} model calls, SER {record['value']:.3f}")
    return result


if __name__ == "__main__":
    main()
