"""unmask board frontier."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from unmask.cli.options import Answer, Directory, Name

if TYPE_CHECKING:
    from unmask.core.estimates import Estimate
    from unmask.diagnosis.frontier import Point

Samplers = Annotated[tuple[str, ...], "SAMPLER"]
Temperatures = Annotated[tuple[float, ...], "T"]


def command(
    *,
    language: Name,
    length: int = 128,
    samplers: Samplers = (),
    temperatures: Temperatures = (),
    steps: int = 16,
    rows: int = 400,
    smoothing: float = 1e-3,
    seed: int = 0,
    out: Directory = None,
) -> Answer:
    """Compare generative perplexity and entropy of samples with the exact values.

    Examples:
        unmask board frontier --language paper-2gram
        unmask board frontier --language sparse-hmm --steps 32 \\
            --samplers ancestral margin
        unmask board frontier --language paper-2gram --temperatures 0.5 1 \\
            --out frontier

    The log of generative perplexity minus the entropy of a sampler's distribution p
    is KL(p || judge), all in nats per token. The judge is the language, read from
    left to right, with SMOOTHING of the probability spread evenly over all tokens.
    If p is known only given the sampler's random numbers, the entropy is the
    conditional one, at most H(p), and the divergence a mean, at least KL: both have
    a ~. If not even that is known, as for rules that sample before they choose,
    both are -.

    The last line tests whether `naive`, a walk without a model, beats the language
    by perplexity and by the entropy of a sequence's tokens.

    Args:
        samplers: Samplers with options. (default: autoregressive ancestral entropy low-confidence)
        temperatures: Sampling temperatures above 0. (default: 0.3 0.5 0.7 0.85 1 1.15)
        steps: Number of steps N of samplers that have one.
        rows: Number of sequences per point.
        smoothing: Fraction of the judge's probability that is even over all tokens; 0 is the exact language.
        out: Directory of frontier.svg, .png, .json and .csv; created if missing.
    """
    from unmask import languages
    from unmask.cli.output import say, show_grid
    from unmask.diagnosis.frontier import TEMPERATURES, USUAL, beats, frontier
    from unmask.report import exact
    from unmask.report.publishing import check_directory
    from unmask.report.results import FRONTIER

    if out is not None:
        check_directory(out, FRONTIER)
    known = languages.load(language)
    points = frontier(
        known,
        length,
        samplers or USUAL,
        temperatures=temperatures or TEMPERATURES,
        steps=steps,
        rows=rows,
        seed=seed,
        smoothing=smoothing,
    )
    about = {"language": language, "length": length, "steps": steps, "rows": rows, "seed": seed, "smoothing": smoothing}
    files = [str(path) for path in exact.frontier(out, known, points, about)] if out is not None else []
    best = beats(points)

    def text() -> None:
        head = ["sampler", "T", "log perplexity", "entropy", "KL", "unigram", "SER"]
        show_grid(f"{language}, {length} tokens, nats per token", head, [_row(point) for point in points])
        own = points[0]
        if best is None:
            missed = "none of its penalties gives lower perplexity at equal or higher unigram entropy"
            say(f"naive does not beat the language: {missed}.")
        else:
            theirs = f"{best.cross_entropy.value:.3f} < {own.cross_entropy.value:.3f}"
            healthy = f"{best.unigram.value:.3f} >= {own.unigram.value:.3f}"
            true = f"its SER is {best.ser.value:.3g}, its KL {best.divergence.value:.3f}" if best.divergence else ""
            say(f"naive beats the language by both proxies: log perplexity {theirs}, unigram entropy {healthy}.")
            say(f"Yet {true}.")
        print("\n".join(files), end="\n" if files else "")

    return Answer(about | {"points": [point.to_dict() for point in points], "beats": best and best.setting}, text)


def _row(point: Point) -> list[str]:
    sign = "" if point.exact else "~"

    def cell(estimate: Estimate | None, sign: str = "") -> str:
        return "-" if estimate is None else f"{sign}{estimate.value:.3f}"

    return [
        point.sampler,
        "-" if point.setting is None else f"{point.setting:g}",
        cell(point.cross_entropy),
        cell(point.entropy, sign),
        cell(point.divergence, sign),
        cell(point.unigram),
        cell(point.ser),
    ]
