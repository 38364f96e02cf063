"""Tasks: models write the answers; all results are computed from records."""

from unmask.tasks.evaluation.compare import Comparison, advise, compare
from unmask.tasks.evaluation.records import Group, groups, labels, read
from unmask.tasks.evaluation.run import Evaluation, Settings, check, evaluate

__all__ = [
    "Comparison",
    "Evaluation",
    "Group",
    "Settings",
    "advise",
    "check",
    "compare",
    "evaluate",
    "groups",
    "labels",
    "read",
]
