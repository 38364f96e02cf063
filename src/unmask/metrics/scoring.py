"""score(): measure samples from any source against an exactly known language."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

from torch import Tensor

from unmask.core.errors import unknown
from unmask.core.estimates import Estimate, passes
from unmask.core.samples import read_account, read_tokens
from unmask.core.tables import Row, as_html, as_table
from unmask.languages import LanguageLike
from unmask.metrics.rows import METRICS, Rows, bits_per_token, rows
from unmask.metrics.windows import Bigrams, bigrams
from unmask.samplers import Generation

NO_TER = (
    "a score of sequences has no ter; expected a sampler, whose TER `unmask.board` measures. For the fluency of "
    "sequences, read generative_perplexity"
)


@dataclass(frozen=True)
class Score:
    """SER = P(q(x) = 0) and the generative perplexity 2^E[-log2 q(x)/|x|] of the valid rows, of B rows of length L.

    The paper's plots call the perplexity TER. It is low for repetitive samples, so read it together with SER and the
    entropy of the bigrams (theory.md 2). `nll_bits_per_token` is its logarithm, the mean over rows; `_pooled` divides
    sums, which differs if sequences vary in length. Without a valid row all three have the value None.
    The Rao-Blackwellised SER (for closed forms) is known only for a Generation.
    """

    rows: int
    length: int
    ser: Estimate
    metrics: dict[str, Estimate | None]  # the other METRICS that apply to the rows
    nll_bits_per_token: float | None
    nll_bits_per_token_pooled: float | None
    impossible_rows: int  # q(x) = 0
    bigrams: Bigrams | None
    ser_rao_blackwell: Estimate | None
    pass_at: dict[int, Estimate]  # with several rows a prompt: whether one of k is possible
    likelihood: dict[str, Any] | None = None  # under a sampler: `nats`, whether it is exact, and its settings

    __repr__, _repr_html_ = as_table, as_html

    def __getattr__(self, name: str) -> NoReturn:
        """An error that names the nearest attribute."""
        nearest = unknown("attribute of a score:", name, [*self.__dataclass_fields__, "generative_perplexity"])
        raise AttributeError(NO_TER if name == "ter" else str(nearest))

    def table(self) -> list[Row]:
        """The error rate, then the perplexity, which is also low for repetition, and the entropy."""
        rows = [("sequences", f"{self.rows} of {self.length} tokens"), ("impossible (SER)", self.ser.percent)]
        for k, one in self.pass_at.items():
            rows.append((f"pass@{k}", one.percent))

        own = self.generative_perplexity
        rows.append(("perplexity", "not defined: no sequence is possible" if own is None else str(own)))
        if self.bigrams is not None:
            entropy, of_language = self.bigrams.entropy_bits, self.bigrams.entropy_bits_of_language
            rows.append(("bigram entropy", f"{entropy:.4g} bits; the language's own: {of_language:.4g} bits"))

        for name, metric in METRICS.items():
            value = self.metrics.get(name)
            if metric.label and value is not None:
                rows.append((metric.label, value.percent if metric.events or metric.fraction else str(value)))
        return rows

    @property
    def generative_perplexity(self) -> Estimate | None:
        return self.metrics["generative_perplexity"]

    def to_dict(self) -> dict[str, Any]:
        """One flat object, with the metrics at the top level."""
        content = asdict(self)
        content["pass_at"] = {str(k): one for k, one in content["pass_at"].items()}
        if self.likelihood is None:
            del content["likelihood"]
        first = {name: content.pop(name) for name in ("rows", "length", "ser")}
        return first | content.pop("metrics") | content


def score(
    samples: Generation | Tensor | str | Path,
    language: LanguageLike,
    given: Tensor | None = None,
    chosen_among: int | None = None,
) -> Score:
    """Measure SER, generative perplexity and diversity of samples (B, L), or of a file of them, on a known language.

    given: the tokens (L) or (B, L) that they continue, V where hidden. (default: those of the Generation) Then all is
    conditional on it, and intervals are over prompts, the distinct rows of given: `n` is their number
    (metrics/rows.py).
    chosen_among: consecutive rows that a joint draw chose among each other: intervals are over such groups. (default:
    that of the Generation, or of the record of the file)
    """
    if isinstance(samples, str | Path):
        path = Path(samples)
        samples = read_tokens(path)
        if chosen_among is None:
            chosen_among = read_account(path, samples).get("chosen_among")

    scored = rows(samples, language, given=given, chosen_among=chosen_among)
    language = scored.language

    metrics = {}
    for name, one in METRICS.items():
        if name != "ser" and not one.cost and one.values(scored) is not None:
            metrics[name] = one.of(scored)

    mean = pooled = None
    bits = bits_per_token(scored)
    some = ~bits.isnan()
    if some.any():
        mean = float(bits[some].mean())
        pooled = float(scored.bits[some].sum() / scored.size[some].sum())

    return Score(
        rows=len(scored),
        length=scored.tokens.shape[1],
        ser=scored.ser,
        metrics=metrics,
        nll_bits_per_token=mean,
        nll_bits_per_token_pooled=pooled,
        impossible_rows=int((~scored.valid).sum()),
        bigrams=bigrams(scored.tokens, language, scored.given),
        ser_rao_blackwell=_by_order(samples, scored) if isinstance(samples, Generation) else None,
        pass_at={} if scored.prompt is None else passes(scored.valid, scored.prompt),
    )


def _by_order(generation: Generation, scored: Rows) -> Estimate | None:
    """SER given the orders alone, for the language's own ideal denoiser with a fixed order and independent draws."""
    if "draw" in generation.configuration:
        return None
    form = scored.language.closed_form
    source = scored.language.source()
    if form is None or not generation.planned or generation.ideal is None or generation.ideal.source() != source:
        return None
    return form.ser_of_orders(generation.order, scored.groups)
