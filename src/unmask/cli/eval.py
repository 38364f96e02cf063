"""unmask eval run|check|show|compare|lm-eval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from unmask.cli.options import Answer, Grid, Switch
from unmask.core.entries import grouped
from unmask.core.errors import UnmaskError, needed, plain
from unmask.core.run import Evaluating

if TYPE_CHECKING:
    from unmask.tasks.evaluation import Evaluation, Group

Names = Annotated[tuple[str, ...], "NAME"]
Records = Annotated[Path, "RECORDS"]
Filters = Annotated[tuple[str, ...], "NAME=VALUE"]
SHOWN = 5  # incorrect answers to print


def run(
    *,
    options: Evaluating,
    out: Path = Path("eval"),
    engine: Annotated[str, "ENGINE"] = "local",
    workers: int = 1,
) -> Answer:
    """Evaluate a model on a task: accuracy, cost and time.

    Examples:
        unmask eval --model Qwen/Qwen2.5-0.5B --task sudoku --limit 20
        unmask eval --model llada-8b-base --causal-model Qwen/Qwen2.5-7B \\
            --task "lists(operation=sort)" --steps 64 128 256
        unmask eval --model llada-8b-base --task sums --eos stop last

    Every combination of options with several values is measured, and the AR model
    next to them. OUT/records.jsonl has one record per sample. The same command
    resumes, and a larger --limit adds samples.

    Args:
        out: Directory of the records, a store of `unmask sweep`; created if missing.
        engine: Processes of this machine (local), this process only (here), a cluster (ray), or module:Name.
        workers: Number of processes, each with the model.
    """
    from unmask.tasks.evaluation import Settings, evaluate

    return _answer(evaluate(Settings(**asdict(options)), out=out, engine=engine, workers=workers))


def show(records: Records, /, *, wrong: Switch = False) -> Answer:
    """Show the results of an evaluation with incorrect answers, or logs of lm-eval.

    Examples:
        unmask eval show eval
        unmask eval show eval --wrong
        unmask eval show logs-of-lm-eval
        unmask eval show sweeps/strategies

    Items with several samples have pass@k: those of `--each` or of several seeds,
    or several lines for an item of a file.

    Args:
        wrong: Print some incorrect answers of each setting, with the reason.
    """
    from unmask.tasks import logs
    from unmask.tasks.evaluation import Evaluation, labels, published, read
    from unmask.tasks.evaluation.records import has_records

    if not has_records(records) and (published.has_items(records) or logs.is_log(records) or records.is_file()):
        from unmask.tasks.evaluation.table import of_outcomes

        outcomes = published.outcomes(records) if published.has_items(records) else logs.read(records)
        grid, summary = of_outcomes(outcomes)
        return Answer({"records": str(records), "settings": summary}, [Grid(*grid)])
    evaluation = Evaluation(records, read(records))
    answer = _answer(evaluation)
    if not wrong:
        return answer

    text = list(answer.text or ())
    for label, group in zip(labels(evaluation.groups), evaluation.groups, strict=True):
        text.append(f"{label}: {', '.join(f'{why}: {count}' for why, count in group.reasons.items())}")
        for sample in islice(filter(attrgetter("why"), group.samples), SHOWN):
            written = plain(" ".join(sample.text.split()))
            text.append(f"  {sample.item}: {sample.why}; answer {sample.answer!r:.80}; ..{written[-160:]}")
        text.append("")
    return answer._replace(text=text)


def check(store: Annotated[Path, "STORE"], /) -> Answer:
    """Check the answers of an evaluation again, as those of `unmask sweep run`.

    Example:
        unmask eval check sweeps/lists

    Args:
        store: Directory of `unmask eval`, or of a sweep with the job `evaluation`.
    """
    from unmask.tasks.evaluation import check as checked

    return _answer(checked(store))


def compare(first: Records, second: Records, /, *, first_is: Filters = (), second_is: Filters = ()) -> Answer:
    """Test which of two settings has the higher accuracy on the same items.

    Examples:
        unmask eval compare block-8 block-256
        unmask eval compare logs-of-lm-eval other-logs
        unmask eval compare eval eval --first-is steps=64 --second-is steps=256
        unmask eval compare eval eval --first-is model=llada-8b-base steps=64 \\
            --second-is model=qwen2.5-7b --json

    With one sample per item, the test is McNemar's exact test; with several, the
    interval of the mean difference over items. The level is 5%, for each task of
    logs of lm-eval (--log_samples), of any models.

    Args:
        first: Directory of `unmask eval` or of lm-eval's logs, or a file of records or items.
        second: Directory or records of the second setting; may be the same.
        first_is: First setting, if there are several: names and values of its table.
        second_is: Second setting, if there are several.
    """
    from unmask.tasks.evaluation import compare as compared
    from unmask.tasks.evaluation import labels, read
    from unmask.tasks.evaluation.records import has_records

    if not (has_records(first) and has_records(second)):
        return _paired(first, second)
    one, other = _only(read(first), first_is, "--first-is"), _only(read(second), second_is, "--second-is")
    result = compared(one.written, other.written)
    names = labels([one, other])
    if names[0] == names[1]:
        names = [str(first), str(second)]
    return Answer({"first": names[0], "second": names[1], **result.to_dict()}, [result.sentence(*names), result.counts])


def _paired(first: Path, second: Path) -> Answer:
    """Compare logs of lm-eval or files of items, task by task."""
    from unmask.tasks import logs

    lines, tasks = list[str](), {}
    for task, result in logs.paired(logs.read(first), logs.read(second)).items():
        lines += [f"{task}: {result.sentence(str(first), str(second))}", f"  {result.counts}"]
        tasks[task] = result.to_dict()
    return Answer({"first": str(first), "second": str(second), "tasks": tasks}, lines)


def _answer(evaluation: Evaluation) -> Answer:
    import shlex

    from unmask.tasks.evaluation.records import labels
    from unmask.tasks.evaluation.table import summary, table

    groups, place = evaluation.groups, str(evaluation.directory)
    tasks = grouped(groups, lambda group: group.settings["task"])
    text: list[Grid | str] = [Grid(*table(own)) for own in tasks.values()]
    for label, group in zip(labels(groups), groups, strict=True):
        if group.too_long:
            text.append(f"{label}: {group.too_long}; not in the accuracy.")
    text.append(f"{place}; its page with all answers: unmask report {shlex.quote(place)}")
    return Answer({"records": place, "settings": summary(groups)}, text)


def _only(samples: Sequence[Any], filters: Sequence[str], flag: str) -> Group:
    """Return the setting of the records that the filters select."""
    from unmask.tasks.evaluation import groups, labels

    for text in filters:
        if "=" not in text:
            raise UnmaskError(f"{flag} is {text!r}; expected NAME=VALUE, for example steps=64")
    values = dict(text.split("=", 1) for text in filters)
    every = groups(samples)
    matching = [one for one in every if all(str(one.settings.get(name)) == value for name, value in values.items())]
    if len(matching) != 1:
        raise UnmaskError(
            f"{len(matching)} settings match {flag} {' '.join(filters)}".rstrip(),
            f"expected one of: {'; '.join(labels(every))}",
        )
    return matching[0]


def lm_eval(*words: str) -> None:
    """Run lm-eval, EleutherAI's harness, with open models and samplers of unmask.

    Examples:
        unmask eval lm-eval --model unmask --tasks gsm8k --limit 20 \\
            --model_args model=Qwen/Qwen2.5-7B,record=answers.jsonl
        unmask eval lm-eval --model unmask --tasks gsm8k --apply_chat_template \\
            --model_args "model=llada-8b-instruct,sampler=llada(block_length=8)"
        unmask eval lm-eval run --help

    All options are lm-eval's own (pip install 'unmask[lm-eval]'). This command adds
    the model `unmask`, also to releases without entry points. Its arguments, which
    docs/evaluate.md explains:

        model, card, device, dtype, cache             as in unmask generate
        sampler, schedule, steps, block_length, temperature, top_p, top_k,
        guidance, seed                                as in unmask generate
        max_gen_toks   tokens of an answer, if the task sets none (default: 256)
        likelihood     for a masked model: chain, exact from left to right; bound,
                       with a standard error; auto, chain up to `draws` tokens
        draws          random masks of a bound (default: 128)
        record         a file with one line per request: errors and model calls
    """
    with needed("lm-eval", "lm-eval"):
        import lm_eval.__main__  # noqa: F401
    from unmask.tasks.lm_eval import run

    try:
        written = run(words)
    except (UnmaskError, OSError, MemoryError):
        raise
    except Exception as error:  # any error of the harness or its tasks
        raise UnmaskError(
            f"lm-eval failed with {type(error).__name__}: {error}", "Add --debug for the traceback"
        ) from error
    if written is not None:
        print(f"scores and costs of each item: {written}; see `unmask eval show {written.parent}`")


command = {"run": run, "check": check, "show": show, "compare": compare, "lm-eval": lm_eval}
