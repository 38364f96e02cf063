"""The paper, claim by claim: what it says, what records of ours say of that, and what makes them."""

from typing import TYPE_CHECKING

from unmask.core.lazy import door, modules_of

if TYPE_CHECKING:
    from unmask.experiments.paper.claims import Claim as Claim
    from unmask.experiments.paper.claims import Finding as Finding
    from unmask.experiments.paper.items import ITEMS as ITEMS

PLACES = {
    "Claim": "unmask.experiments.paper.claims",
    "Finding": "unmask.experiments.paper.claims",
    "ITEMS": "unmask.experiments.paper.items",
}
__getattr__, __dir__ = door(__name__, PLACES, modules_of(__name__, __path__))
