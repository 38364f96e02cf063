"""Why: gap, audit, conformance, endpoints, learning error, likelihood, difference, policy gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unmask.core.lazy import lazily

if TYPE_CHECKING:
    from unmask.diagnosis.learning import Learning as Learning
    from unmask.diagnosis.loss_curve import LossCurve as LossCurve

__getattr__, __dir__ = lazily(__name__, __path__)
