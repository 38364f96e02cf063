"""ESPO's rollout, a copy of d1's."""

from benchmarks.engines.adapters.d1 import rollout
from benchmarks.engines.found import Checkout

NAME, FILE, TRAINER = "ESPO rollout", "espo/espo_trainer.py", "ESPOTrainer"


def cases(checkouts):
    version, both = rollout(Checkout(checkouts, "ESPO", "github.com/ML-GSAI/ESPO"), FILE, TRAINER, attention_mask=None)
    return version, both[:1]
