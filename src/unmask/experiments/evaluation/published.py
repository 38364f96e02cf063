"""The figures of the rebuttal's tables by name, with their settings."""

from __future__ import annotations

from typing import Any, NamedTuple

from unmask.core.errors import unknown

PAPER = "Feng et al., NeurIPS 2025, rebuttal"


class Published(NamedTuple):
    model: str
    task: str
    options: dict[str, Any]  # steps, length and sampler
    figure: float  # percent of right answers
    source: str
    seconds: float | None = None  # for all items, on the authors' machine


def _steps(steps: int, length: int) -> dict[str, Any]:
    return {"steps": steps, "length": length}


LLADA, DREAM = "llada-8b-base", "dream-v0-base-7b"
LEFT_TO_RIGHT = {"sampler": "left-to-right"}
SHOTS_8 = "gsm8k(shots=8)"
PUBLISHED = {
    "paper-gsm8k-dream-64": Published(DREAM, SHOTS_8, _steps(64, 256), 47.5, PAPER, 1349.9),
    "paper-gsm8k-dream-128": Published(DREAM, SHOTS_8, _steps(128, 256), 68.6, PAPER, 2649.5),
    "paper-gsm8k-dream-256": Published(DREAM, SHOTS_8, _steps(256, 256), 76.3, PAPER, 5253.7),
    "paper-gsm8k-llada-64": Published(LLADA, SHOTS_8, _steps(64, 256), 54.5, PAPER, 2803.3),
    "paper-gsm8k-llada-128": Published(LLADA, SHOTS_8, _steps(128, 256), 66.0, PAPER, 5413.7),
    "paper-gsm8k-llada-256": Published(LLADA, SHOTS_8, _steps(256, 256), 69.1, PAPER, 10696.0),
    "paper-gsm8k-qwen-3b": Published("qwen2.5-3b", SHOTS_8, {"length": 256}, 76.5, PAPER, 553.3),
    "paper-gsm8k-qwen-1.5b": Published("qwen2.5-1.5b", SHOTS_8, {"length": 256}, 63.2, PAPER, 448.6),
    "paper-mbpp-dream-128": Published(DREAM, "mbpp", _steps(128, 512), 26.4, PAPER, 2380.1),
    "paper-mbpp-dream-256": Published(DREAM, "mbpp", _steps(256, 512), 42.8, PAPER, 4677.0),
    "paper-mbpp-dream-512": Published(DREAM, "mbpp", _steps(512, 512), 56.6, PAPER, 9197.0),
    "paper-mbpp-llada-512": Published(LLADA, "mbpp", _steps(512, 512), 39.6, PAPER, 10839.0),
    "paper-mbpp-qwen-3b": Published("qwen2.5-3b", "mbpp", {"length": 512}, 55.2, PAPER, 213.2),
    "paper-mbpp-qwen-1.5b": Published("qwen2.5-1.5b", "mbpp", {"length": 512}, 43.4, PAPER, 166.2),
    "paper-humaneval-dream-128": Published(DREAM, "humaneval", _steps(128, 512), 15.9, PAPER, 499.5),
    "paper-humaneval-dream-256": Published(DREAM, "humaneval", _steps(256, 512), 32.9, PAPER, 954.6),
    "paper-humaneval-dream-512": Published(DREAM, "humaneval", _steps(512, 512), 56.1, PAPER, 1838.7),
    "paper-humaneval-dream-ltr": Published(DREAM, "humaneval", _steps(512, 512) | LEFT_TO_RIGHT, 57.9, PAPER, 784.1),
    "paper-humaneval-llada-128": Published(LLADA, "humaneval", _steps(128, 512), 12.8, PAPER, 626.2),
    "paper-humaneval-llada-256": Published(LLADA, "humaneval", _steps(256, 512), 26.8, PAPER, 1143.9),
    "paper-humaneval-llada-512": Published(LLADA, "humaneval", _steps(512, 512), 32.9, PAPER, 2058.9),
    "paper-humaneval-llada-ltr": Published(LLADA, "humaneval", _steps(512, 512) | LEFT_TO_RIGHT, 28.7, PAPER, 1842.4),
    "paper-humaneval-qwen-7b": Published("qwen2.5-7b", "humaneval", {"length": 512}, 56.7, PAPER, 145.5),
    "paper-humaneval-qwen-3b": Published("qwen2.5-3b", "humaneval", {"length": 512}, 39.0, PAPER, 244.5),
    "paper-humaneval-qwen-1.5b": Published("qwen2.5-1.5b", "humaneval", {"length": 512}, 37.2, PAPER, 203.1),
    "paper-humaneval-llama": Published("llama-3-8b", "humaneval", {"length": 512}, 62.2, PAPER, 147.0),
}


def named(recipe: str) -> Published:
    if recipe not in PUBLISHED:
        raise unknown("recipe", recipe, PUBLISHED)
    return PUBLISHED[recipe]
