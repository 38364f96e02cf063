"""The EB sampler (arXiv 2505.24857; theory.md 10): as many positions as their entropies allow.

Sort the hidden positions by an error proxy, the surest first, and reveal the largest prefix U with

    sum_{i in U} H(p_i) - max_{i in U} H(p_i) <= gamma          H in nats

which one position always satisfies. For the ideal denoiser TC(X_U | x_R) <= sum H - max H <= gamma, so that the whole
divergence is at most gamma a round. gamma = 0 reveals what is certain, and one more. Steps and schedule are not used.
"""

from dataclasses import dataclass

from unmask.samplers import checks
from unmask.samplers.contract import SAMPLERS, Choice, Sampler, View
from unmask.samplers.ranking import RESOLUTION, SCORES, arranged, check_ranking, chosen, entropy, in_order


@SAMPLERS.register("entropy-bounded")
@dataclass(frozen=True)
class EntropyBounded(Sampler):
    """EB: the most positions whose entropies, but the largest, sum to at most gamma nats; steps are not used."""

    pace = "free"
    gamma: float = 0.1
    proxy: str = "entropy"
    temperature: float = 1.0
    ties: str = "chance"

    def __post_init__(self) -> None:
        checks.number("gamma", self.gamma, unit=" of nats")
        checks.one_of("proxy", self.proxy, SCORES)
        check_ranking(self.temperature, self.ties)

    def choose(self, view: View) -> Choice:
        place = in_order(view, SCORES[self.proxy](view.probabilities), self.ties)
        along = arranged(view, entropy(view.probabilities), place)
        error = along.cumsum(1) - along.cummax(1).values
        return chosen(view, view.hidden & (error.gather(1, place) <= self.gamma + RESOLUTION), self.temperature)
