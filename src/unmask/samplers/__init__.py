"""Who reveals: schedules, orders, the session, the loops and generate(); rules/ has a file for each family."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unmask.core.lazy import lazily

if TYPE_CHECKING:
    from unmask.samplers.contract import CANVAS as CANVAS
    from unmask.samplers.contract import CAUSAL as CAUSAL
    from unmask.samplers.contract import SAMPLERS as SAMPLERS
    from unmask.samplers.contract import Choice as Choice
    from unmask.samplers.contract import Sampler as Sampler
    from unmask.samplers.generation import fit_of as fit_of
    from unmask.samplers.generation import generate as generate
    from unmask.samplers.loops import fill as fill
    from unmask.samplers.loops import walk as walk
    from unmask.samplers.ranking import SCORES as SCORES
    from unmask.samplers.ranking import ChoosesFirst as ChoosesFirst
    from unmask.samplers.ranking import above as above
    from unmask.samplers.ranking import arranged as arranged
    from unmask.samplers.ranking import at_least as at_least
    from unmask.samplers.ranking import check_ranking as check_ranking
    from unmask.samplers.ranking import chosen as chosen
    from unmask.samplers.ranking import in_order as in_order
    from unmask.samplers.ranking import lowest as lowest
    from unmask.samplers.result import Generation as Generation
    from unmask.samplers.result import join as join
    from unmask.samplers.rules.autoregressive import read_prompt as read_prompt
    from unmask.samplers.rules.speculative import Drafts as Drafts
    from unmask.samplers.session import Session as Session
    from unmask.samplers.starting import prompts as prompts
    from unmask.samplers.stopping import AtToken as AtToken
    from unmask.samplers.stopping import Budget as Budget
    from unmask.samplers.stopping import Either as Either
    from unmask.samplers.stopping import StopRule as StopRule
    from unmask.samplers.stopping import Until as Until
    from unmask.samplers.view import View as View
    from unmask.samplers.view import divergence as divergence

__getattr__, __dir__ = lazily(__name__, __path__)
