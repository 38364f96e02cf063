"""The measuring instrument for masked diffusion language models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unmask.adding import ADDING
from unmask.lazy import door

if TYPE_CHECKING:
    from unmask import auditing as auditing
    from unmask import board as board
    from unmask import conformance as conformance
    from unmask import cost as cost
    from unmask import denoisers as denoisers
    from unmask import languages as languages
    from unmask import metrics as metrics
    from unmask import networks as networks
    from unmask import orders as orders
    from unmask import report as report
    from unmask import samplers as samplers
    from unmask import schedules as schedules
    from unmask import sweeps as sweeps
    from unmask import theory as theory
    from unmask.auditing import Audit as Audit
    from unmask.auditing import audit as audit
    from unmask.conformance import check as check
    from unmask.cost.plan import plan as plan
    from unmask.denoisers import oracle as oracle
    from unmask.errors import UnmaskError as UnmaskError
    from unmask.estimates import Estimate as Estimate
    from unmask.generation import Generation as Generation
    from unmask.generation import generate as generate
    from unmask.generation import prompts as prompts
    from unmask.loading import load as load
    from unmask.metrics import Score as Score
    from unmask.metrics import score as score
    from unmask.networks.training import train as train
    from unmask.sweeps import sweep as sweep

PLACES = {
    "Audit": "unmask.auditing",
    "Estimate": "unmask.estimates",
    "Generation": "unmask.generation",
    "Score": "unmask.metrics",
    "UnmaskError": "unmask.errors",
    "audit": "unmask.auditing",
    "check": "unmask.conformance",
    "generate": "unmask.generation",
    "load": "unmask.loading",
    "oracle": "unmask.denoisers",
    "plan": "unmask.cost.plan",
    "prompts": "unmask.generation",
    "score": "unmask.metrics",
    "sweep": "unmask.sweeps",
    "train": "unmask.networks.training",
}
ROOMS = (
    "auditing",
    "board",
    "conformance",
    "cost",
    "denoisers",
    "languages",
    "metrics",
    "networks",
    "orders",
    "report",
    "samplers",
    "schedules",
    "sweeps",
    "theory",
)

ADDING |= {  # imported when a name is asked for that the registry of a lower room does not have itself
    "schedule": ("unmask.theory.schedules",),
    "metric": ("unmask.sweeps.standard", "unmask.sweeps.rounds", "unmask.sweeps.training", "unmask.board.curves"),
}

__all__ = [*PLACES, *ROOMS]
__getattr__, __dir__ = door(__name__, PLACES, ROOMS)
