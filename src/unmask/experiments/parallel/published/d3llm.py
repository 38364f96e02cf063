"""Points of d3LLM (Qian et al., arXiv 2601.07568): tokens per model call and accuracy in percent, by task and method.

Each method has a first point at one token per model call. Fast-dLLM with Dream on GSM8K passes the rule of 5 percentage
points by 0.32, which is less than the standard error of its accuracy, 1.1: chance decides about its second point.
"""

from __future__ import annotations

from typing import NamedTuple

from unmask.experiments.parallel.aup import Aup, Pair, aup, of_accuracies

GSM8K, MATH, MBPP, HUMANEVAL, LONG = "gsm8k", "math", "mbpp", "humaneval", "long-gsm8k"
ITEMS = {GSM8K: 1319, LONG: 1319, MBPP: 500, HUMANEVAL: 164}  # without an interval: the number is not published
FAMILIES = {  # of each task: method, accuracy at one token per model call; tokens per model call, accuracy
    "llada": {
        GSM8K: "LLaDA 72.55; Fast-dLLM 74.79 2.77 74.68; D2F 74.98 2.88 74.39; "
        "dParallel 74.0 5.14 72.63; d3LLM 74.02 9.11 73.09",
        MATH: "LLaDA 32.2; Fast-dLLM 32.1 1.97 30.82; D2F 29.1 2.66 28.94; dParallel 32.0 3.17 30.18; "
        "d3LLM 32.76 5.74 30.36",
        MBPP: "LLaDA 41.72; Fast-dLLM 41.58 2.13 38.6; D2F 39.1 2.13 39.0; dParallel 41.62 2.35 40.0; "
        "d3LLM 42.0 4.21 40.6",
        HUMANEVAL: "LLaDA 38.28; Fast-dLLM 38.16 2.56 37.8; D2F 41.02 2.69 40.64; dParallel 39.68 4.93 39.02; "
        "d3LLM 39.8 5.95 39.63",
        LONG: "LLaDA 78.58; Fast-dLLM 78.45 2.45 78.01; D2F 76.0 2.7 75.66; dParallel 79.15 4.49 76.65; "
        "d3LLM 78.32 6.95 74.22",
    },
    "dream": {
        GSM8K: "Dream 83.94; Fast-dLLM 83.68 1.44 79.0; Fast-dLLM-v2 82.82 2.21 81.48; dParallel 83.8 3.02 82.12; "
        "d3LLM 83.47 4.94 81.36; EAGLE-3 76.57 5.12 76.57",
        MATH: "Dream 39.63; Fast-dLLM 39.53 1.78 38.3; Fast-dLLM-v2 49.92 2.61 48.74; dParallel 39.06 2.94 38.72; "
        "d3LLM 39.38 3.92 38.21; EAGLE-3 39.80 5.72 39.80",
        HUMANEVAL: "Dream 55.2; Fast-dLLM 54.86 1.33 54.27; Fast-dLLM-v2 63.2 2.58 61.7; dParallel 56.08 2.57 54.27; "
        "d3LLM 58.86 3.2 57.1; EAGLE-3 67.58 5.98 67.58",
    },
}


class Row(NamedTuple):
    family: str
    task: str
    method: str
    best: str  # the method with y_max
    aup: Aup


def rows() -> list[Row]:
    """AUP of all methods with their intervals; y_max is the best accuracy of the methods of the same family."""
    every = []
    for family, tasks in FAMILIES.items():
        for task, text in tasks.items():
            points = dict(map(_method, text.split("; ")))
            tops = {name: max(y for _, y in own) for name, own in points.items()}
            best, items = max(tops, key=tops.__getitem__), ITEMS.get(task)
            for name, own in points.items():
                area = of_accuracies(own, tops[best], items) if items else aup(own, tops[best])
                every.append(Row(family, task, name, best, area))
    return every


def _method(text: str) -> tuple[str, list[Pair]]:
    name, *numbers = text.split()
    first, *second = map(float, numbers)
    return name, [(1.0, first), *([(second[0], second[1])] if second else [])]
