"""unmask plan."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal

from unmask.cli.options import Answer, Count, File, Model, Named, Number, Portion, Switch, Word, refuse
from unmask.core.entries import chosen, given, mapped, perhaps
from unmask.core.errors import UnmaskError

SUBJECTS = (
    "--language (a known language)",
    "--model (a network's directory)",
    "--results (records of `unmask eval`)",
    "--model with --prompts or --texts (an open model)",
)
How = tuple[str, int, tuple[float, float] | None]  # schedule, batch, milliseconds of an AR token and of a step
LENGTH = 512  # of a language
ROWS = 500  # sequences at each measured number of steps


def command(
    *,
    language: Named = None,
    model: Model = None,
    prompts: File = None,
    texts: File = None,
    card: Word = None,
    device: str = "auto",
    seed: int = 0,
    results: Annotated[tuple[Path, ...], "RECORDS"] = (),
    target: Portion | None = None,
    metric: Literal["ser", "ter", "kl"] | None = None,
    length: Count = None,
    sampler: Word = None,
    schedule: str = "linear",
    ar_token_ms: Number = None,
    step_ms: Number = None,
    batch: Count = None,
    task: Annotated[str | None, "TASK"] = None,
    budget_ms: Number = None,
    verbose: Switch = False,
) -> Answer:
    """Find the steps that a quality needs, or the model to use: masked or AR.

    Examples:
        unmask plan --language paper-2gram --target 10%
        unmask plan --language paper-2gram --target 10% --sampler strided
        unmask plan --model mdm --metric ter --target 5% \\
            --ar-token-ms 3.3 --step-ms 9.4
        unmask plan --model llada-8b-base --prompts prompts.jsonl --target 0.5

    --target is the error that may remain, as a percentage or a fraction:

        ser       fraction of impossible sequences
        ter       excess of TER over the language's own (any positive number)
        kl        KL(q || p) in nats per sequence (any positive number)
        records   fraction of incorrect answers

    For an open model (--model with --prompts or --texts), --target is nats per
    answer that parallel decoding loses against one token per step, in random order.
    docs/choose.md explains the output.

    Args:
        language: Preset (see `unmask show language`) or language file. (default with --model: its own language)
        model: Directory of an MDM of `unmask train` (default: the exact denoiser); or an open model, a name of
            `unmask show model` or a directory, with --prompts or --texts.
        prompts: File of prompts for an open model, one a line: a text in quotes, or {"prompt": ..}.
        texts: File of texts, one answer to each prompt, or whole texts: .txt with a form feed line between texts, or
            .jsonl.
        seed: Random seed of masks and answers.
        results: Directories of `unmask eval`, or files of records.
        target: Largest acceptable error: 10% or 0.1 (required, except for an open model).
        metric: Metric of the target: ser, ter or kl. (default: ser)
        length: Sequence length in tokens. (default: 512, or the model's own); of an open model, tokens of an answer
            (default: 64).
        sampler: Sampler whose steps are measured on the language. (default: ancestral, by theory)
        schedule: Schedule to compare with the optimal one (see `unmask show schedule`).
        ar_token_ms: Measured time of one AR token, in ms per batch.
        step_ms: Measured time of one MDM step, in ms per batch.
        batch: Batch size of a forward pass. (default: 1)
        task: Task of the records, if there are several.
        budget_ms: Largest acceptable time per sample of the records, in ms.
        verbose: Print all numbers, also of the optimal schedule.
    """
    times = None
    if ar_token_ms is not None and step_ms is not None:
        times = (ar_token_ms, step_ms)
    elif ar_token_ms is not None or step_ms is not None:
        raise UnmaskError("--ar-token-ms and --step-ms need each other. Add the other, or leave both out")

    of_records: dict[str, Any] = {"task": task, "budget_ms": budget_ms}
    if prompts is not None or texts is not None:
        others = {**of_records, "language": language, "results": results or None, "batch": batch}
        refuse(
            others | _unless("kl", metric=metric),
            "does not apply to an open model with prompts or texts. Leave it out",
        )
        how = {"schedule": schedule, "target": target, "times": times, "seed": seed} | given({"length": length})
        return _of_open(model, card, device, prompts, texts, verbose, how)

    of_open = {"card": card, "seed": seed or None} | _unless("auto", device=device)
    refuse(of_open, "applies to open models. Add --prompts or --texts, or leave it out")
    if model is not None:
        _check_trained(model)

    missing = []
    if target is None:
        missing.append("--target (the largest acceptable error)")
    if language is None and model is None and not results:
        missing.append(f"one of {', '.join(SUBJECTS)}")
    if missing or target is None:
        raise UnmaskError(
            f"unmask plan needs {' and '.join(missing)}", "For example: unmask plan --language paper-2gram --target 10%"
        )
    if (results or metric in (None, "ser")) and not 0.0 < target < 1.0:
        raise UnmaskError(
            f"--target is {target:g}", "expected an error above 0 and below 1", "For example: --target 10%"
        )

    if results:
        others = {
            "language": language,
            "model": model,
            "length": length,
            "metric": metric,
            "batch": batch,
            "ar_token_ms": ar_token_ms,
            "step_ms": step_ms,
            "sampler": sampler,
        }
        refuse(others, "does not apply to records. Leave it out")
        return _of_records(results, target, task, budget_ms)

    refuse(of_records, "does not apply to a language or a network. Leave it out")
    if sampler is not None:
        others = {"model": model, "batch": batch} | _unless("ser", metric=metric)
        refuse(others, "does not apply to --sampler, whose SER is measured on a language. Leave it out")
        return _of_sampler(str(language), sampler, target, length, schedule, times)
    return _of_language(language, model, metric or "ser", target, length, (schedule, chosen(batch, 1), times), verbose)


def _unless(usual: str, **given: str | None) -> dict[str, str | None]:
    """The options, except one with its usual value."""
    return {name: value for name, value in given.items() if value != usual}


def _check_trained(model: str) -> None:
    from unmask.models.loading import is_trained

    if not is_trained(model):
        raise UnmaskError(
            f"the plan of {model} needs texts, which no language gives",
            "Add --prompts or --texts; --target is then nats per answer",
        )


def _of_open(
    model: str | None,
    card: str | None,
    device: str,
    prompts: Path | None,
    texts: Path | None,
    verbose: bool,
    how: dict[str, Any],
) -> Answer:
    from unmask.core.samples import read_texts
    from unmask.models.open.loading import load_model
    from unmask.models.open.prompted import read_prompts
    from unmask.planning.forecast import forecast

    if model is None:
        raise UnmaskError("--prompts and --texts need an open model. Add --model NAME (see `unmask show model`)")
    how |= given({"prompts": perhaps(read_prompts, prompts), "texts": perhaps(read_texts, texts)})

    predicted = forecast(load_model(model, card=card, device=device), **how)
    if verbose:
        return Answer(predicted.to_dict())
    return Answer(predicted.to_dict(), predicted.lines())


def _of_records(results: tuple[Path, ...], target: float, task: str | None, budget: float | None) -> Answer:
    from unmask.tasks.evaluation import groups, read
    from unmask.tasks.evaluation.compare import advise

    settings = groups(list(chain(*map(read, results))))
    if task is not None:
        name = task.partition("(")[0]
        settings = [group for group in settings if str(group.settings["task"]).partition("(")[0] == name]
    right = round(1 - target, 12)
    advice = advise(settings, right, budget and budget / 1000)
    beside = given({"at AR's time": advice.at_time, "at AR's compute": advice.at_flops})
    lines = [("target", f"accuracy of at least {right:.4g}"), ("advice", advice.text), *mapped(str, beside).items()]
    return Answer(advice.to_dict() | {"target": float(target)}, lines)


def _of_sampler(
    language: str, sampler: str, target: float, length: int | None, schedule: str, times: tuple[float, float] | None
) -> Answer:
    """Return the least measured number of steps at which a sampler reaches the target."""
    from unmask.experiments.jobs.sources import Amount, Source
    from unmask.experiments.jobs.steps import steps_for_ser
    from unmask.planning.plan import check_times
    from unmask.samplers import SAMPLERS

    if SAMPLERS.make(sampler).pace == "free":
        raise UnmaskError(
            f"{sampler} has no number of steps: its own options set its pace",
            f"Measure it with `unmask board --samplers '{sampler}'`",
        )
    if times is not None:
        check_times(times)
    length = chosen(length, LENGTH)
    source, most = Source(language, length=length), 4 * length
    source.q.check_length(length)
    first, *_ = steps_for_ser(source, Amount(rows=ROWS), schedule, sampler, target, most)
    wanted = f"an SER of at most {target:g} at {length} tokens"
    if first["value"] is None:
        return Answer(first | {"sampler": sampler}, [f"{sampler} does not reach {wanted} within {most} steps."])
    steps, calls = first["value"], first["model_calls"]
    ends = f"{first['low']:g} steps or more (no upper end: {ROWS} sequences are too few for this target)"
    if first["high"] is not None:
        ends = f"{first['low']:g} to {first['high']:g} steps"
    advice = f"{sampler} needs {steps:g} steps ({calls:.4g} model calls) for {wanted}; AR needs {length} for no error."
    if times is not None:
        advice += f" These take {calls * times[1]:,.4g} ms, and {length * times[0]:,.4g} ms."
    how = f"measured on {ROWS} sequences at each of 1, 2, 3, 4, 6, 8, 12, .. steps; 95% interval: {ends}"
    if sampler == "ancestral":
        how = f"exact, or measured and interpolated; 95% interval: {ends}"
    return Answer(first | {"sampler": sampler}, [("advice", advice), ("method", how)])


def _of_language(
    language: str | None, model: str | None, metric: Any, target: float, length: int | None, how: How, verbose: bool
) -> Answer:
    from unmask.planning.plan import plan

    if model is None:
        verdict = plan(str(language), chosen(length, LENGTH), metric, target, *how)
    else:
        from unmask.diagnosis.learning import of_language
        from unmask.models.loading import studied
        from unmask.models.trained import Network

        trunk, known, _, size = studied(Path(model), "auto", language, length)
        if trunk.shape.causal:
            raise UnmaskError(f"{model} is an AR network, which needs one step per token; expected an MDM")
        if trunk.shape.noise == "uniform":
            raise UnmaskError(
                f"{model} is a network of uniform noise, whose plan is not known",
                "expected an MDM",
                "Measure it with `unmask model learning`",
            )
        if metric == "ser":
            raise UnmaskError(
                "the SER of a trained network cannot be predicted",
                "Measure it with `unmask model learning`, or add --metric ter",
            )
        learning = of_language(Network(trunk), known, size)
        verdict = plan(known, size, metric, target, *how, trunk.shape, learning)
    if verbose:
        return Answer(verdict.to_dict())

    ways = []
    if verdict.time_break_even is None:
        ways.append("add --ar-token-ms and --step-ms for an answer in time")
    if model is None and metric == "ser":
        ways.append("--sampler strided measures another order")

    lines = verdict.table()
    if ways:
        lines.append(("next", "; ".join(ways)))
    return Answer(verdict.to_dict(), lines)
