"""All benchmarks in one run: one table, the claims with those that are missed, and one JSON object as the last line.

After an interruption, the next run goes on with the part that was interrupted, unless the code has changed.
"""

from benchmarks import (
    causal,
    clusters,
    gap,
    generation,
    networks,
    open_models,
    pages,
    passes,
    scaling,
    sweeps,
    training,
    vocabulary,
)
from benchmarks.timing import main

if __name__ == "__main__":
    main(
        __doc__,
        passes.measure,
        causal.measure,
        generation.measure,
        scaling.measure,
        networks.measure,
        gap.measure,
        training.measure,
        sweeps.measure,
        clusters.measure,
        vocabulary.measure,
        open_models.measure,
        pages.measure,
    )
