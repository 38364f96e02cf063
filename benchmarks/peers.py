"""The peers: the posterior of a partially revealed HMM batch by other libraries, each by its best documented way.

All answer `states(tokens)`, tokens (B, L) int64 with V where hidden: q(z_j = s | x_R), (B, L, S). At a hidden position
the marginal is that times the emission, so a sampler needs it at the revealed places of a round only.

What to know of them:
- dynamax: `vmap` and `jit` over log-likelihood rows, a row of zeros being no observation. The two-filter smoother (its
  forward-backward) is faster than `hmm_smoother`, and that one also drops states whose prediction is below 1e-8. The
  transition statistics that both compute by default are unused, so XLA leaves them out; their flag cannot be passed
  through `jit`. float32, nan in an impossible context. How many rows share a call matters by a factor of two.
- hmmlearn: no missing observations; one more symbol that every state emits with probability 1/2 is the same thing. Only
  the scaling implementation is fast. One sequence after another, and an error in an impossible context.
- torch: the textbook, L steps of a batched product in float32. Its threads wait for each other in every step: on a
  machine with other work it is slower by an order of magnitude.
dynamax and hmmlearn release the interpreter's lock, so `over` can also hand their chunks to our threads. No manual of
theirs does, so that no target is held against it; it is shown because it is the most that they could do.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks.timing import seconds
from unmask.languages import HMM, Language, NGram

INSTALL = "not installed (pip install -e '.[bench]')"


class Tables(NamedTuple):
    initial: np.ndarray  # (S)
    transition: np.ndarray  # (S, S)
    emission: np.ndarray  # (S, V)


def tables(language: Language) -> Tables:
    """A hidden Markov or 2-gram language as dense tables."""
    if isinstance(language, NGram) and language.order == 2:
        return Tables(language.initial, language.transition, np.eye(language.vocabulary))
    assert isinstance(language, HMM)
    return Tables(language.initial, language.transition, language.emission)


class Dynamax:
    name = "dynamax"
    chunks = (32, 64, 128, 256, 512)  # rows a call that are tried

    def __init__(self, about: Tables) -> None:
        os.environ.setdefault("JAX_PLATFORMS", "cpu")  # the same machine for all
        import jax
        import jax.numpy as jnp
        from dynamax.hidden_markov_model.inference import hmm_filter, hmm_two_filter_smoother

        initial, transition, emission = (jnp.asarray(table, jnp.float32) for table in about)
        with np.errstate(divide="ignore"):
            rows = np.vstack([np.log(about.emission.T), np.zeros(len(about.initial))])
        log_rows = jnp.asarray(rows, jnp.float32)  # (V+1, S): zeros are no observation

        def smooth(tokens: Any) -> Any:
            return hmm_two_filter_smoother(initial, transition, log_rows[tokens]).smoothed_probs

        def likelihood(tokens: Any) -> Any:
            return hmm_filter(initial, transition, log_rows[tokens]).marginal_loglik

        def draw(chances: Any) -> Any:
            """One row left to right, the filter taking one token at a time."""

            def extend(predicted: Any, u: Any) -> Any:
                cumulative = jnp.cumsum(predicted @ emission)
                token = jnp.sum(cumulative[:-1] <= u * cumulative[-1])
                filtered = hmm_filter(predicted, transition, log_rows[token][None]).filtered_probs[0]
                return filtered @ transition, token

            return jax.lax.scan(extend, initial, chances)[1]

        self.threads = os.cpu_count() or 1
        self._states = jax.jit(jax.vmap(smooth))
        self._marginals = jax.jit(jax.vmap(lambda tokens: smooth(tokens) @ emission))
        self._log_prob = jax.jit(jax.vmap(likelihood))
        self._sample = jax.jit(lambda key, shape: jax.vmap(draw)(jax.random.uniform(key, shape)), static_argnums=1)
        self._key = jax.random.PRNGKey

    def states(self, tokens: np.ndarray) -> np.ndarray:
        return np.asarray(self._states(tokens.astype(np.int32)))

    def marginals(self, tokens: np.ndarray) -> np.ndarray:
        return np.asarray(self._marginals(tokens.astype(np.int32)))

    def log_prob(self, tokens: np.ndarray) -> np.ndarray:
        return np.asarray(self._log_prob(tokens.astype(np.int32)))

    def sample(self, seed: int, rows: int, length: int) -> np.ndarray:
        return np.asarray(self._sample(self._key(seed), (rows, length)))


class Hmmlearn:
    name = "hmmlearn"
    chunks = (64,)
    threads = 1

    def __init__(self, about: Tables) -> None:
        from hmmlearn.hmm import CategoricalHMM

        self.emission = about.emission
        self.model = CategoricalHMM(len(about.initial), implementation="scaling")
        self.model.n_features = about.emission.shape[1] + 1
        self.model.startprob_, self.model.transmat_ = about.initial, about.transition
        self.model.emissionprob_ = np.hstack([about.emission / 2, np.full((len(about.initial), 1), 0.5)])

    def states(self, tokens: np.ndarray) -> np.ndarray:
        rows, length = tokens.shape
        return self.model.predict_proba(tokens.reshape(-1, 1), [length] * rows).reshape(rows, length, -1)

    def marginals(self, tokens: np.ndarray) -> np.ndarray:
        return self.states(tokens) @ self.emission

    def log_prob(self, tokens: np.ndarray) -> np.ndarray:
        """The sum over rows of what a complete row has, less the halves of the emission."""
        return self.model.score(tokens.reshape(-1, 1), [tokens.shape[1]] * len(tokens)) + tokens.size * np.log(2)


class Torch:
    name = "torch"
    chunks = (64, 128, 256, 512)

    def __init__(self, about: Tables) -> None:
        self.initial, self.transition, self.emission = (torch.tensor(table, dtype=torch.float32) for table in about)
        self.back = self.transition.T.contiguous()
        self.rows = torch.cat([self.emission.T, torch.ones(1, len(about.initial))])  # (V+1, S): ones are no observation
        self.threads = torch.get_num_threads()

    @torch.inference_mode()
    def states(self, tokens: np.ndarray) -> np.ndarray:
        return self._smooth(tokens).numpy()

    @torch.inference_mode()
    def marginals(self, tokens: np.ndarray) -> np.ndarray:
        return (self._smooth(tokens) @ self.emission).numpy()

    def _smooth(self, tokens: np.ndarray) -> torch.Tensor:
        evidence = self.rows[torch.from_numpy(tokens).T]  # (L, B, S)
        forward, backward = torch.empty_like(evidence), torch.ones_like(evidence[0])
        message = self.initial.expand_as(backward)
        for j in range(len(evidence)):
            forward[j] = message
            message = (message * evidence[j]) @ self.transition
            message /= message.sum(-1, keepdim=True)
        for j in range(len(evidence) - 1, -1, -1):
            forward[j] *= backward
            backward = (backward * evidence[j]) @ self.back
            backward /= backward.sum(-1, keepdim=True)
        forward /= forward.sum(-1, keepdim=True)
        return forward.transpose(0, 1)


Peer = Dynamax | Hmmlearn | Torch
PEERS: dict[str, type[Peer]] = {"dynamax": Dynamax, "hmmlearn": Hmmlearn, "torch": Torch}


def find(names: Sequence[str], language: Language, missing: dict[str, str]) -> dict[str, Peer]:
    """Those that are installed; the reason for the others goes to `missing`."""
    missing |= {name: INSTALL for name in names if find_spec(name) is None}
    return {name: PEERS[name](tables(language)) for name in names if name not in missing}


def over(call: Callable[[np.ndarray], object], tokens: np.ndarray, chunk: int, threads: int = 1) -> list[object]:
    """call(tokens) in chunks of rows, on as many threads of ours."""
    parts = [tokens[begin : begin + chunk] for begin in range(0, len(tokens), chunk)]
    if threads == 1:
        return [call(part) for part in parts]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(call, parts))


class Pace(NamedTuple):
    chunk: int  # rows a call
    first: float  # seconds of the first call of that size


def best_pace(peer: Peer, call: Callable[[np.ndarray], object], tokens: np.ndarray) -> Pace:
    """How many rows a call should have: the quickest of a few, each twice over about the same rows."""
    found = {}
    for chunk in sorted({min(chunk, len(tokens)) for chunk in peer.chunks}):
        first = seconds(partial(call, tokens[:chunk]))
        some = tokens[: min(len(tokens) // chunk * chunk, max(peer.chunks))]
        found[Pace(chunk, first)] = min(seconds(partial(over, call, some, chunk)) for _ in range(2)) / len(some)
    return min(found, key=found.__getitem__)
