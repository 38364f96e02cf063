"""Particles of a joint draw: an exact law for every number of them, their groups, and what such rows prove."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn.functional import one_hot

from tests.brute import sequences
from tests.doubles import Everywhere
from unmask import UnmaskError, generate, score
from unmask.core.samples import read_account, read_tokens
from unmask.denoisers import Ideal
from unmask.languages import Answers, NGram, automata, load
from unmask.samplers.joint import drawing, log_paths
from unmask.samplers.joint.drawing import Joint
from unmask.samplers.joint.particles import parents

LENGTH, GROUPS, M = 4, 1500, 3
CHAIN = NGram(2, [0.3, 0.3, 0.4], [[0.85, 0.1, 0.05], [0.1, 0.88, 0.02], [0.05, 0.1, 0.85]])
STRINGS = torch.from_numpy(sequences(3, LENGTH))
CONSTRAINTS = {
    "sorted": (STRINGS.diff(dim=1) >= 0).all(1),
    "sum": STRINGS.sum(1) % 3 == 0,
    "ends": STRINGS[:, 0] != STRINGS[:, -1],
}


class Contradictory(Everywhere):
    """A table of random marginals for each context: no joint distribution has them."""

    def __init__(self):
        self.vocabulary = 3
        rng = np.random.default_rng(5)
        self.table = torch.from_numpy(rng.dirichlet(np.full(3, 0.4), size=(4**LENGTH, LENGTH)))

    def marginals(self, tokens):
        return self.table[tokens @ (4 ** torch.arange(LENGTH))]


def particles(allowed, count=M):
    return Joint(automata.support(Answers(STRINGS[allowed], 3)), 0, single=False, particles=count)


def product(model, start, order, allowed):
    """(orders, allowed): the probability that independent draws write each allowed string in each order (B, L)."""
    strings = STRINGS[allowed]
    fits = ((start == 3) | (strings == start)).all(1)
    log = [log_paths(model, strings, one.expand(len(strings), -1), None) for one in order]
    return torch.stack(log).exp() * fits


@pytest.mark.parametrize("steps", [1, 2, 3, LENGTH])
@pytest.mark.parametrize("name", CONSTRAINTS)
@pytest.mark.parametrize("model", [Ideal(CHAIN), Contradictory()], ids=["chain", "contradictory"])
@pytest.mark.parametrize("start", [[3, 3, 3, 3], [3, 3, 1, 3]], ids=["", "given"])
def test_the_law_is_that_of_independent_draws_that_meet_the_constraint(monkeypatch, model, name, steps, start):
    """For any number of particles Z_0 prod_k mean(w_k) mean(f) has the mean sum_(x in A) f(x) p(x), p of the product.

    Each f is a token at a place: 24 means within 5.5 standard errors, an alarm in 1e-6 of correct runs."""
    allowed, start, weights = CONSTRAINTS[name], torch.tensor(start), torch.ones(GROUPS).double()

    def spied(log, groups, u):
        weights[groups[::M]] *= log.exp().view(-1, M).mean(1)
        return parents(log, groups, u)

    monkeypatch.setattr(drawing, "parents", spied)
    how = {"sampler": "fixed-size", "steps": min(steps, int((start == 3).sum())), "seed": steps}
    made = generate(model, **how, given=start, rows=M * GROUPS, draw=particles(allowed))
    assert made.chosen_among == M
    assert bool((made.order.view(GROUPS, M, -1) == made.order[::M, None]).all())

    p = model.posterior(start[None])[0]
    begins = torch.where(start == 3, p.gather(1, STRINGS[allowed].T).T, (STRINGS[allowed] == start).double()).prod(1)
    masses = begins.sum() * weights
    shown = one_hot(made.tokens.view(GROUPS, M, -1), 3).double().mean(1).view(GROUPS, -1)
    orders, which = made.order[::M].unique(dim=0, return_inverse=True)
    exact = product(model, start, orders, allowed) @ torch.nn.functional.one_hot(STRINGS[allowed], 3).double().flatten(
        1
    )
    apart = masses[:, None] * shown - exact[which]
    error = ((apart.var(0) + exact.mean(0) * masses.max()) / GROUPS) ** 0.5  # also of what no group has written
    assert bool((apart.mean(0).abs() <= 5.5 * error + 1e-12).all()), apart.mean(0) / error


def test_parents_are_unbiased():
    """A row has n w / sum(w) descendants on average, over a grid of the uniform."""
    log = torch.tensor([0.0, -1.0, 1.0, -torch.inf, 0.3, 2.0], dtype=torch.float64)
    groups = torch.tensor([4, 4, 4, 4, 9, 9])
    grid = 5000
    descendants = torch.zeros(6)
    for k in range(grid):
        descendants += parents(log, groups, torch.full((6,), (k + 0.5) / grid)).bincount(minlength=6)
    weights = log.exp()
    wanted = torch.cat([4 * weights[:4] / weights[:4].sum(), 2 * weights[4:] / weights[4:].sum()])
    assert torch.allclose(descendants.double() / grid, wanted, atol=2 / grid)
    assert parents(torch.zeros(6).double(), groups, torch.full((6,), 0.7)).tolist() == [0, 1, 2, 3, 4, 5]


def test_rows_do_not_depend_on_blocks(monkeypatch):
    how = {"steps": 3, "length": LENGTH, "draw": particles(CONSTRAINTS["sum"], 4), "seed": 1}
    whole = generate(CHAIN, rows=40, **how)
    monkeypatch.setattr(Ideal, "rows_at_once", lambda self, length: 6)
    parts = generate(CHAIN, rows=40, **how)
    later = generate(CHAIN, rows=20, first_row=20, **how)
    assert torch.equal(whole.tokens, parts.tokens)
    assert torch.equal(whole.tokens[20:], later.tokens)
    assert torch.equal(whole.probability, parts.probability)


def test_intervals_are_over_groups(tmp_path):
    """Also of a file: groups that agree are as many observations as there are groups."""
    language = load("paper-2gram")
    how = {"steps": 4, "length": 12, "rows": 64, "seed": 1}
    made = generate(language, draw="given(constraint=regex(pattern='[0-7]*0'), particles=16)", **how)
    made.save(tmp_path / "rows.npy")
    scored = score(made, language)
    assert scored.ser == score(tmp_path / "rows.npy", language).ser
    assert scored.ser.n == 4
    assert scored.generative_perplexity.n <= 4
    assert scored.ser.high - scored.ser.low > 1.5 * (score(made.tokens, language).ser.high - scored.ser.low) / 2
    tokens = read_tokens(tmp_path / "rows.npy")
    assert read_account(tmp_path / "rows.npy", tokens)["chosen_among"] == made.summary()["chosen_among"] == 16


@pytest.mark.parametrize(("sampler", "several"), [("ancestral", 8), ("blocks(block_length=4)", 8), ("entropy", 1)])
def test_a_constraint_alone_names_its_draw(sampler, several):
    how = {"steps": 4, "length": 8, "rows": 16, "sampler": sampler}
    made = generate("paper-2gram", draw="regex(pattern='[0-7]*00')", **how)
    assert made.chosen_among == several
    assert bool((made.tokens[:, -2:] == 0).all())
    other = "given" if several > 1 else "coupled"
    same = generate("paper-2gram", draw=f"{other}(constraint=regex(pattern='[0-7]*00'))", **how)
    assert torch.equal(made.tokens, same.tokens)


PER_ROW = [[8] * 6, [8] * 6, [1] + [8] * 5]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sampler": "entropy"}, "particles share an order that is fixed in advance; entropy chooses"),
        ({"first_row": 4}, r"rows 4, \.\. are drawn in groups of 8; expected consecutive numbers"),
        ({"given": PER_ROW, "rows": 3, "length": 6}, "rows 0 and 2 are particles of one group, and hide or were given"),
        ({"draw": "given(particles=0)"}, "particles is 0; expected at least 1"),
    ],
)
def test_bad_input(change, message):
    how = {"rows": 16, "length": 6, "steps": 3, "draw": "given"} | change
    with pytest.raises(UnmaskError, match=message):
        generate("paper-2gram", **how)


def test_it_has_no_likelihood():
    made = generate("paper-2gram", rows=16, length=6, steps=3, draw="given")
    with pytest.raises(UnmaskError, match="no likelihood of their own; expected one particle"):
        score(made, "paper-2gram", likelihood=True)
