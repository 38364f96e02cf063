"""Tasks: what models are asked, what of their text is the answer, and whether it is right."""

from unmask.tasks.contract import TASKS, Item, Program, Task, asking

__all__ = ["TASKS", "Item", "Program", "Task", "asking"]
