"""Joint draws: the tokens of a step drawn together, with the same model calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unmask.core.lazy import lazily

if TYPE_CHECKING:
    from unmask.samplers.joint.drawing import Joint as Joint
    from unmask.samplers.joint.drawing import Together as Together
    from unmask.samplers.joint.draws import DRAWS as DRAWS
    from unmask.samplers.joint.draws import as_joint as as_joint
    from unmask.samplers.joint.likelihood import divergence as divergence
    from unmask.samplers.joint.likelihood import log_paths as log_paths

__getattr__, __dir__ = lazily(__name__, __path__)
