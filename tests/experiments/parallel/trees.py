"""A result tree in the published layout, with own contents."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

RUN = "20260320_133223_all"
TASKS = ("puzzles_grid", "text_writing_title", *(f"waiting_line_{number}" for number in range(15)))
# R and S of the settings of two samplers, from few to many tokens per step: numbers of the published curves
WINO = ((1.0, 1465), (5.009689979587228, 1438), (5.916280963167223, 1360), (6.590793525867057, 1241))
WINO += ((7.296331147299824, 1135), (8.15661987564845, 1059))  # S in items of 1700


def line(task: str, number: int, score: float, nfe: float, canvas: int = 32, written: int = 12) -> dict[str, Any]:
    named = {"doc_id": number, "doc": {"messages": [{"role": "user", "content": f"item {number}"}]}, "target": "x"}
    arguments = {"gen_args_0": {"arg_0": f"item {number}", "arg_1": {"until": ["\n\n"], "max_tokens": canvas}}}
    named |= {"arguments": arguments, "resps": [["x"]], "filtered_resps": ["x"], "filter": "none"}
    named |= {"metrics": ["score", "nfe", "tokens_per_step", "input_length", "output_length"]}
    named |= {"doc_hash": hashlib.sha256(f"{task} {number}".encode()).hexdigest(), "prompt_hash": "", "target_hash": ""}
    scores = {"score": score, "score_strict": score, "nfe": nfe, "tokens_per_step": canvas / nfe}
    return named | scores | {"input_length": 100.0, "output_length": float(written)}


def write_run(
    root: Path, place: str, tasks: Mapping[str, Sequence[Mapping[str, Any]]], run: str = RUN, samples: bool = True
) -> Path:
    """place: MODEL/SAMPLER/SETTING. Lines are in the order of several workers."""
    directory = root / place / run
    directory.mkdir(parents=True)
    results: dict[str, Any] = {"parallelbench_all": {"score,none": 0.0, "tokens_per_step,none": 0.0}}
    for task, lines in tasks.items():
        means = {name: sum(one[name] for one in lines) / len(lines) for name in ("score", "nfe", "tokens_per_step")}
        means["score"] *= 100
        results[f"parallelbench_{task}"] = {f"{name},none": mean for name, mean in means.items()}
        results[f"parallelbench_{task}"]["score_stderr,none"] = "N/A"
        if samples:
            ordered = [*lines[::2], *lines[1::2]]
            text = "".join(json.dumps(one) + "\n" for one in ordered)
            (directory / f"samples_parallelbench_{task}.jsonl").write_text(text)
    summary = {"results": results, "groups": {}, "model_name": "x"}
    (directory / "results_parallelbench.json").write_text(json.dumps(summary))
    return directory


def full(speed: float, right: int, items: int = 100) -> dict[str, list[dict[str, Any]]]:
    """All tasks, so many right items in all, and every item at the same speed."""
    tasks: dict[str, list[dict[str, Any]]] = {}
    for index, task in enumerate(TASKS):
        own = right // len(TASKS) + (index < right % len(TASKS))
        tasks[task] = [line(task, number, float(number < own), 32 / speed) for number in range(items)]
    return tasks
