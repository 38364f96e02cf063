"""A joint draw in a session: the marginals that it asks for, the tokens of each step, and the steps that fell back."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from unmask.core.chance import Stream
from unmask.core.errors import UnmaskError
from unmask.denoisers import Canvas, Marginals
from unmask.denoisers.canvas import by_length
from unmask.samplers.joint import apart, fitting
from unmask.samplers.joint.draws import MOST_SYMBOLS, Joint
from unmask.samplers.joint.fitting import Case

NODES = 2**12  # of the sets of one row, at first
MOST_NODES = 2**20


class Together:
    """The joint draws of one canvas (B, L)."""

    def __init__(self, joint: Joint, canvas: Canvas) -> None:
        self.joint, self.canvas = joint, canvas
        self.used = False
        self.fallbacks = torch.zeros(len(canvas.tokens), dtype=torch.int64)  # (B): steps with smoothed marginals
        self._asked: tuple[Marginals, Tensor] | None = None  # and the entry (B, L) of each position
        self._nodes = NODES

    def at(self, rows: Tensor, positions: Tensor, time: Tensor | None) -> Marginals:
        """The marginals of K positions, rows ascending; those of all hidden positions of the rows are kept."""
        wanted = torch.zeros_like(self.canvas.hidden)
        if self.joint.alone:
            wanted[rows, positions] = True
        else:
            wanted[rows] = self.canvas.hidden[rows]
        marginals = self.canvas.at(*wanted.nonzero(as_tuple=True), time)
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
        counts = now[which].sum(1)
        apart_rows = torch.full_like(which, self.joint.alone, dtype=torch.bool) | (counts == 1) & self.joint.single
        for part, separate in ((which[~apart_rows], False), (which[apart_rows], True)):
            for length, inside in by_length(canvas.lengths[part]):
                members = part[inside]
                cut = [tensor[members, :length] for tensor in (canvas.tokens, entries, now, canvas.visits, values)]
                tokens, places, shown, visits, wanted = (tensor.contiguous().numpy() for tensor in cut)
                each = torch.zeros(len(members), dtype=torch.float64).numpy(), np.zeros(len(members), bool)
                numbers = canvas.rng.row_ids[members].contiguous().numpy()
                key = np.uint64(canvas.rng.seed), int(Stream.TOKEN)
                case = Case(tokens, places, shown, table, numbers, visits, *key, wanted, np.zeros(wanted.shape), *each)
                self._run(case, members, separate, measured)
                values[members, :length] = torch.from_numpy(case.values)
                odds[members, :length] = torch.from_numpy(case.odds)
                log[members] = torch.from_numpy(case.log)
                self.fallbacks[members] += torch.from_numpy(case.fallen)
        if not measured:
            canvas.visits[which] += entries[which] >= 0
        return log

    def _run(self, case: Case, members: Tensor, separate: bool, measured: bool) -> None:
        """Draw or measure the rows of one length."""
        automaton, length = self.joint.automaton, case.tokens.shape[1]
        if not separate:
            memory = fitting.scratch(automaton, length)
            row = fitting.together(fitting.form(automaton), memory, case, self.joint.sweeps, measured)
            self._check(case, members, row)
            return
        row, status = 0, apart.FULL
        while status == apart.FULL:
            nodes = apart.nodes(automaton, length, self._nodes)
            row, status = apart.alone(apart.sets_of(automaton), nodes, case, row, self.joint.sweeps, measured)
            if status == apart.FULL and self._nodes * automaton.vocabulary > MOST_NODES:
                problem = f"the completions of {automaton!r} need more than {self._nodes} sets of states"
                raise UnmaskError(f"{problem}; expected fewer. Use draw='fitted', or more steps.")
            self._nodes *= 2 if status == apart.FULL else 1
        self._check(case, members, row)

    def _check(self, case: Case, members: Tensor, row: int) -> None:
        """Raise an error if this row has no completion."""
        if row < len(members):
            position = self.joint.automaton.first_dead(torch.from_numpy(case.tokens[row]))
            number = int(self.canvas.rng.row_ids[members[row]])
            problem = f"the constraint allows no completion of row {number}"
            raise UnmaskError(f"{problem}: nothing fits its tokens up to position {position}. Change them, or the draw.")
