"""SPG's rollout, a copy of d1's."""

from benchmarks.engines.adapters.d1 import rollout
from benchmarks.engines.found import Checkout

NAME, FILE, TRAINER = "SPG rollout", "spg/spg_trainer.py", "SPGTrainer"


def cases(checkouts):
    version, both = rollout(Checkout(checkouts, "SPG", "github.com/facebookresearch/SPG"), FILE, TRAINER)
    return version, both[:1]
