"""Tasks: what models are asked, what of their text is the answer, and whether it is right."""

from unmask.tasks import countdown as countdown  # each of which registers itself
from unmask.tasks import gsm8k as gsm8k
from unmask.tasks import humaneval as humaneval
from unmask.tasks import lists as lists
from unmask.tasks import math500 as math500
from unmask.tasks import mbpp as mbpp
from unmask.tasks import open_text as open_text
from unmask.tasks import sudoku as sudoku
from unmask.tasks import sums as sums
from unmask.tasks import validity as validity
from unmask.tasks.contract import TASKS, Item, Program, Task, asking

__all__ = ["TASKS", "Item", "Program", "Task", "asking"]
