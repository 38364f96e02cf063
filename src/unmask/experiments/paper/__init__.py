"""The paper as a table of claims, and the judge that compares each with recorded measurements."""

from typing import TYPE_CHECKING

from unmask.core.lazy import door, modules_of

if TYPE_CHECKING:
    from unmask.experiments.paper.items import ITEMS as ITEMS
    from unmask.experiments.paper.judge import Claim as Claim
    from unmask.experiments.paper.judge import Finding as Finding

PLACES = {
    "Claim": "unmask.experiments.paper.judge",
    "Finding": "unmask.experiments.paper.judge",
    "ITEMS": "unmask.experiments.paper.items",
}
__getattr__, __dir__ = door(__name__, PLACES, modules_of(__name__, __path__))
