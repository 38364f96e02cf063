"""What predicts: one class to derive from, so that one sampler runs on an exact denoiser and an open model alike.

B rows, L positions, V symbols; tokens are 0..V-1, and V is the mask.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from unmask.core.arguments import whole
from unmask.core.errors import UnmaskError
from unmask.denoisers.contracts import Causal, Engine
from unmask.denoisers.marginals import Marginals, as_marginals
from unmask.denoisers.stateless import ByLength, PrefixCausal, StatelessEngine, table_of
from unmask.languages import Language


def checked(denoiser: object) -> Denoiser:
    """The denoiser; an error where it is none."""
    if not isinstance(denoiser, Denoiser):
        what = "expected one derived from unmask.denoisers.Denoiser; of a language take ideal.Ideal(language)"
        raise UnmaskError(f"{type(denoiser).__name__} is no denoiser; {what}")
    whole(f"vocabulary of {denoiser.name}", getattr(denoiser, "vocabulary", None))
    return denoiser


class Denoiser:
    """p_theta(x_j | x_R): what is said of hidden positions given the revealed ones.

    Derive from it, set `vocabulary` and write `posterior` or `engine`: each follows from the other.
    """

    vocabulary: int  # V
    time_free: bool = True  # False: every round needs a fresh look, nothing may be kept
    calls: int = 1  # evaluations that one answer takes: 2 where it is guided
    grid: int | None = None  # of one that sees blocks of so many positions and those before them: samplers keep to it
    concurrent: bool = False  # whether blocks of rows may be filled side by side, in threads of the host
    language: Language | None = None  # the one behind it, however what it says is changed
    ideal: bool = False  # whether what it says is the language's posterior itself

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.posterior is Denoiser.posterior and cls.engine is Denoiser.engine:
            raise UnmaskError(f"{cls.__name__} predicts nothing; write posterior(tokens, positions, time), or engine")

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.name}, {self.vocabulary} symbols>"

    @property
    def name(self) -> str:
        """What it is called in results and in errors."""
        return type(self).__name__

    def source(self) -> dict[str, Any]:
        """Plain values that name where it comes from, for the files that are made with it: a digest, or an id."""
        return {"denoiser": f"{type(self).__module__}.{type(self).__qualname__}"}

    def engine(self, tokens: Tensor, given: Tensor | None = None, valid: Tensor | None = None) -> Engine:
        """What computes for a canvas that holds these tokens (B, L).

        given (B, L): what there was to start from, V where hidden; the tokens unless told otherwise.
        valid, Bool (B, L): a row's own positions, its first ones; behind them stands padding, which is nobody's to
        read. None: all are.
        """
        if valid is None:
            return StatelessEngine(self, tokens)
        return ByLength(self, tokens, given, valid)

    def causal(self, rows: int, length: int, valid: Tensor | None = None) -> Causal:
        """The same denoiser read from left to right, by rows of a known length; valid as for `engine`."""
        return PrefixCausal(self, rows, length, valid)

    def posterior(
        self, tokens: Tensor, positions: Tensor | None = None, time: Tensor | None = None
    ) -> Tensor | Marginals:
        """From scratch, what is said of tokens (B, L) at positions (K) or (B, K), all by default: probabilities
        (B, K, V), one-hot where revealed; or, of many symbols, Marginals of these B K places, row by row."""
        places = torch.arange(tokens.shape[1]) if positions is None else positions
        places = places.expand(len(tokens), -1)
        asked = tokens.gather(1, places)
        rows, columns = (asked == self.vocabulary).nonzero(as_tuple=True)
        out = torch.nn.functional.one_hot(asked.clamp(max=self.vocabulary - 1), self.vocabulary).double()
        out[rows, columns] = (
            as_marginals(self.engine(tokens.clone()).at(rows, places[rows, columns], time)).dense().double()
        )
        return out

    def probabilities(self, tokens: Tensor, positions: Tensor | None = None, time: Tensor | None = None) -> Tensor:
        """`posterior` (B, K, V) as a tensor: for few symbols."""
        said = self.posterior(tokens, positions, time)
        if not isinstance(said, Marginals):
            count = tokens.shape[1] if positions is None else positions.shape[-1]
            return table_of(said, (len(tokens), count, self.vocabulary), self.name).double()
        return said.dense().double().view(len(tokens), -1, self.vocabulary)

    def rows_at_once(self, length: int) -> int | None:
        """How many rows of this length are best filled together; None: all that there are."""
        return None
