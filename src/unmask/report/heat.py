"""The transition matrix of a chain as a heat map, in the color of the text around it: readable on any background."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from unmask.core.arguments import refuse
from unmask.languages import NGram

MOST_DRAWN = 40  # symbols
NAME = '<text x="{x}" y="{y}" font-size=".6" text-anchor="middle" stroke="none">{name}</text>'
CELL = '<path d="M{j} {i}h1v1h-1z" fill-opacity="{p:.3f}"><title>{next} after {last}: {p:.3g}</title></path>'
SVG = """<svg viewBox="-1 -1 {size} {size}" width="{pixels}" fill="currentColor" stroke="currentColor"
stroke-width=".01" role="img" aria-label="Probability of a symbol, a column, after a row's">{inside}</svg>"""


@dataclass(frozen=True)
class HeatMap:
    """The probability of each symbol, a column, after each other one, a row; a notebook draws it."""

    language: NGram

    def __post_init__(self) -> None:
        if not isinstance(self.language, NGram) or self.language.order != 2 or self.language.vocabulary > MOST_DRAWN:
            refuse("the language of a heat map", self.language, f"a 2-gram of at most {MOST_DRAWN} symbols")

    def _repr_html_(self) -> str:
        symbols = range(self.language.vocabulary)
        names = [escape(self.language.render([token])) for token in symbols]

        parts = []
        for i in symbols:
            parts.append(NAME.format(x=i + 0.5, y=-0.3, name=names[i]))
            parts.append(NAME.format(x=-0.5, y=i + 0.7, name=names[i]))
            for j in symbols:
                p = self.language.transition[i, j]
                parts.append(CELL.format(i=i, j=j, p=p, last=names[i], next=names[j]))

        size = self.language.vocabulary
        return SVG.format(size=size + 1.2, pixels=24 * (size + 1), inside="".join(parts))
