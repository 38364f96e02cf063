"""A joint draw in a session: the marginals that it asks for, the tokens of each step, and the steps that fell back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.chance import Stream
from unmask.core.errors import UnmaskError
from unmask.denoisers import Canvas, Marginals
from unmask.denoisers.canvas import by_length
from unmask.languages.automata import Automaton, erased
from unmask.languages.kernels.machine import Ints
from unmask.samplers.joint import fitting
from unmask.samplers.joint.fitting import Case

SWEEPS, MOST_SWEEPS = 3, 10**4


@dataclass(frozen=True)
class Joint:
    """A joint draw: its automaton, and how the tokens of a step follow from it."""

    automaton: Automaton
    sweeps: int = SWEEPS  # of fitting; more do not help where the marginals are imperfect
    alone: bool = False  # whether only the positions of the step are drawn together
    single: bool = True  # whether a position that is alone in its step is drawn from its own marginal

    def __post_init__(self) -> None:
        arguments.of_kind("automaton", self.automaton, Automaton, "an automaton of unmask.languages.automata")
        arguments.whole("sweeps", self.sweeps, 0, MOST_SWEEPS)


class Together:
    """The joint draws of one canvas (B, L)."""

    def __init__(self, joint: Joint, canvas: Canvas) -> None:
        self.joint, self.canvas = joint, canvas
        self.automaton = erased(joint.automaton) if joint.alone else joint.automaton
        self.used = False
        self.fallbacks = torch.zeros(len(canvas.tokens), dtype=torch.int64)  # (B): steps with smoothed marginals
        self._asked: tuple[Marginals, Tensor] | None = None  # and the entry (B, L) of each position

    def at(self, rows: Tensor, positions: Tensor, time: Tensor | None) -> Marginals:
        """The marginals of K positions, rows ascending; those of all hidden positions of the rows are kept."""
        wanted = torch.zeros_like(self.canvas.hidden)
        if self.joint.alone:
            wanted[rows, positions] = True
        else:
            wanted[rows] = self.canvas.hidden[rows]
        all_rows, all_positions = wanted.nonzero(as_tuple=True)
        marginals = self.canvas.at(all_rows, all_positions, time)
        entries = torch.where(wanted, wanted.flatten().cumsum(0).view_as(wanted) - 1, -1)
        self._asked = marginals, entries
        return marginals[entries[rows, positions]]

    def draw(self, rows: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Tokens (K) at positions whose marginals were asked, and the marginal (K) of each."""
        values = torch.zeros_like(self.canvas.tokens)
        odds = torch.zeros(values.shape, dtype=torch.float64)
        self._step(rows, positions, values, odds, False)
        return values[rows, positions], odds[rows, positions]

    def log_probability(self, rows: Tensor, positions: Tensor, values: Tensor) -> Tensor:
        """(B): log J(values (B, L) at these positions | revealed tokens), 0 in other rows."""
        return self._step(rows, positions, values, torch.zeros(values.shape, dtype=torch.float64), True)

    def _step(self, rows: Tensor, positions: Tensor, values: Tensor, odds: Tensor, measured: bool) -> Tensor:
        assert self._asked is not None
        canvas, (marginals, entries) = self.canvas, self._asked
        table = marginals.dense().double().contiguous().numpy()
        self.used = True
        now, log = torch.zeros_like(canvas.hidden), torch.zeros(len(values), dtype=torch.float64)
        now[rows, positions] = True
        which = rows.unique_consecutive()
        for length, inside in by_length(canvas.lengths[which]):
            members = which[inside]
            cut = [tensor[members, :length] for tensor in (canvas.tokens, entries, now, canvas.visits, values)]
            tokens, places, shown, visits, wanted = (tensor.contiguous().numpy() for tensor in cut)
            case = Case(
                tokens=tokens,
                entries=places,
                now=shown,
                single=(shown.sum(1) == 1) & self.joint.single,
                table=table,
                rows=canvas.rng.row_ids[members].contiguous().numpy(),
                visits=visits,
                seed=np.uint64(canvas.rng.seed),
                stream=int(Stream.TOKEN),
                values=wanted,
                odds=np.zeros(wanted.shape),
                log=np.zeros(len(members)),
                fallen=np.zeros(len(members), bool),
            )
            memory = fitting.scratch(self.automaton, length)
            row = fitting.together(fitting.form(self.automaton), memory, case, self.joint.sweeps, measured)
            if row < len(members):
                self._refuse(tokens[row], int(case.rows[row]))
            values[members, :length] = torch.from_numpy(case.values)
            odds[members, :length] = torch.from_numpy(case.odds)
            log[members] = torch.from_numpy(case.log)
            self.fallbacks[members] += torch.from_numpy(case.fallen)
        if not measured:
            canvas.visits[which] += entries[which] >= 0
        return log

    def _refuse(self, tokens: Ints, number: int) -> None:
        """Raise the error of a row (L) without a completion."""
        position = self.joint.automaton.first_dead(torch.from_numpy(tokens))
        problem = f"the constraint allows no completion of row {number}"
        raise UnmaskError(f"{problem}: nothing fits its tokens up to position {position}. Change them, or the draw.")
