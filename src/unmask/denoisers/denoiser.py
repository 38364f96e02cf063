"""The base class of denoisers: the same samplers run on exact denoisers, networks and open models.

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
from unmask.denoisers.noise import Noise
from unmask.denoisers.stateless import ByLength, PrefixCausal, StatelessEngine, table_of
from unmask.languages import Language


def checked(denoiser: object) -> Denoiser:
    """Check that this is a denoiser, and return it."""
    if not isinstance(denoiser, Denoiser):
        expected = "expected one derived from unmask.denoisers.Denoiser. For a language pass ideal.Ideal(language)."
        raise UnmaskError(f"{type(denoiser).__name__} is not a denoiser; {expected}")
    whole(f"vocabulary of {denoiser.name}", getattr(denoiser, "vocabulary", None))
    return denoiser


def removing(denoiser: Denoiser, noise: Noise, what: str) -> None:
    """Check that a denoiser removes this kind of noise, which `what` is about."""
    if denoiser.removes != noise:
        problem = (
            f"{what} needs a denoiser that removes {noise} noise; {denoiser.name} removes {denoiser.removes} noise"
        )
        raise UnmaskError(f"{problem}. Pass another denoiser")


class Denoiser:
    """p_theta(x_j | x_R): predicts hidden positions from the revealed ones.

    Derive from it, set `vocabulary` and write `posterior` or `engine`; the other one follows.
    """

    vocabulary: int  # V
    removes: Noise = "mask"  # the kind of noise (denoisers/noise.py); samplers of the other kind refuse it
    time_free: bool = True  # False: predictions depend on the time, so every step needs a model call
    calls: int = 1  # model calls of one prediction: 2 with guidance
    grid: int | None = None  # block size of a model that sees one block and those before it; samplers follow it
    concurrent: bool = False  # whether threads may fill several blocks of rows at once
    language: Language | None = None  # the underlying language, also if predictions are modified
    ideal: bool = False  # whether predictions are the posterior of the language

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.posterior is Denoiser.posterior and cls.engine is Denoiser.engine:
            raise UnmaskError(f"{cls.__name__} predicts nothing; write posterior(tokens, positions, time), or engine")

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.name}, {self.vocabulary} symbols>"

    @property
    def name(self) -> str:
        """Its name in results and errors."""
        return type(self).__name__

    def source(self) -> dict[str, Any]:
        """Plain values that identify it in files: a digest, or an id."""
        return {"denoiser": f"{type(self).__module__}.{type(self).__qualname__}"}

    def engine(self, tokens: Tensor, given: Tensor | None = None, valid: Tensor | None = None) -> Engine:
        """Return the engine for a canvas with these tokens (B, L).

        given (B, L): the tokens at the start, V if hidden. (default: the tokens)
        valid, Bool (B, L): False at padding, which follows the positions of a row and is never read. (default: no
        padding)
        """
        if valid is None:
            return StatelessEngine(self, tokens)
        return ByLength(self, tokens, given, valid)

    def causal(self, rows: int, length: int, valid: Tensor | None = None) -> Causal:
        """Return a reader that runs the denoiser from left to right, for rows of known length; valid: see `engine`."""
        return PrefixCausal(self, rows, length, valid)

    def posterior(
        self, tokens: Tensor, positions: Tensor | None = None, time: Tensor | None = None
    ) -> Tensor | Marginals:
        """Predict from scratch, for tokens (B, L) at positions (K) or (B, K). (default: all)

        Return probabilities (B, K, V), one-hot if revealed; or, for large vocabularies, Marginals of the B K entries,
        row by row.
        """
        positions = (torch.arange(tokens.shape[1]) if positions is None else positions).expand(len(tokens), -1)
        content = tokens.gather(1, positions)
        rows, columns = (content == self.vocabulary).nonzero(as_tuple=True)
        out = torch.nn.functional.one_hot(content.clamp(max=self.vocabulary - 1), self.vocabulary).double()
        marginals = as_marginals(self.engine(tokens.clone()).at(rows, positions[rows, columns], time))
        out[rows, columns] = marginals.dense().double()
        return out

    def probabilities(self, tokens: Tensor, positions: Tensor | None = None, time: Tensor | None = None) -> Tensor:
        """`posterior` (B, K, V) as a tensor, for small vocabularies."""
        answer = self.posterior(tokens, positions, time)
        if not isinstance(answer, Marginals):
            count = tokens.shape[1] if positions is None else positions.shape[-1]
            return table_of(answer, (len(tokens), count, self.vocabulary), self.name).double()
        return answer.dense().double().view(len(tokens), -1, self.vocabulary)

    def rows_at_once(self, length: int) -> int | None:
        """The fastest number of rows of this length to fill together; None: all."""
        return None
