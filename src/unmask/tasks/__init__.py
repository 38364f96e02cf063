"""Evaluation tasks: items, prompts, and the check of answers."""

from unmask.tasks.contract import TASKS, Item, Task

__all__ = ["TASKS", "Item", "Task"]
