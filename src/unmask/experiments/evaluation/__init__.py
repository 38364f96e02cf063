"""Tasks: models write the answers; all results are computed from records."""

from unmask.experiments.evaluation.compare import Comparison, compare
from unmask.experiments.evaluation.records import read
from unmask.experiments.evaluation.run import Evaluation, check, evaluate
from unmask.experiments.evaluation.settings import Settings
from unmask.experiments.evaluation.summary import Group, groups, labels

__all__ = ["Comparison", "Evaluation", "Group", "Settings", "check", "compare", "evaluate"]
__all__ += ["groups", "labels", "read"]
