"""Tasks: models write the answers; all results are computed from records."""

from unmask.tasks.evaluation.compare import Comparison, compare
from unmask.tasks.evaluation.records import read
from unmask.tasks.evaluation.run import Evaluation, check, evaluate
from unmask.tasks.evaluation.settings import Settings
from unmask.tasks.evaluation.summary import Group, groups, labels

__all__ = ["Comparison", "Evaluation", "Group", "Settings", "check", "compare", "evaluate"]
__all__ += ["groups", "labels", "read"]
