"""Samplers by how they work: one colour for what works alike, in every figure."""

from __future__ import annotations

from unmask.report.frame import GREY

ORACLES = ("best-order", "clairvoyant")  # which ask the language itself: dashed
BY_PACE = ("localleap", "deferred", "adaptive-blocks", "multi-block", "klass", "settled", "credit", "slowfast", "sched")
KINDS = {  # one colour for what works alike; a line is told apart by its name
    "#0077bb": ("ancestral", "fixed-size", "first-hitting", "blocks", "as-published-mdlm"),
    "#009988": ("left-to-right", "strided", "dyadic", "block-strided", "dilated"),
    "#ee3377": ("low-confidence", "top-probability", "margin", "entropy", "pc-sampler", "info-gain"),
    "#ee7733": ("threshold", "factor", "entropy-bounded", "entropy-sum", "punt", *BY_PACE),
    "#8c6bb1": ("remdm", "gibbs", "verify-and-restart"),
    GREY: ("speculative", "self-speculative", *ORACLES, "autoregressive"),
}
OWN = "#bb5566"  # of a sampler that is not ours


def bare(specification: str) -> str:
    """A sampler's name without its options."""
    return specification.partition("(")[0]


def colour(specification: str) -> str:
    return next((colour for colour, names in KINDS.items() if bare(specification) in names), OWN)
