"""What a network learns in a number of CPU seconds of one thread: its loss above the entropy, with and without memory.

The presets of `unmask train`, with as many steps as the time allows. Time is that of the process, targets included and
validation not, so that other work on the machine counts little. Each curve has five points.
"""

from __future__ import annotations

import time
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import NamedTuple

from benchmarks.timing import Report, main, say
from unmask import languages
from unmask.core.threads import torch_threads
from unmask.models.trained import preset
from unmask.models.trained.loop import Conditions, Training
from unmask.models.trained.recipe import recipe


class Task(NamedTuple):
    language: str
    preset: str
    seconds: float  # CPU time of one training
    bound: float  # % above the entropy, with memory


TASKS = (
    Task("paper-2gram", "quick", 20.0, 0.5),
    Task("paper-3gram", "thorough", 20.0, 5.0),
    Task("paper-4gram", "thorough", 300.0, 10.5),
    Task("sparse-hmm", "thorough", 180.0, 5.5),
    Task("paper-3gram", "chain", 20.0, 1.5),
    Task("paper-4gram", "chain", 60.0, 8.0),
    Task("sparse-hmm", "chain", 30.0, 2.5),
    Task("modular-sum", "sums", 300.0, 4.0),
)
FRACTION = {"toy": 0.0, "quick": 0.1, "full": 1.0}  # of the time
SEEDS = {"toy": 1, "quick": 1, "full": 3}
WARM, TIMED, LEAST = 3, 20, 5  # steps before the clock starts, steps that it counts, steps of a training at least
POINTS = 5


def measure(report: Report, tasks: tuple[Task, ...] = TASKS) -> None:
    for task in tasks:
        budget = FRACTION[report.size] * task.seconds
        for memory in (True, False):
            curves = [curve(task, budget, memory, seed) for seed in range(SEEDS[report.size])]
            ends = [points[-1] for points in curves]
            name = f"{task.language}, MDM {task.preset}, {'with' if memory else 'without'} memory"
            say(f"{name}: {', '.join(f'{excess:.2f}% after {seconds:.0f} s' for seconds, excess in ends)}")
            if memory:
                report.at_most(name, mean(excess for _, excess in ends), task.bound, "% above the entropy")


def curve(task: Task, budget: float, memory: bool, seed: int) -> list[tuple[float, float]]:
    """(CPU seconds, % above the entropy) at the end of each fifth of a training."""
    with torch_threads(1), TemporaryDirectory() as directory:
        trial = training(task, WARM + TIMED, memory, seed, Path(directory))
        learn(trial, WARM)
        steps = max(LEAST, round(budget / learn(trial, WARM + TIMED) * TIMED))
        learner, seconds, points = training(task, steps, memory, seed, Path(directory)), 0.0, []
        for number in range(1, POINTS + 1):
            seconds += learn(learner, round(steps * number / POINTS))
            points.append((seconds, learner.judge(learner.learner.average).excess_percent.value))
            say(f"{task.language}, seed {seed}: {points[-1][1]:.2f}% after {seconds:.0f} s, {learner.step} steps")
    return points


def training(task: Task, steps: int, memory: bool, seed: int, directory: Path) -> Training:
    language = languages.load(task.language)
    shape = preset(task.preset, "mdm", language.vocabulary, neighbours=None if memory else 0)
    how = recipe(task.preset, "mdm", steps=steps, seed=seed)
    return Training(language, task.language, shape, how, directory, Conditions(device="cpu", threads=1))


def learn(training: Training, end: int) -> float:
    """CPU seconds of the steps before number `end`."""
    began = time.process_time()
    for _ in training.learn(end):
        pass
    return time.process_time() - began


if __name__ == "__main__":
    main(__doc__, measure)
