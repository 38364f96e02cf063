"""The yardsticks: SER, TER and its bound, generative perplexity, diversity; every measured number is an Estimate."""

from unmask.metrics.enumeration import output_law, sequences
from unmask.metrics.interval import exact_ser, exact_ter, rao_blackwell_ser
from unmask.metrics.rows import YARDSTICKS, Rows, Yardstick, rows
from unmask.metrics.scoring import Score, score
from unmask.metrics.ter import ter, ter_autoregressive
from unmask.metrics.windows import Bigrams, bigrams, total_variation, window_counts

__all__ = [
    "YARDSTICKS",
    "Bigrams",
    "Rows",
    "Score",
    "Yardstick",
    "bigrams",
    "exact_ser",
    "exact_ter",
    "output_law",
    "rao_blackwell_ser",
    "rows",
    "score",
    "sequences",
    "ter",
    "ter_autoregressive",
    "total_variation",
    "window_counts",
]
