"""The distribution of a sampler against an independent enumeration, against sampling, and its gradient."""

from __future__ import annotations

import pytest
import torch

from tests import brute
from tests.diagnosis.enumerated import Free, laws
from tests.diagnosis.noisy import CHAIN3, Noisy, chain
from tests.doubles import Quarters
from unmask import UnmaskError, generate
from unmask.diagnosis.contexts import Contexts
from unmask.diagnosis.enumeration import enumerated
from unmask.metrics import output_distribution
from unmask.samplers.contract import Choice, Sampler, as_sampler
from unmask.samplers.schedules import deltas

L, V = 3, 3
LOW = "low-confidence(ties='position')"
RULES = {"random": "fixed-size", "surest": "top-probability(ties='position')", "drawn": LOW}


def law_of(model, sampler, steps, kept=False, length=L):
    contexts = Contexts(lambda z: model(z).log_softmax(-1), model.vocabulary, torch.full((length,), model.vocabulary))
    return enumerated(contexts, as_sampler(sampler), deltas("linear", steps), kept)


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("counts", [(1, 1, 1), (2, 1), (3,)])
@pytest.mark.parametrize("rule", RULES)
def test_it_is_that_of_an_independent_enumeration(rule, counts, kept):
    model = Free(V, L, seed=1)
    found, known = law_of(model, RULES[rule], len(counts), kept), laws(model, counts, rule, kept)
    assert torch.allclose(found, known, atol=1e-14)
    reward = torch.rand(len(known), generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    ours, theirs = (torch.autograd.grad(p @ reward, model.table)[0] for p in (found, known))
    assert torch.allclose(ours, theirs, atol=1e-13)
    assert float(theirs.abs().max()) > 1e-3


def test_a_trajectory_has_the_gradient_of_the_law_if_tokens_do_not_decide():
    model = Free(V, L, seed=3)
    reward = torch.rand(V**L, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    for rule, sampler in RULES.items():
        one, two = (torch.autograd.grad(law_of(model, sampler, 2, kept) @ reward, model.table)[0] for kept in (0, 1))
        assert torch.allclose(one, two, atol=1e-14) == (rule != "drawn")


def test_ancestral_is_the_output_distribution():
    denoiser = Noisy(chain(CHAIN3), 4)
    contexts = Contexts(lambda z: denoiser.probabilities(z).log(), 3, torch.full((4,), 3))
    delta = deltas("cosine", 3)
    assert torch.allclose(enumerated(contexts, as_sampler("ancestral"), delta), output_distribution(denoiser, 4, delta))


@pytest.mark.parametrize(
    "sampler",
    ["p2(ties='position')", "wino(ties='position', threshold=0.4)", f'blocks(block_length=2, inner="{LOW}")', "dyadic"],
)
def test_samples_have_this_distribution(sampler):
    """A false alarm in 1e-6 each; 4,000 rows. The reversed one fails."""
    denoiser = Noisy(chain(CHAIN3), 4)
    contexts = Contexts(lambda z: denoiser.probabilities(z).log(), 3, torch.full((4,), 3))
    p = enumerated(contexts, as_sampler(sampler), deltas("linear", 2)).numpy()
    made = generate(denoiser, sampler=sampler, steps=2, rows=4000, length=4, seed=5).tokens.numpy()
    assert p.sum() == pytest.approx(1)
    assert brute.p_value(made, contexts.texts.numpy(), p) > 1e-6
    assert brute.p_value(made, contexts.texts.numpy(), p[::-1].copy()) < 1e-6


def test_given_tokens_stay():
    model = Free(V, 4, seed=4)
    start = torch.tensor([3, 1, 3, 3])
    contexts = Contexts(lambda z: model(z).log_softmax(-1), V, start)
    p = enumerated(contexts, as_sampler(LOW), deltas("linear", 2)).detach()
    assert len(p) == 27
    assert float(p.sum()) == pytest.approx(1)
    assert set(contexts.texts[:, 1].tolist()) == {1}


class Sure(Sampler):
    """Hides nothing, but asks how sure it was."""

    def choose(self, view):
        return Choice(view.hidden & (view.certainty > 0))


def test_what_a_context_does_not_tell_is_refused():
    with pytest.raises(UnmaskError, match="uses the probabilities at which tokens were revealed"):
        law_of(Free(V, L), Sure(), 1)


def test_ties_and_sizes_are_told():
    quarters = Quarters(2, L, seed=1)
    contexts = Contexts(lambda z: quarters.posterior(z).log(), 2, torch.full((L,), 2))
    with pytest.raises(UnmaskError, match="chance decides between equal scores; expected ties='position'"):
        enumerated(contexts, as_sampler("low-confidence"), deltas("linear", L))
    assert float(enumerated(contexts, as_sampler(LOW), deltas("linear", L)).sum()) == pytest.approx(1)
    with pytest.raises(
        UnmaskError, match="have 16,777,216 contexts with 603,979,776 probabilities; expected at most 4,194,304"
    ):
        Contexts(lambda z: z, 3, torch.full((12,), 3))
