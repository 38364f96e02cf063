"""The yardsticks: SER, TER and its bound, generative perplexity, diversity; every measured number is an Estimate."""

from unmask.metrics.enumeration import output_law, sequences
from unmask.metrics.known import ser, ter, ter_autoregressive
from unmask.metrics.rows import YARDSTICKS, Rows, Yardstick, rows
from unmask.metrics.scoring import Score, score
from unmask.metrics.windows import Bigrams, bigrams, total_variation, window_counts

__all__ = [
    "YARDSTICKS",
    "Bigrams",
    "Rows",
    "Score",
    "Yardstick",
    "bigrams",
    "output_law",
    "rows",
    "score",
    "sequences",
    "ser",
    "ter",
    "ter_autoregressive",
    "total_variation",
    "window_counts",
]
