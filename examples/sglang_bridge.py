"""Samplers within SGLang, and traces of any of its algorithms for masked models: base classes of an algorithm.

    from sglang.srt.dllm.algorithm.base import DllmAlgorithm
    from sglang_bridge import Bridge, Recorded

    class Unmask(Bridge, DllmAlgorithm):
        inner = "threshold(threshold=0.9)"

    Algorithm = Unmask

Copy this file and foreign_loop.py to where Python finds them. In a file of the package srt/dllm/algorithm this is the
algorithm `Unmask`; `class Seen(Recorded, LowConfidence)` is another algorithm with a trace. Keys of
--dllm-algorithm-config: sampler (instead of `inner`), steps and seed; trace, the file of `Recorded`.

SGLang calls step(forward_batch, logits, states) after each forward pass of B blocks of L tokens. It changes input_ids
in place, and returns for each block whether a forward pass has seen its final tokens. So a block takes one forward pass
more than steps. In older versions logits is a tensor (B L, V), in newer ones an object that holds it.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from typing import Any

import torch
from foreign_loop import Fed
from torch import Tensor

from unmask import UnmaskError
from unmask.samplers.session import PATIENCE

HELD = ("full_logits", "logits", "next_token_logits")  # attributes with the logits of each position
MOST_REQUESTS = 2**12  # requests whose number of blocks is kept


class Blocks:
    """The number of finished blocks of each request; the oldest requests are forgotten."""

    def __init__(self) -> None:
        self._numbers: OrderedDict[str, int] = OrderedDict()

    def next(self, rid: str) -> int:
        """The number of this block of the request, from 0."""
        number = self._numbers.pop(rid, -1) + 1
        self._numbers[rid] = number
        if len(self._numbers) > MOST_REQUESTS:
            self._numbers.popitem(last=False)
        return number


class Bridge:
    """One of our samplers as an algorithm. Draws depend on the seed, the id of the request and the block only."""

    inner: Any = "threshold"
    mask_id: int

    def __init__(self, config: Any) -> None:
        super().__init__(config)  # type: ignore[call-arg]
        options = config.algorithm_config or {}
        self.inner = options.get("sampler", self.inner)
        self.steps, self.seed = options.get("steps"), options.get("seed", 0)
        self.blocks = Blocks()

    def max_steps(self, block_size: int) -> int:
        """The largest number of steps; a sampler that revises may need more than one per position."""
        return PATIENCE * block_size

    def init_step_state(self, forward_batch: Any) -> list[list[Fed]]:
        """A list for the sampler of each block, which starts with its first logits."""
        return [[] for _ in range(forward_batch.batch_size)]

    def step(self, forward_batch: Any, logits: Any, states: list[list[Fed]]) -> list[bool]:
        ids, dense = batched(forward_batch, logits)
        done = []
        for row, (rid, state) in enumerate(zip(rids_of(forward_batch), states, strict=True)):
            if not state:
                number = digest(rid, self.blocks.next(rid))
                options: dict[str, Any] = {"steps": self.steps, "seed": self.seed, "rows": [number]}
                state.append(Fed(self.inner, ids[row : row + 1], self.mask_id, dense.shape[-1], **options))
            done.append(state[0].done)
            if not state[0].done:
                ids[row] = state[0].feed(dense[row : row + 1])[0].to(ids)
        return done


class Recorded:
    """Any algorithm, with the changes of each block in one line of a file (samplers/trace.py).

    Blocks of the prompt, without a masked position, are left out."""

    mask_id: int

    def __init__(self, config: Any) -> None:
        super().__init__(config)  # type: ignore[call-arg]
        self.path = (config.algorithm_config or {}).get("trace", "trace.jsonl")
        self._open: OrderedDict[str, dict[str, Any]] = OrderedDict()

    def step(self, forward_batch: Any, logits: Any, states: Any) -> list[bool]:
        ids, dense = batched(forward_batch, logits)
        before = ids.clone()
        done: list[bool] = super().step(forward_batch, logits, states)  # type: ignore[misc]
        for row, rid in enumerate(rids_of(forward_batch)):
            if rid not in self._open and not bool((before[row] == self.mask_id).any()):
                continue  # a block of the prompt, or a finished one that waits for its batch
            block = self._open.get(rid) or self._begun(rid, before[row], dense.shape[-1])
            block["steps"] += 1
            changed = (ids[row] != before[row]).nonzero().squeeze(1)
            chances = dense[row, changed].double().softmax(-1)
            for hides in (True, False):  # a replaced token is first hidden
                for place, p in zip(changed.tolist(), chances, strict=True):
                    token = int(ids[row, place])
                    if hides and int(before[row, place]) != self.mask_id:
                        block["events"].append((block["steps"], place, None, None))
                    elif not hides and token != self.mask_id:
                        chance = min(max(float(p[token]), torch.finfo(torch.float64).tiny), 1.0)
                        block["events"].append((block["steps"], place, token, chance))
            if done[row]:
                with open(self.path, "a", encoding="utf-8") as file:
                    file.write(json.dumps(self._open.pop(rid)) + "\n")
        return done

    def _begun(self, rid: str, ids: Tensor, vocabulary: int) -> dict[str, Any]:
        given = [(place, token) for place, token in enumerate(ids.tolist()) if token != self.mask_id]
        block = {"rid": rid, "length": len(ids), "vocabulary": vocabulary, "mask": self.mask_id, "given": given}
        self._open[rid] = block | {"steps": 0, "events": []}
        if len(self._open) > MOST_REQUESTS:  # cancelled ones
            self._open.popitem(last=False)
        return self._open[rid]


def rids_of(forward_batch: Any) -> list[str]:
    """The ids of the requests of a batch, or their numbers."""
    return [str(rid) for rid in getattr(forward_batch, "rids", None) or range(forward_batch.batch_size)]


def digest(rid: str, block: int) -> int:
    """A row number for the random numbers of a block."""
    return int.from_bytes(hashlib.sha256(f"{rid}/{block}".encode()).digest()[:7])


def batched(forward_batch: Any, logits: Any) -> tuple[Tensor, Tensor]:
    """(ids (B, L), a view; logits (B, L, V)) of a batch, for both versions of SGLang."""
    ids: Tensor = forward_batch.input_ids.view(forward_batch.batch_size, -1)
    for name in HELD if not isinstance(logits, Tensor) else ():
        logits = getattr(logits, name, None) if isinstance(getattr(logits, name, None), Tensor) else logits
    if not isinstance(logits, Tensor) or len(logits) != ids.numel():
        problem = f"SGLang passes {type(logits).__name__} without logits for each of {ids.numel()} positions"
        raise UnmaskError(f"{problem}; expected a tensor, or an object with one in {', '.join(HELD)}")
    return ids, logits.view(*ids.shape, -1)
