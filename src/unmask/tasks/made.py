"""Tasks whose items are made, and not read: as many as are wanted, from a seed."""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from unmask.core import arguments
from unmask.core.errors import UnmaskError
from unmask.tasks.contract import Item, Task


class Made(Task):
    """A dataclass with `items_seed` and `many` derives from it, and says how one is made."""

    items_seed: int
    many: int
    source: ClassVar[str] = "made here, from a seed"

    def _check(self) -> None:
        arguments.whole("items_seed", self.items_seed, 0)
        arguments.whole("many", self.many, 1, 10**5)

    def items(self, data: str | Path | None) -> Sequence[Item]:
        if data is not None:
            raise UnmaskError(f"the items of {type(self).__name__} are made, and stand in no file; leave out --data")
        return [Item(str(n), self.make(random.Random(f"{self.items_seed}/{n}"))) for n in range(self.many)]

    @abstractmethod
    def make(self, luck: random.Random) -> Any:
        """One row."""
