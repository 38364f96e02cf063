"""Rules that decide which positions are revealed, one file a rule; SAMPLERS finds them by name."""

from unmask.samplers.contract import SAMPLERS, Choice, Sampler
from unmask.samplers.loops import fill, walk
from unmask.samplers.session import Session
from unmask.samplers.stopping import AtToken, Budget, Either, StopRule, Until, Watched
from unmask.samplers.view import View

__all__ = [
    "SAMPLERS",
    "AtToken",
    "Budget",
    "Choice",
    "Either",
    "Sampler",
    "Session",
    "StopRule",
    "Until",
    "View",
    "Watched",
    "fill",
    "walk",
]
