"""An inconsistent denoiser of a tiny chain: exact posteriors plus noise that depends on the whole context."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch

from tests import brute
from unmask.denoisers import Denoiser
from unmask.languages import NGram

CHAIN3 = [[0.70, 0.25, 0.05], [0.10, 0.60, 0.30], [0.35, 0.05, 0.60]]
ZERO3 = [[0.7, 0.3, 0.0], [0.0, 0.6, 0.4], [0.5, 0.0, 0.5]]


def chain(rows):
    """The stationary first-order chain of these transitions."""
    values, vectors = np.linalg.eig(np.array(rows).T)
    first = np.real(vectors[:, np.real(values).argmax()])
    return NGram(2, first / first.sum(), rows)


class Noisy(Denoiser):
    """log q(. | x_R) + noise N(0, 1), drawn once for each (context, position, symbol)."""

    def __init__(self, language, length, noise=0.4):
        self.vocabulary, self.length, self.noise = language.vocabulary, length, noise
        self.strings = brute.sequences(self.vocabulary, length)
        self.q = brute.distribution(language, length)
        self.row = cache(self._row)

    def _row(self, context):
        out = brute.posterior(self.q, self.strings, np.array([context]), self.vocabulary)[0]
        code = 0
        for token in context:
            code = code * (self.vocabulary + 1) + token
        rng = np.random.default_rng([1, code])
        for place in np.flatnonzero(np.array(context) == self.vocabulary):
            with np.errstate(divide="ignore"):
                logits = np.log(out[place]) + self.noise * rng.standard_normal(self.vocabulary)
            out[place] = np.exp(logits) / np.exp(logits).sum()
        return out

    def posterior(self, tokens, positions=None, time=None):
        out = torch.from_numpy(np.stack([self.row(tuple(row)) for row in tokens.tolist()]))
        if positions is None:
            return out
        return out.gather(1, positions.expand(len(tokens), -1)[..., None].expand(-1, -1, self.vocabulary))
