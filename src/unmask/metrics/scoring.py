"""score(): anybody's samples against a language that is known exactly."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from unmask.core.estimates import Estimate
from unmask.core.samples import read_tokens
from unmask.core.shown import Shown
from unmask.core.tables import as_table
from unmask.generation import Generation
from unmask.languages import LanguageLike
from unmask.metrics.rows import YARDSTICKS, Rows, rows
from unmask.metrics.windows import Bigrams, bigrams


@dataclass(frozen=True)
class Score(Shown):
    """SER = P(q(x) = 0) and the generative perplexity 2^E[-log2 q(x)/|x|] of the valid rows, of B rows of length L.

    The perplexity is what the paper's plots call TER. It falls when a sampler repeats itself, so read it beside SER
    and the entropy of the bigrams (theory.md 2). `nll_bits_per_token` is its logarithm, the mean over rows; `_pooled`
    divides sums, which differs where sequences vary in length. Without a valid row all three are None.
    `impossible_rows` and, where a closed form has it, the Rao-Blackwellised SER are known for generations of ours only.
    """

    rows: int
    length: int
    ser: Estimate
    yardsticks: dict[str, Estimate | None]  # the others of YARDSTICKS that its rows know
    nll_bits_per_token: float | None
    nll_bits_per_token_pooled: float | None
    invalid_rows: int
    impossible_rows: int | None
    bigrams: Bigrams | None
    ser_rao_blackwell: Estimate | None

    __repr__ = as_table

    @property
    def generative_perplexity(self) -> Estimate | None:
        return self.yardsticks["generative_perplexity"]

    def to_dict(self) -> dict[str, Any]:
        """One flat object: the yardsticks stand beside the rest."""
        content = asdict(self)
        first = {name: content.pop(name) for name in ("rows", "length", "ser")}
        return first | content.pop("yardsticks") | content


def score(samples: Generation | Tensor | str | Path, language: LanguageLike, given: Tensor | None = None) -> Score:
    """SER, generative perplexity and diversity of samples (B, L), or of a file of them, on a known language.

    given: the tokens (L) or (B, L) that they continue, V where hidden; a generation of ours knows its own. Then all is
    conditional on it, and intervals are over prompts, which are as many as there are different rows of it: `n` is their
    number (metrics/rows.py).
    """
    if isinstance(samples, str | Path):
        samples = read_tokens(Path(samples))
    seen = rows(samples, language, given=given)
    language = seen.language
    told = seen.told
    asked = {name: one for name, one in YARDSTICKS.items() if name != "ser" and not one.cost}
    return Score(
        rows=len(seen),
        length=seen.tokens.shape[1],
        ser=seen.ser,
        yardsticks={name: one.of(seen) for name, one in asked.items() if one.values(seen) is not None},
        nll_bits_per_token=float(seen.bits_per_token[told].mean()) if told.any() else None,
        nll_bits_per_token_pooled=float(seen.bits[told].sum() / seen.size[told].sum()) if told.any() else None,
        invalid_rows=int((~seen.valid).sum()),
        impossible_rows=None if seen.impossible is None else int((seen.impossible > 0).sum()),
        bigrams=bigrams(seen.tokens, language, seen.given),
        ser_rao_blackwell=_by_order(samples, seen) if isinstance(samples, Generation) else None,
    )


def _by_order(made: Generation, seen: Rows) -> Estimate | None:
    """What the orders alone say of SER: of the language's own ideal denoiser, in an order fixed beforehand."""
    form = seen.language.closed_form
    if form is None or not made.planned or made.ideal is None or made.ideal.source() != seen.language.source():
        return None
    return form.ser_of_orders(made.order, seen.prompt)
