"""unmask advise."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from unmask.cli.options import Named, Number, Switch

Results = Annotated[tuple[Path, ...], "RECORDS"]


def command(
    *,
    results: Results = (),
    task: Annotated[str | None, "TASK"] = None,
    language: Named = None,
    length: int = 512,
    target: float,
    budget_ms: Number = None,
    json: Switch = False,
) -> None:
    """Say which model, sampler and number of rounds to take: a masked model or AR.

    Examples:
        unmask advise --results eval --target 0.6
        unmask advise --results llada qwen --task gsm8k --target 0.6 --budget-ms 500
        unmask advise --language sparse-hmm --target 0.9

    From records of `unmask eval` it is what was measured, with intervals: the
    fastest that reaches the target, and AR beside it. Of a language, where the
    target is the share of right sequences, it is what is known without measuring
    (`unmask plan` says more). docs/choose.md tells how to read it.

    Args:
        results: Directories of `unmask eval`, or files of records.
        task: Which task of theirs, where there are several; as their table has it.
        language: A preset, or a language file, in the place of records.
        length: Tokens a sequence of it.
        target: The share of answers, or of sequences, that are to be right.
        budget_ms: Milliseconds that a sample may take.
        json: Print one JSON object instead of sentences.
    """
    from unmask.cli.output import show, show_lines
    from unmask.core.errors import UnmaskError

    if bool(results) == (language is not None):
        raise UnmaskError("give --results, directories of `unmask eval`, or --language; one of them")
    if language is not None:
        from unmask import languages
        from unmask.cost.planner import plan

        if budget_ms is not None:
            raise UnmaskError(
                "nobody knows times of a language; `unmask plan --ar-token-ms A --step-ms B` compares them"
            )
        verdict = plan(languages.load(language), length, "ser", 1 - target, "linear", 1, None)
        if json:
            show({"target": target} | verdict.to_dict(), True)
        else:
            show_lines([("advice", verdict.text)])
        return
    from unmask.experiments.evaluation import groups, read
    from unmask.experiments.evaluation.advise import advise

    found = groups([sample for path in results for sample in read(path)])
    if task is not None:
        found = [group for group in found if str(group.settings["task"]).partition("(")[0] == task.partition("(")[0]]
    advice = advise(found, target, None if budget_ms is None else budget_ms / 1000)
    if json:
        show(advice.to_dict(), True)
        return
    beside = (("at AR's time", advice.at_time), ("at AR's arithmetic", advice.at_flops))
    show_lines([("advice", advice.text), *((name, str(option)) for name, option in beside if option is not None)])
