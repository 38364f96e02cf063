"""DiPOD's rollout, a copy of d1's."""

from benchmarks.engines.adapters.d1 import rollout
from benchmarks.engines.found import Checkout

NAME, FILE, TRAINER = "DiPOD rollout", "language/d1/diffu-grpo/diffu_grpo_trainer.py", "DiffuGRPOTrainer"


def cases(checkouts):
    version, both = rollout(Checkout(checkouts, "DiPOD", "github.com/Astro-Eric/DiPOD-release"), FILE, TRAINER)
    return version, both[:1]
