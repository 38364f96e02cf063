"""The rebuttal's tables: compared with each other, and with the reports of the models' authors.

These claims compare published figures, with the confidence interval for the number of items of a benchmark. Measuring
them needs weights.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from unmask.experiments.paper.judge import Claim, Size, Values, claim, part, shown
from unmask.experiments.paper.records import Absent, Records

REPORTS = {  # recipe of experiments/evaluation/published.py: the figure of the model's authors
    "paper-gsm8k-dream-256": 77.2,
    "paper-gsm8k-llada-256": 70.0,
    "paper-mbpp-dream-512": 56.2,
    "paper-mbpp-llada-512": 39.2,
    "paper-humaneval-dream-512": 57.9,
    "paper-humaneval-llada-512": 32.9,
}
POINT = 1.05  # percentage points: closer figures of one decimal count as equal
BOTH = ("dream", "llada")
STEPS = {"job": "published", "recipe": [f"paper-humaneval-{model}-512" for model in BOTH]}
FROM_LEFT = {"job": "published", "recipe": [f"paper-humaneval-{model}-ltr" for model in BOTH]}
DREAM, LLADA = "dream-v0-base-7b", "llada-8b-base"


def cells(size: Size) -> list[dict[str, Any]]:
    from unmask.experiments.evaluation.published import PAPER, PUBLISHED

    return [part("published", recipe=[name for name, figure in PUBLISHED.items() if figure.source == PAPER])]


def _near(theirs: Values, reported: Values) -> bool:
    """Whether figures differ by at most a point, or by less than the confidence interval."""
    pairs = zip(theirs.estimates(), reported.values, strict=True)
    return all(abs(e.value - value) <= POINT or e.low <= value <= e.high for e, value in pairs)


def _table(task: str) -> Callable[[Records], list[str]]:
    """The recipes of all rows of a table."""

    def recipes(records: Records) -> list[str]:
        names = sorted(record["recipe"] for record in records.all("percent", job="published", task=task))
        if not names:
            raise Absent(f"percent of the recipes of {task}")
        return names

    return recipes


def _masked(name: str) -> bool:
    return any(model in name for model in BOTH) and not name.endswith("ltr")


def _comparable(masked: str, ar: str) -> bool:
    """An AR model with any MDM; an MDM that generates from left to right only with itself."""
    return not ar.endswith("ltr") or masked.split("-")[:3] == ar.split("-")[:3]


def _not_both(percent: Values, seconds: Values) -> bool:
    """Whether no MDM has a higher percentage in less time than an AR row."""
    return not any(
        percent[mdm].value > percent[ar].value and seconds[mdm].value < seconds[ar].value and _comparable(mdm, ar)
        for mdm in percent.by
        for ar in percent.by
        if _masked(mdm) and not _masked(ar)
    )


def _measured(task: str, model: str, steps: int, sampler: str = "") -> str:
    """The command that measures a row of a table; lm-eval runs programs."""
    if task == "gsm8k":
        return f"unmask eval run --model {model} --task 'gsm8k(shots=8)' --length 256 --steps {steps}"
    arguments = f"model={model},steps={steps},max_gen_toks=512{sampler}"
    return f"unmask eval lm-eval --model unmask --tasks {task} --confirm_run_unsafe_code --model_args {arguments}"


def _of_task(task: str, steps: int) -> dict[str, Claim]:
    """The claims of a table. steps: as many as tokens."""
    return {
        f"{task}-not-both": claim(
            f"Rebuttal, table of {task}",
            "No MDM is both more accurate and faster than an AR baseline.",
            _measured(task, DREAM, 256),
            shown("{recipe}, percent", "percent", job="published", recipe=_table(task)),
            shown("{recipe}, seconds", "seconds", job="published", recipe=_table(task)),
            test=_not_both,
            agrees="In the table's own figures, no MDM beats an AR row in both. As the reviewers note, the models "
            "differ in size, data and training. Our own measurement needs the weights.",
        ),
        f"{task}-again": claim(
            f"Rebuttal, table of {task}",
            "Accuracy and seconds by the number of steps.",
            _measured(task, LLADA, steps),
            untested="The test needs weights and a GPU. Each row of the table above is such a run.",
        ),
    }


CLAIMS = {
    "reports": claim(
        "Rebuttal to reviewers AskR and 4VkA, tables",
        "Accuracies of Dream-v0-Base-7B and LLaDA-8B-Base with as many steps as tokens.",
        _measured("humaneval", DREAM, 512),
        shown("{recipe}, percent", "percent", recipe=[*REPORTS]),
        shown("{recipe}, by the model's authors", lambda _, at: REPORTS[at["recipe"]], recipe=[*REPORTS]),
        test=_near,
        agrees="Each figure is within a point of the authors' figure (report of Dream 7B; LLaDA's EVAL.md, lm-eval), "
        "or within the noise of the items. Our own measurement needs the weights.",
    ),
    "llama": claim(
        "Rebuttal, table of HumanEval",
        "Llama-3-8B has 62.2% on HumanEval, in a table of base models.",
        "unmask eval lm-eval --model hf --tasks humaneval --confirm_run_unsafe_code "
        "--model_args pretrained=meta-llama/Meta-Llama-3-8B",
        shown("the rebuttal's figure, percent", "percent", recipe="paper-humaneval-llama"),
        shown("Meta's card, for Llama-3-8B-Instruct", 62.2),
        test=lambda rebuttal, instruct: rebuttal.value != instruct.value,
        differs="Meta's card lists 62.2 for the tuned Instruct model; the other rows are base models. If the row comes "
        "from there, it compares a tuned model with untuned ones. A run with the weights would show that.",
        figure="62.2%",
    ),
    **_of_task("gsm8k", 256),
    **_of_task("mbpp", 512),
    **_of_task("humaneval", 512),
    "own-ar": claim(
        "Rebuttal to reviewer Gs9S",
        "Decoded from left to right, the same MDM is as accurate as with all its steps, and not slower.",
        _measured("humaneval", LLADA, 512, ",sampler=left-to-right"),
        shown("{recipe}, percent", "percent", **STEPS),
        shown("{recipe}, percent", "percent", **FROM_LEFT),
        shown("{recipe}, seconds", "seconds", **STEPS),
        shown("{recipe}, seconds", "seconds", **FROM_LEFT),
        test=lambda percent, from_left, seconds, took: (
            all(e.high >= value for e, value in zip(from_left.estimates(), percent.values, strict=True)),
            took < seconds,
        ),
        agrees="In the table's own figures, Dream is better from left to right and LLaDA worse. Both differences are "
        "within the noise of 164 items: one standard error is 3.9 points at 50%.",
        figure="57.9 and 28.7%",
    ),
}
