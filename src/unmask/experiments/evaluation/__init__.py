"""Evaluations: models write the answers of tasks, and every number about them is a reduction of records."""

from unmask.experiments.evaluation.compare import Comparison, compare
from unmask.experiments.evaluation.records import read
from unmask.experiments.evaluation.run import Evaluation, check, evaluate
from unmask.experiments.evaluation.settings import Settings
from unmask.experiments.evaluation.summary import Group, groups, labels

__all__ = ["Comparison", "Evaluation", "Group", "Settings", "check", "compare", "evaluate", "groups", "labels", "read"]
