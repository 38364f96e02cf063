"""What a language with steps reads in a row: which steps follow, and whether the answer is that of the question."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Steps:
    """Of B rows, each of at most E steps.

    A step is wrong where its tokens do not follow from what the row itself says before, right or wrong; the answer is
    right where the last result is what the question comes to, whatever stands between. So one wrong step makes the
    answer wrong unless another makes up for it, or the answer was not taken from the steps.
    """

    wrong: Tensor  # Bool (B, E); of a row that cannot be read the first alone
    count: Tensor  # (B) of the steps that there are
    answer: Tensor  # Bool (B): right; False where a row cannot be read

    @property
    def wrong_share(self) -> Tensor:
        """(B) of the steps of each row."""
        return self.wrong.sum(1) / self.count.double()
