"""wd1's rollout, a copy of d1's."""

from benchmarks.engines.adapters.d1 import rollout
from benchmarks.engines.found import Checkout

NAME, FILE, TRAINER = "wd1 rollout", "wd1/trainers/rev_grpo_trainer.py", "RevDiffuGRPOTrainer"


def cases(checkouts):
    version, both = rollout(Checkout(checkouts, "wd1", "github.com/xiaohangt/wd1"), FILE, TRAINER)
    return version, both[:1]
