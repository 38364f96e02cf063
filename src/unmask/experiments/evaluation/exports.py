"""Records in the formats of other tools, one file for each setting."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unmask.core.errors import UnmaskError
from unmask.core.files import atomic, make_directory
from unmask.core.registry import parse
from unmask.experiments.evaluation.summary import Group
from unmask.tasks import TASKS
from unmask.tasks.sample import Sample


def write(settings: Sequence[Group], kind: str, directory: Path) -> list[Path]:
    """Write files: lm-eval as with --log_samples, evalplus as input of its evaluator."""
    make_directory(directory)
    paths = []
    for number, group in enumerate(settings):
        task = parse("task", group.settings["task"])[0]
        if kind == "evalplus" and TASKS.make(group.settings["task"]).kind != "programs":
            raise UnmaskError(f"EvalPlus reads programs, and {task} has other answers; take --format lm-eval")
        path = directory / f"samples_{task}_{number}.jsonl"
        with atomic(path) as file:
            for sample in group.samples:
                file.write(json.dumps(_evalplus(sample) if kind == "evalplus" else _lm_eval(sample)).encode() + b"\n")
        paths.append(path)
    return paths


def _evalplus(sample: Sample) -> dict[str, Any]:
    return {"task_id": sample.item, "solution": sample.answer or ""}


def _lm_eval(sample: Sample) -> dict[str, Any]:
    return {
        "doc_id": sample.item,
        "doc": {},
        "target": "",
        "arguments": [[sample.prompt, {"until": sample.about["how"]["until"]}]],
        "resps": [[sample.text]],
        "filtered_resps": [sample.answer or "[invalid]"],
        "prompt_hash": sample.prompt_sha256,
        "exact_match": None if sample.right is None else float(sample.right),
        "unmask": {"model_calls": sample.model_calls, "seconds": sample.seconds, "reason": sample.reason},
    }
