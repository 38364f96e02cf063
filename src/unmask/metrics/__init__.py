"""Metrics: SER, TER and its bound, generative perplexity, diversity; every measured number is an Estimate."""

from unmask.metrics.exact import output_distribution, sequences, ser, ter, ter_autoregressive
from unmask.metrics.rows import METRICS, Metric, Rows, rows
from unmask.metrics.scoring import Score, score
from unmask.metrics.windows import Bigrams, bigrams, total_variation, window_counts

__all__ = [
    "METRICS",
    "Bigrams",
    "Metric",
    "Rows",
    "Score",
    "bigrams",
    "output_distribution",
    "rows",
    "score",
    "sequences",
    "ser",
    "ter",
    "ter_autoregressive",
    "total_variation",
    "window_counts",
]
