"""The paper as a table of claims, and a judge that compares each with recorded measurements."""

from typing import TYPE_CHECKING

from unmask.core.lazy import lazily

if TYPE_CHECKING:
    from unmask.experiments.paper.items import ITEMS as ITEMS
    from unmask.experiments.paper.judge import Claim as Claim
    from unmask.experiments.paper.judge import Finding as Finding

__getattr__, __dir__ = lazily(__name__, __path__)
