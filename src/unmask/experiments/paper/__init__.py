"""The paper, claim by claim: what it says, what records of ours say of that, and what makes them."""

from typing import TYPE_CHECKING

from unmask.core.lazy import lazily

if TYPE_CHECKING:
    from unmask.experiments.paper.claims import Claim as Claim
    from unmask.experiments.paper.claims import Finding as Finding
    from unmask.experiments.paper.items import ITEMS as ITEMS

__getattr__, __dir__ = lazily(__name__, __path__)
