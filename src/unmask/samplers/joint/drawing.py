"""A joint draw in a session: the marginals that it asks for, the tokens of each step, and the steps that fell back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.chance import Stream, categorical, uniform
from unmask.core.compiled import kernel
from unmask.core.errors import UnmaskError
from unmask.denoisers import Canvas, Marginals
from unmask.denoisers.canvas import by_length
from unmask.languages.automata import Automaton, erased
from unmask.samplers.joint import fitting
from unmask.samplers.joint.fitting import DRAW, MEASURE, WEIGH, Case
from unmask.samplers.joint.particles import members, parents

SWEEPS, MOST_SWEEPS = 3, 10**4
MOST_PARTICLES = 2**12
AT_ONCE = 2**22  # probabilities of tokens within their classes


@dataclass(frozen=True)
class Joint:
    """A joint draw: its automaton, and how the tokens of a step follow from it."""

    automaton: Automaton
    sweeps: int = SWEEPS  # of fitting; more do not help where the marginals are imperfect
    alone: bool = False  # whether only the positions of the step are drawn together
    single: bool = True  # whether a position that is alone in its step is drawn from its own marginal
    particles: int = 1  # rows that share an order, among which each model call chooses those that go on

    def __post_init__(self) -> None:
        arguments.of_kind("automaton", self.automaton, Automaton, "an automaton of unmask.languages.automata")
        arguments.whole("sweeps", self.sweeps, 0, MOST_SWEEPS)
        arguments.whole("particles", self.particles, 1, MOST_PARTICLES)


@kernel(_nrt=False)
def _add_up(probabilities, classes, out):  # type: ignore[no-untyped-def]
    for k in range(out.shape[0]):
        for v in range(len(classes)):
            out[k, classes[v]] += probabilities[k, v]


def masses(marginals: Marginals, classes: Tensor, count: int) -> Tensor:
    """(K, C): the mass of each of C classes of tokens; classes (V): the class of each."""
    out = torch.zeros((len(marginals), count), dtype=torch.float64)
    for part in torch.arange(len(marginals)).split(max(AT_ONCE // len(classes), 1)):
        rows = slice(int(part[0]), int(part[-1]) + 1)
        table = marginals[part].dense().cpu()
        if table.dtype.itemsize < 4:  # numpy has no bfloat16
            table = table.float()
        _add_up(table.contiguous().numpy(), classes.numpy(), out[rows].numpy())
    return out


class Together:
    """The joint draws of one canvas (B, L)."""

    def __init__(self, joint: Joint, canvas: Canvas, probability: Tensor | None = None) -> None:
        self.joint, self.canvas = joint, canvas
        self.probability = probability  # (B, L): of the session, of each token when it was revealed
        self.automaton = erased(joint.automaton) if joint.alone else joint.automaton
        self.classes = torch.from_numpy(joint.automaton.classes)  # (V)
        self.merged = int(self.classes.max()) + 1 < len(self.classes)  # whether a class has several tokens
        self.used = False
        self.fallbacks = torch.zeros(len(canvas.tokens), dtype=torch.int64)  # (B): steps with smoothed marginals
        self._given = canvas.tokens.clone()
        self.lines = torch.arange(len(canvas.tokens))  # (B): the row of the first step that each row goes back to
        self._log_looks = torch.full((len(canvas.tokens),), torch.nan, dtype=torch.float64)  # (B): of the last draw
        self._choices = torch.zeros_like(self.lines)  # (B)
        self._asked: tuple[Marginals, Tensor] | None = None  # and the entry (B, L) of each position

    def at(self, rows: Tensor, positions: Tensor, time: Tensor | None) -> Marginals:
        """The marginals of K positions, rows ascending; those of all hidden positions of the rows are kept."""
        wanted = torch.zeros_like(self.canvas.hidden)
        if self.joint.alone:
            wanted[rows, positions] = True
        else:
            whole = rows.unique_consecutive()
            wanted[whole] = self.canvas.hidden[whole]
        every = wanted.view(-1).nonzero().squeeze(1)
        marginals = self.canvas.at(every // wanted.shape[1], every % wanted.shape[1], time)
        self.know(marginals, wanted)
        if self.joint.particles > 1:
            self._choose(rows.unique_consecutive())
        return self._marginals(rows, positions)

    def know(self, marginals: Marginals, where: Tensor) -> None:
        """Draw by these marginals (K), those of the positions in a mask, Bool (B, L), row by row."""
        entries = torch.full(where.shape, -1)
        entries[where] = torch.arange(len(marginals))
        self._asked = marginals, entries
        if self.merged:
            self._table = masses(marginals, self.classes, self.joint.automaton.moves.shape[1])
        else:
            self._table = marginals.dense().double().contiguous()

    def draw(self, rows: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Tokens (K) at positions whose marginals were asked, and the marginal (K) of each."""
        kinds = torch.zeros_like(self.canvas.tokens)
        visits = self.canvas.visits[rows, positions]
        weighed = self.joint.particles > 1
        task = DRAW
        if weighed:
            task |= MEASURE | WEIGH
        case = self._step(rows, positions, kinds, task)

        tokens = kinds[rows, positions]
        odds = self._masses(rows, positions, tokens).clamp(min=fitting.SMOOTH)  # of smoothed marginals

        if weighed:
            which = rows.unique_consecutive()
            own = torch.zeros_like(self._log_looks).index_add_(0, rows, odds.log())
            looks = torch.from_numpy(case.log + case.mass) - own  # J(x_S) = prod_i p_i(x_i) look(x_S) / Z
            self._log_looks[which] = looks[which]

        if self.merged:
            u = self.canvas.rng.uniform(Stream.MEMBER, rows, positions, visits)
            tokens, inside = self._members(rows, positions, tokens, u)
            odds = odds * inside

        return tokens, odds

    def log_probability(self, rows: Tensor, positions: Tensor, values: Tensor) -> Tensor:
        """(B): log J(values (B, L) at these positions | revealed tokens), 0 in other rows."""
        if self.joint.particles > 1:
            raise UnmaskError(
                "rows that are chosen among each other have no likelihood of their own",
                "expected one particle",
                "Use draw='coupled(constraint=..)'.",
            )
        log = torch.from_numpy(self._step(rows, positions, self.classes[values], MEASURE).log)
        if self.merged:
            tokens = values[rows, positions]
            own = self.classes[tokens]
            mass = self._masses(rows, positions, own)
            alike = self.classes.bincount()[own].double()

            # as `_members` draws: uniform in a class without mass
            inside = torch.where(mass > 0, self._marginals(rows, positions).of(tokens) / mass, 1 / alike)
            log.index_add_(0, rows, inside.log())
        return log

    def _marginals(self, rows: Tensor, positions: Tensor) -> Marginals:
        assert self._asked is not None
        return self._asked[0][self._asked[1][rows, positions]]

    def _masses(self, rows: Tensor, positions: Tensor, kinds: Tensor) -> Tensor:
        """(K): the marginal of one class each."""
        assert self._asked is not None
        return self._table[self._asked[1][rows, positions], kinds]

    def _members(self, rows: Tensor, positions: Tensor, kinds: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
        """(K): a token of each class by the marginals, and its probability within the class."""
        marginals = self._marginals(rows, positions)
        tokens = torch.empty_like(kinds)
        inside = torch.empty_like(u)
        for part in torch.arange(len(rows)).split(max(AT_ONCE // len(self.classes), 1)):
            members = self.classes == kinds[part].unsqueeze(1)
            weights = torch.where(members, marginals[part].dense().double(), 0.0)
            weights = torch.where(weights.sum(1, keepdim=True) > 0, weights, members.double())  # in smoothed rows
            tokens[part] = categorical(weights, u[part])
            inside[part] = weights.gather(1, tokens[part].unsqueeze(1)).squeeze(1) / weights.sum(1)
        return tokens, inside

    def _drawn_together(self, now: Tensor) -> Tensor:
        """(B, L): the entry of each position that this step draws together, -1 elsewhere; now: those it reveals."""
        assert self._asked is not None
        entries = self._asked[1]
        # a sampler may have asked for more positions than it reveals: `alone` leaves them to later steps
        return entries.where(now, -1) if self.joint.alone else entries

    def _step(self, rows: Tensor, positions: Tensor, kinds: Tensor, task: int) -> Case:
        """Do a task of fitting.py for these positions and classes of tokens, kinds (B, L)."""
        assert self._asked is not None
        self.used = True

        canvas = self.canvas
        now = torch.zeros_like(canvas.hidden)
        now[rows, positions] = True
        entries = self._drawn_together(now)

        nothing = np.zeros(len(kinds))
        case = Case(
            classes=torch.cat([self.classes, torch.tensor([self._table.shape[1]])]).numpy(),
            tokens=canvas.tokens.numpy(),
            entries=entries.numpy(),
            now=now.numpy(),
            single=(now.sum(1) == 1).numpy() & self.joint.single,
            table=self._table.numpy(),
            row_ids=canvas.rng.row_ids.contiguous().numpy(),
            visits=canvas.visits.numpy(),
            seed=np.uint64(canvas.rng.seed),
            stream=int(Stream.TOKEN),
            values=kinds.numpy(),
            log=nothing,
            mass=nothing.copy(),
            fallen=np.zeros(len(kinds), dtype=bool),
        )

        which = rows.unique_consecutive()
        form, potential = fitting.balanced(self.automaton, case.table)
        for length, inside in by_length(canvas.lengths[which]):
            members = which[inside]
            memory = fitting.scratch(form, length)
            done = fitting.together(form, memory, case, members.numpy(), length, self.joint.sweeps, task)
            if done < len(members):
                self._refuse(int(members[done]), length)

        case.mass[which.numpy()] -= potential
        if task != WEIGH:
            self.fallbacks += torch.from_numpy(case.fallen)
        return case

    def _choose(self, rows: Tensor) -> None:
        """Let rows (K) go on from those of their group that the new marginals favor."""
        groups = self._groups(rows)
        drawn = ~self._log_looks[rows].isnan()
        rows, groups = rows[drawn], groups[drawn]
        if not len(rows):
            return

        canvas = self.canvas
        places, positions = canvas.hidden[rows].nonzero(as_tuple=True)
        case = self._step(rows[places], positions, torch.zeros_like(canvas.tokens), WEIGH)
        weights = torch.from_numpy(case.mass)[rows] - self._log_looks[rows]
        self._log_looks[rows] = torch.nan
        leaders = groups * self.joint.particles
        u = uniform(canvas.rng.seed, Stream.PARENT, leaders, torch.zeros_like(leaders), self._choices[rows])
        self._choices[rows] += 1
        self._replace(rows, rows[parents(weights, groups, u)])

    def _replace(self, rows: Tensor, sources: Tensor) -> None:
        """Give rows (K) the state of their sources (K); the hidden positions are the same."""
        assert self._asked is not None
        canvas = self.canvas
        entries = self._asked[1]
        new = canvas.tokens[sources]
        places, positions = (new != canvas.tokens[rows]).nonzero(as_tuple=True)
        canvas.reveal((rows[places], positions), new[places, positions])
        entries[rows] = entries[sources]
        for state in (self.lines, self.fallbacks, canvas.impossible, self.probability):
            if state is not None:
                state[rows] = state[sources]

    def _groups(self, rows: Tensor) -> Tensor:
        """(K): the group of each row; an error unless its rows have the same hidden positions and given tokens."""
        canvas = self.canvas
        groups = canvas.rng.row_ids[rows] // self.joint.particles
        which, first, _ = members(groups)
        leaders = rows[first[which]]
        same = (canvas.hidden[rows] == canvas.hidden[leaders]).all(1)
        same &= (self._given[rows] == self._given[leaders]).all(1)
        if not bool(same.all()):
            leader = int(canvas.rng.row_ids[leaders[~same][0]])
            own = int(canvas.rng.row_ids[rows[~same][0]])
            raise UnmaskError(
                f"rows {leader} and {own} are particles of one group, and hide or were given other tokens",
                "expected the same",
                f"Repeat each prompt {self.joint.particles} times.",
            )
        return groups

    def _refuse(self, row: int, length: int) -> None:
        """Raise the error of a row without a completion."""
        position = self.joint.automaton.first_dead(self.canvas.tokens[row, :length])
        problem = f"the constraint allows no completion of row {int(self.canvas.rng.row_ids[row])}"
        raise UnmaskError(f"{problem}: nothing fits its tokens up to position {position}. Change them, or the draw.")
