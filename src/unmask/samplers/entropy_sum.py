"""The entropy-sum rule (Cai and Li, arXiv 2603.22248; theory.md 10): reveal until the entropy revealed is enough.

Take the hidden positions one after another, and reveal them until their cumulative entropy (nats, all given what was
revealed before the round) exceeds a threshold; the position that crosses it is the last. The ideal denoiser then errs
by at most the threshold a round, and needs about H(X) / threshold rounds: fewer where the language says less.

The order in which positions are taken is ours to choose: uniformly random ("chance"), or the surest first. By entropy
the largest is the last, sum H - max H is the sum before it, and the rule is EB's with gamma = threshold.
"""

from dataclasses import dataclass

import torch

from unmask.samplers import checks
from unmask.samplers.contract import SAMPLERS, Choice, Sampler, View
from unmask.samplers.ranking import RESOLUTION, SCORES, arranged, check_ranking, chosen, entropy, in_order


@SAMPLERS.register("entropy-sum")
@dataclass(frozen=True)
class EntropySum(Sampler):
    """Reveal until the cumulative entropy exceeds a threshold in nats; steps and schedule are not used."""

    pace = "free"
    threshold: float = 1.0
    proxy: str = "chance"
    temperature: float = 1.0
    ties: str = "chance"

    def __post_init__(self) -> None:
        checks.number("threshold", self.threshold, unit=" of nats")
        checks.one_of("proxy", self.proxy, SCORES)
        check_ranking(self.temperature, self.ties)

    def choose(self, view: View) -> Choice:
        place = in_order(view, SCORES[self.proxy](view.probabilities), self.ties)
        along = arranged(view, entropy(view.probabilities), place)
        before = torch.nn.functional.pad(along.cumsum(1)[:, :-1], (1, 0))
        return chosen(view, view.hidden & (before.gather(1, place) <= self.threshold + RESOLUTION), self.temperature)
