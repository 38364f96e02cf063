"""The forwards of an answer: model calls of its row, each counted once, by purpose and by block (docs/serving.md).

prefill    reads the prompt, predicts nothing: the first call of an AR model
denoise    predicts tokens of the answer, in some block
commit     only stores keys and values of a finished block: 0 here, since the first call of the next block does it
probe      reads another sequence than the row: a context with other tokens hidden, or without the prompt (guidance)

forwards = prefill + denoise + commit + probe,    sum of per_block = denoise + commit
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from unmask.samplers.stopping import Progress


@dataclass
class Forwards:
    """The forwards of one row so far."""

    per_block: list[int] = field(default_factory=lambda: [0])
    prefill: int = 0
    probe: int = 0
    positions: int = 0  # computed in all of them
    revised: int = 0  # tokens that were re-masked
    passes: int = 0  # forward passes of the batch, up to the last one with this row
    idle: int = 0  # and after it
    _block: int = 0  # the block of the leftmost hidden position

    @property
    def total(self) -> int:
        return self.prefill + sum(self.per_block) + self.probe

    def see(self, progress: Progress, row: int, passes: int) -> None:
        """Count the model calls since the last step, which filled the leftmost block with a hidden position."""
        account = progress.account
        new = int(account.model_calls[row]) - self.total
        if new > 0:
            self.prefill = int("causal" in account.model_calls_of and not progress.generated[row, 0])
            self.probe = int(account.probes[row])
            self.per_block += [0] * (self._block + 1 - len(self.per_block))
            self.per_block[self._block] += int(account.model_calls[row]) - self.total
            self.passes = passes
        self.positions, self.revised = int(account.positions[row]), int(account.revised[row])
        left = progress.blocks[row][progress.hidden[row] & progress.generated[row]]
        self._block = max(int(left.min()), 0) if len(left) else self._block


def details(rows: Sequence[Forwards]) -> dict[str, Any]:
    """The sums over the rows of a request."""
    return {
        "prefill": sum(row.prefill for row in rows),
        "denoise": sum(sum(row.per_block) for row in rows),
        "commit": 0,
        "probe": sum(row.probe for row in rows),
        "per_block": [sum(block) for block in zip_longest(*(row.per_block for row in rows), fillvalue=0)],
        "batched_idle": sum(row.idle for row in rows),
        "positions": sum(row.positions for row in rows),
    }
