"""unmask frontier."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from unmask.cli.options import Directory, Name, Switch

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
    json: Switch = False,
) -> None:
    """Hold generative perplexity and entropy against what is true of samplers.

    Examples:
        unmask frontier --language paper-2gram
        unmask frontier --language sparse-hmm --samplers ancestral margin --steps 32
        unmask frontier --language paper-2gram --temperatures 0.5 1 --out frontier

    The log of generative perplexity less the entropy of a sampler's law p is the
    divergence KL(p || judge), all in nats a token. The judge is the language, read
    from left to right, which gives every token a little: SMOOTHING in all. Where p
    is not known without its luck the entropy is that given the luck, at most H(p),
    and the divergence its mean over the luck, at least KL: marked by ~. Where not
    even that is known, as of rules that draw first and then choose, both are -.

    The last line says whether `naive`, a walk without a model of its own, beats the
    language by perplexity and by the entropy of a row's own tokens.

    Args:
        language: A preset with options, "sparse-hmm(seed=3, pruned=False)", or a language file.
        length: Tokens a sequence.
        samplers: Names with options; autoregressive ancestral entropy low-confidence unless told otherwise.
        temperatures: Above 0; 0.3 0.5 0.7 0.85 1 1.15 unless told otherwise.
        steps: Rounds N of samplers that have any.
        rows: Sequences a point.
        smoothing: The judge's share that all tokens have alike; 0 is the language itself.
        seed: The seed of the sequences.
        out: A directory for frontier.svg, .png, .json and .csv; made if it is not there.
        json: Print one JSON object instead of a table.
    """
    from unmask import languages
    from unmask.cli.output import say, show, show_grid
    from unmask.diagnosis.frontier import TEMPERATURES, USUAL, beats, frontier
    from unmask.report import frontier as report

    if out is not None:
        report.check(out)
    found = languages.load(language)
    points = frontier(
        found,
        length,
        samplers or USUAL,
        temperatures=temperatures or TEMPERATURES,
        steps=steps,
        rows=rows,
        seed=seed,
        smoothing=smoothing,
    )
    about = {"language": language, "length": length, "steps": steps, "rows": rows, "seed": seed, "smoothing": smoothing}
    files = [str(path) for path in report.publish(out, found, points, about)] if out is not None else []
    best = beats(points)
    if json:
        show(about | {"points": [point.to_dict() for point in points], "beats": best and best.setting}, True)
        return
    head = ["sampler", "T", "log perplexity", "entropy", "KL", "unigram", "SER"]
    show_grid(f"{language}, {length} tokens, nats a token", head, [_row(point) for point in points])
    own = points[0]
    if best is None:
        say("naive does not beat the language: no walk of it has both less perplexity and as much unigram entropy.")
    else:
        theirs = f"{best.cross_entropy.value:.3f} < {own.cross_entropy.value:.3f}"
        healthy = f"{best.unigram.value:.3f} >= {own.unigram.value:.3f}"
        true = f"its SER is {best.ser.value:.3g}, its KL {best.divergence.value:.3f}" if best.divergence else ""
        say(f"naive beats the language by both proxies: log perplexity {theirs}, unigram entropy {healthy};")
        say(f"{true}.")
    print("\n".join(files), end="\n" if files else "")


def _row(point: Point) -> list[str]:
    sign = "" if point.exact else "~"

    def told(estimate: Estimate | None, sign: str = "") -> str:
        return "-" if estimate is None else f"{sign}{estimate.value:.3f}"

    return [
        point.sampler,
        "-" if point.setting is None else f"{point.setting:g}",
        told(point.cross_entropy),
        told(point.entropy, sign),
        told(point.divergence, sign),
        told(point.unigram),
        told(point.ser),
    ]
