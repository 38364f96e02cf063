"""Benchmark masked diffusion language models: samplers, exact languages, networks and open models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unmask.core.lazy import lazily

if TYPE_CHECKING:
    from unmask import denoisers as denoisers
    from unmask import diagnosis as diagnosis
    from unmask import experiments as experiments
    from unmask import languages as languages
    from unmask import metrics as metrics
    from unmask import models as models
    from unmask import planning as planning
    from unmask import report as report
    from unmask import samplers as samplers
    from unmask import tasks as tasks
    from unmask import testing as testing
    from unmask import theory as theory
    from unmask.core.errors import UnmaskError as UnmaskError
    from unmask.core.estimates import Estimate as Estimate
    from unmask.denoisers import oracle as oracle
    from unmask.diagnosis import conformance as conformance
    from unmask.diagnosis import policy as policy
    from unmask.diagnosis.audit import Audit as Audit
    from unmask.diagnosis.audit import audit as audit
    from unmask.diagnosis.conformance import check as check
    from unmask.diagnosis.difference import Difference as Difference
    from unmask.diagnosis.difference import difference as difference
    from unmask.diagnosis.gap import Gap as Gap
    from unmask.diagnosis.gap import gap as gap
    from unmask.diagnosis.likelihood import score as score
    from unmask.experiments import sweep as sweep
    from unmask.experiments.board import board as board
    from unmask.metrics import Score as Score
    from unmask.models.loading import load as load
    from unmask.models.trained.loop import train as train
    from unmask.planning.plan import plan as plan
    from unmask.report.player import play as play
    from unmask.samplers import Generation as Generation
    from unmask.samplers import generate as generate
    from unmask.samplers import prompts as prompts
    from unmask.samplers.joint.foreign import joint as joint


__version__ = "0.5.0"  # pyproject.toml reads it here
__getattr__, __dir__ = lazily(__name__)
__all__ = __dir__()
