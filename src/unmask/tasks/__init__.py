"""Evaluation tasks: items, prompts, and the check of answers."""

from unmask.tasks.contract import TASKS, Item, Program, Task, asking

__all__ = ["TASKS", "Item", "Program", "Task", "asking"]
