"""Rules that decide which positions are revealed, most in one file each; SAMPLERS finds them by name."""

from unmask.samplers.autoregressive import read_prompt
from unmask.samplers.contract import CANVAS, CAUSAL, SAMPLERS, Choice, Sampler
from unmask.samplers.loops import fill, walk
from unmask.samplers.memory import agreement, divergence
from unmask.samplers.ranking import (
    SCORES,
    ChoosesFirst,
    above,
    arranged,
    at_least,
    check_ranking,
    chosen,
    in_order,
    lowest,
)
from unmask.samplers.session import Session
from unmask.samplers.speculation import Drafts
from unmask.samplers.stopping import AtToken, Budget, Either, StopRule, Until, Watched
from unmask.samplers.view import View

__all__ = [
    "CANVAS",
    "CAUSAL",
    "SAMPLERS",
    "SCORES",
    "AtToken",
    "Budget",
    "Choice",
    "ChoosesFirst",
    "Drafts",
    "Either",
    "Sampler",
    "Session",
    "StopRule",
    "Until",
    "View",
    "Watched",
    "above",
    "agreement",
    "arranged",
    "at_least",
    "check_ranking",
    "chosen",
    "divergence",
    "fill",
    "in_order",
    "lowest",
    "read_prompt",
    "walk",
]
