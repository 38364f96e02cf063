"""Records in the formats of other tools, a file a setting."""

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


def write(found: Sequence[Group], kind: str, directory: Path) -> list[Path]:
    """The files; lm-eval: as its --log_samples leaves them, evalplus: what its evaluator reads."""
    make_directory(directory)
    made = []
    for number, group in enumerate(found):
        task = parse("task", group.settings["task"])[0]
        if kind == "evalplus" and TASKS.make(group.settings["task"]).kind != "programs":
            raise UnmaskError(f"EvalPlus reads programs, and the answers of {task} are none; take --format lm-eval")
        path = directory / f"samples_{task}_{number}.jsonl"
        with atomic(path) as file:
            for sample in group.samples:
                file.write(json.dumps(_evalplus(sample) if kind == "evalplus" else _lm_eval(sample)).encode() + b"\n")
        made.append(path)
    return made


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
        "unmask": {"evaluations": sample.evaluations, "seconds": sample.seconds, "reason": sample.reason},
    }
