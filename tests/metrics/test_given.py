"""Conditional metrics against enumeration, and intervals over prompts.

Statistical tests have fixed seeds; chi-squares and bounds of five standard errors raise a false alarm in 10^6.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from tests.brute import distribution, p_value, sequences, tiny_languages
from unmask import UnmaskError, generate, metrics, prompts, score
from unmask.core.estimates import proportion, share
from unmask.core.means import mean
from unmask.denoisers import Ideal, Perturbed
from unmask.languages import Interval, load, random_ngram
from unmask.metrics.rows import own_sizes, prompt_numbers
from unmask.samplers.schedules import deltas
from unmask.theory.curves import weights
from unmask.theory.sampled import information_curve

LANGUAGE = random_ngram(2, 3, temperature=2.0, threshold=0.15, seed=2)
LENGTH, V = 4, 3
EVERY = torch.from_numpy(sequences(V, LENGTH))
BEST = [int(token) for token in EVERY[distribution(LANGUAGE, LENGTH).argmax()]]
PATTERNS = {
    "a prefix": [BEST[0], V, V, V],
    "a suffix": [V, V, BEST[2], BEST[3]],
    "the middle": [V, BEST[1], V, V],
    "both ends": [BEST[0], V, V, BEST[3]],
    "nothing": [V] * 4,
}
ALARM = 1e-6


def conditional(pattern):
    """q(x | c) of every x."""
    agrees = ((torch.tensor(pattern) == V) | (torch.tensor(pattern) == EVERY)).all(1).numpy()
    mass = distribution(LANGUAGE, LENGTH) * agrees
    return mass / mass.sum()


def by_labels(pattern, delta):
    """p(x | c) of every x: a sum over all steps that the hidden positions may have; and E_x[-log p_tau(x | c)]."""
    hidden = [j for j in range(LENGTH) if pattern[j] == V]
    agrees = ((torch.tensor(pattern) == V) | (torch.tensor(pattern) == EVERY)).all(1).double()
    total, nats = torch.zeros(len(EVERY)), 0.0
    q = torch.from_numpy(conditional(pattern))
    for labels in itertools.product(range(len(delta)), repeat=len(hidden)):
        weight = math.prod(float(delta[k]) for k in labels)
        mass = agrees.clone()
        for k in range(len(delta)):
            shown = torch.tensor([pattern[j] != V or labels[hidden.index(j)] < k for j in range(LENGTH)])
            answer = Ideal(LANGUAGE).posterior(torch.where(shown, EVERY, V)).gather(2, EVERY.unsqueeze(2)).squeeze(2)
            for j in (j for j, label in zip(hidden, labels, strict=True) if label == k):
                mass = mass * answer[:, j]
        total = total + weight * mass
        nats += weight * float(torch.where(q > 0, -q * mass.log(), 0.0).sum())
    return total, nats


@pytest.mark.sampled(4)
@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS)
def test_the_conditional_law(pattern):
    for schedule, steps in (("linear", 1), ("cosine", 2), ("linear", 3)):
        delta = deltas(schedule, steps)
        p = metrics.output_distribution(Ideal(LANGUAGE), LENGTH, delta, torch.tensor(pattern))
        torch.testing.assert_close(p, by_labels(pattern, delta)[0], atol=1e-12, rtol=0)
        made = generate(LANGUAGE, schedule=schedule, steps=steps, length=LENGTH, rows=20_000, given=pattern)
        assert p_value(made.tokens.numpy(), EVERY.numpy(), p.numpy()) > ALARM


@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS)
def test_conditional_ter_of_autoregression(pattern):
    q, given = torch.from_numpy(conditional(pattern)), torch.tensor(pattern)
    own = metrics.ter_autoregressive(LANGUAGE, LENGTH, given)
    assert own.exact
    assert own.value == pytest.approx(2 ** float(-torch.xlogy(q, q).sum() / math.log(2) / pattern.count(V)), abs=1e-10)


def test_ser_of_the_interval_language_is_its_closed_form_and_the_enumeration():
    for language, length, steps in ((Interval(2), 4, 2), (Interval(3), 4, 3)):
        p = metrics.output_distribution(Ideal(language), length, deltas("cosine", steps))
        wrong = float(p[~language.supports(metrics.sequences(language.vocabulary, length))].sum())
        assert metrics.ser(language, length, "cosine", steps).value == pytest.approx(wrong, abs=1e-12)
    with pytest.raises(UnmaskError, match=r"no exact SER for hmm at length 64\. Measure it with score"):
        metrics.ser(load("sparse-hmm"), 64, "linear", 8)


def test_ter_is_the_mean_over_prompts():
    """In bits a token, each prompt by its own number of hidden positions; rows of one prompt are one."""
    rows = torch.tensor([PATTERNS["a prefix"], PATTERNS["both ends"], PATTERNS["both ends"]])
    metric = metrics.ter_autoregressive
    each = [math.log2(metric(LANGUAGE, LENGTH, row).value) for row in rows]
    together = metric(LANGUAGE, LENGTH, rows)
    assert together.value == pytest.approx(2 ** np.mean(each))
    assert together.n == 2
    assert together.low < together.value < together.high


def test_ter_of_an_ambiguous_language_is_estimated():
    """Its entropy has no closed form: another draw for each prompt."""
    language, length = tiny_languages()["hmm, sparse"][0], 4
    drawn = language.sample(60, length, seed=3)
    drawn[:, 2:] = language.vocabulary
    every = torch.from_numpy(sequences(language.vocabulary, length))
    bits = []
    for row in drawn:
        q = language.log_prob(every, row).exp()
        bits.append(float(-torch.xlogy(q, q).sum()) / math.log(2) / 2)
    ours = metrics.ter_autoregressive(language, length, drawn)
    assert abs(math.log2(ours.value) - np.mean(bits)) < 0.05


@pytest.mark.sampled(4)
@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS)
@pytest.mark.parametrize("denoiser", [None, Perturbed(LANGUAGE, "leak", 0.0)], ids=["entropies", "surprisals"])
def test_the_profile_given_tokens(pattern, denoiser):
    profile = information_curve(LANGUAGE, LENGTH, rows=4000, seed=1, denoiser=denoiser, given=torch.tensor(pattern))
    delta = deltas("linear", 2)
    ours = profile.nelbo(delta)
    nats = by_labels(pattern, delta)[1]
    assert abs(ours.value - nats) < 5 * ours.standard_error + 1e-9
    q = conditional(pattern)
    missing = profile.divergence(delta)
    assert abs(missing.value - (nats + np.log(q[q > 0]) @ q[q > 0])) < 5 * missing.standard_error + 1e-9
    bound = profile.ter_upper("linear", 2)
    p = by_labels(pattern, delta)[0].numpy()
    assert bound.high > 2 ** -(q[q > 0] @ np.log2(p[q > 0]) / pattern.count(V))
    assert bound.value == pytest.approx(math.exp(ours.value / pattern.count(V)))


def test_a_profile_given_nothing_is_the_profile():
    free, blank = (information_curve(LANGUAGE, LENGTH, rows=50, given=g) for g in (None, torch.full((LENGTH,), V)))
    assert np.array_equal(free.terms, blank.terms)
    assert np.array_equal(free.f, blank.f)
    for fixed in (False, True):
        assert free.ter_upper("linear", 3, fixed_size=fixed).value == pytest.approx(
            blank.ter_upper("linear", 3, fixed_size=fixed).value
        )


def test_a_profile_of_prompts_of_several_lengths():
    """Rows pay by their own number of hidden positions: the mean of what each kind of row pays alone."""
    kinds = [torch.tensor(PATTERNS[name]) for name in ("a prefix", "both ends", "nothing")]
    delta = deltas("cosine", 3)
    mixed = information_curve(LANGUAGE, LENGTH, rows=6000, seed=2, given=torch.stack(kinds * 2000))
    alone = [information_curve(LANGUAGE, LENGTH, rows=2000, seed=3, given=kind) for kind in kinds]
    for fixed in (False, True):
        each = [profile.nelbo(delta, fixed_size=fixed) for profile in alone]
        ours = mixed.rows.paid(lambda length, fixed=fixed: weights(length, delta, fixed))
        for number, one in enumerate(each):
            part = mean(ours[number::3])
            assert abs(part.value - one.value) < 5 * math.hypot(part.standard_error, one.standard_error)
    assert mixed.nelbo(delta).n == 3
    assert mixed.f[3] == pytest.approx(mixed.terms[2::3, 3].mean(), rel=1e-12)  # only rows that hide all have a fourth


def test_profile_refusals():
    with pytest.raises(UnmaskError, match="given row 0 has no hidden position; expected at least one"):
        information_curve(LANGUAGE, LENGTH, given=torch.tensor(BEST))
    with pytest.raises(UnmaskError, match="given has shape"):
        information_curve(LANGUAGE, LENGTH, given=torch.full((3, LENGTH), V))


@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS)
def test_conditional_ser_and_perplexity(pattern):
    made = generate(LANGUAGE, steps=2, length=LENGTH, rows=8000, given=pattern, seed=5)
    ours = score(made, LANGUAGE)
    p, q = by_labels(pattern, deltas("linear", 2))[0].numpy(), conditional(pattern)
    wrong = p[q == 0].sum()
    assert abs(ours.ser.value - wrong) < 5 * math.sqrt(wrong * (1 - wrong) / 8000) + 1e-12
    bits = -np.log2(np.where(q > 0, q, 1)) / pattern.count(V)
    valid = p / (1 - wrong) * (q > 0)
    assert abs(ours.nll_bits_per_token - valid @ bits) < 5 * math.sqrt((valid @ bits**2) / 8000)
    assert ours.ser.n == 8000  # all rows have one prompt, and are independent given it
    plain = score(made.tokens, LANGUAGE, torch.tensor(pattern))
    assert (plain.ser, plain.generative_perplexity) == (ours.ser, ours.generative_perplexity)
    assert plain.bigrams == ours.bigrams


def test_a_row_that_changes_what_was_given_is_wrong():
    x = torch.tensor([BEST, BEST])
    last = [[V, V, V, token] for token in range(V) if token != BEST[3]]
    other = next(given for given in last if LANGUAGE.log_evidence(torch.tensor([given])) > -math.inf)
    given = torch.tensor([[BEST[0], V, V, V], other])
    ours = score(x, LANGUAGE, given)
    assert ours.ser.value == 0.5
    assert ours.impossible_rows == 1
    assert score(x, LANGUAGE).impossible_rows == 0


def test_prompts_are_what_is_independent():
    """200 prompts with 4 rows each: the interval is wider than that of 800 rows, and as wide as that of 200 means."""
    language = load("sparse-hmm")
    given = prompts(language, 800, 24, 22, rows_per_prompt=4, seed=3)
    given.view(100, 2, 4, 24)[:, 0, :, 12:] = 8  # every other prompt leaves more to write
    made = generate(language, steps=3, length=24, rows=800, given=given, seed=3)
    ours = score(made, language)
    wrong = ~language.supports(made.tokens)
    assert ours.ser.value == float(wrong.double().mean())
    assert (ours.ser.n, ours.ser.method) == (200, "gaffke by prompt")
    between = mean(wrong.double().view(200, 4).mean(1))
    assert ours.ser.standard_error == pytest.approx(between.standard_error, rel=0.06)
    assert ours.ser.standard_error > 1.3 * proportion(int(wrong.sum()), 800).standard_error
    bits = -language.log_prob(made.tokens, given) / math.log(2) / (given == 8).sum(1)
    per_token = mean(bits[~wrong], groups=prompt_numbers(given)[~wrong])
    assert ours.generative_perplexity == per_token.map(lambda value: 2**value)


def test_rows_given_whole_are_right_and_tell_nothing():
    x = torch.tensor([BEST, BEST])
    given = torch.tensor([BEST, PATTERNS["a prefix"]])
    assert (
        score(x, LANGUAGE, given).generative_perplexity.value
        == score(x[1:], LANGUAGE, given[1]).generative_perplexity.value
    )
    whole = score(x, LANGUAGE, torch.tensor(BEST))
    assert (whole.ser.value, whole.generative_perplexity, whole.bigrams) == (0, None, None)


def test_own_sizes_of_varying_length():
    language, length = tiny_languages()["brackets, 1 kind, stop"]
    possible = torch.from_numpy(sequences(language.vocabulary, length)[distribution(language, length) > 0])
    given = possible.clone()
    given[:, 1:] = language.vocabulary
    ours = own_sizes(language, possible, given)
    assert torch.equal(ours, language.sizes(possible) - 1)
    ours = score(possible, language, given)
    told = language.sizes(possible) > 1
    bits = -language.log_prob(possible, given)[told] / math.log(2) / (language.sizes(possible)[told] - 1)
    assert ours.nll_bits_per_token == pytest.approx(float(bits.mean()))
    assert (
        information_curve(language, length, rows=200, given=given[:1].expand(200, -1)).ter_upper("linear", 4).value > 1
    )


def test_bigrams_given_tokens():
    """Perfect samples are as far as the floor; those that ignore the prompt, or repeat themselves, are further."""
    language = load("paper-2gram")
    given = prompts(language, 600, 20, 10, seed=1)
    given[:, 15] = language.sample(600, 20, seed=9, given=given)[:, 15]
    perfect = metrics.bigrams(language.sample(600, 20, seed=4, given=given), language, given)
    assert perfect.total_variation.low < perfect.total_variation_floor < perfect.total_variation.high
    assert perfect.entropy_bits == pytest.approx(perfect.entropy_bits_of_language, abs=0.05)
    greedy = generate(
        language,
        sampler="autoregressive",
        temperature=0.0,
        length=20,
        rows=600,
        given=given[0, :10].tolist() + [8] * 10,
    )
    repeated = metrics.bigrams(greedy.tokens, language, greedy.given)
    assert repeated.entropy_bits < repeated.entropy_bits_of_language - 0.3
    assert repeated.total_variation.low > repeated.total_variation_floor


def test_only_pairs_with_a_hidden_token_are_counted():
    x = torch.tensor([[0, 1, 2, 0]])
    where = (torch.tensor([[0, 1, V, 0]]) == V).unfold(1, 2, 1).any(2)
    counts = metrics.window_counts(x, V, 2, where=where)[0]
    assert counts.nonzero().squeeze(1).tolist() == [1 * V + 2, 2 * V + 0]


def test_orders_and_prompts_of_the_interval_language():
    language = Interval(3)
    given = prompts(language, 400, 9, 4, rows_per_prompt=2)
    made = generate(language, steps=3, length=9, rows=400, given=given)
    ours = score(made, language)
    assert (ours.ser_rao_blackwell.n, ours.ser_rao_blackwell.method) == (
        len(given.unique(dim=0)),
        "rao-blackwell by prompt",
    )
    assert abs(ours.ser.value - ours.ser_rao_blackwell.value) < 5 * ours.ser.standard_error


@pytest.mark.long
@pytest.mark.parametrize("times", [250, pytest.param(1000, marks=pytest.mark.long)])
def test_the_interval_of_groups_covers(times):
    """Groups of 5 that share a rate from a Beta law: 95% intervals cover at 95%, those of independent rows do not."""
    rng = np.random.default_rng(1)
    groups = torch.arange(60).repeat_interleave(5)
    covered = {"by group": 0, "as if independent": 0, "mean": 0}
    for _ in range(times):
        rates = rng.beta(0.5, 1.5, 60).repeat(5)
        events = torch.from_numpy(rng.random(300) < rates)
        for name, ours in (
            ("by group", share(events, groups)),
            ("as if independent", share(events)),
            ("mean", mean(events.double(), groups=groups)),
        ):
            covered[name] += ours.low <= 0.25 <= ours.high
    error = math.sqrt(0.95 * 0.05 / times)
    for name in ("by group", "mean"):
        assert abs(covered[name] / times - 0.95) < 5 * error
    assert covered["as if independent"] / times < 0.95 - 5 * error


def test_none_and_all_in_groups():
    """A group counts once: the limit is that of so many independent rows, whatever its rows have in common."""
    groups = torch.arange(50).repeat_interleave(4)
    none, every = (share(torch.full((200,), value), groups) for value in (False, True))
    assert (none.high, none.n) == (pytest.approx(proportion(0, 50).high), 50)
    assert (every.low, every.value) == (pytest.approx(proportion(50, 50).low), 1.0)
    assert str(none) == "< 0.071 (none in 50 groups)"


def test_prompts_are_numbered_by_row():
    language = load("interval-5")
    whole = prompts(language, 20, 10, 4, rows_per_prompt=3, seed=5)
    assert torch.equal(
        whole,
        torch.cat(
            [
                prompts(language, 7, 10, 4, rows_per_prompt=3, seed=5),
                prompts(language, 13, 10, 4, rows_per_prompt=3, seed=5, first_row=7),
            ]
        ),
    )
    assert torch.equal(whole[:, :4], language.sample(7, 10, seed=5).repeat_interleave(3, 0)[:20, :4])
    assert bool((whole[:, 4:] == 16).all())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prompt_length": 11}, "prompt_length is 11; expected 0 to 10"),
        ({"prompt_length": 3, "rows_per_prompt": 0}, "rows_per_prompt is 0"),
    ],
)
def test_prompts_refusals(options, message):
    with pytest.raises(UnmaskError, match=message):
        prompts(load("interval-5"), 4, 10, **options)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([0, 1, 2], r"given has shape \(1, 3\); expected \(4,\) or \(2, 4\)"),
        ([0, 1, 2, 4], r"given row 0, position 3: token is 4; expected 0 to 3, 3 for hidden"),
        ([[3, 3, 3, 3], [3, -1, 3, 3]], r"given row 1, position 1: token is -1"),
        ([0.5, 1, 2, 3], "given tokens are float64; expected integers"),
        ([[0, 3, 3], [1, 2], [3]], "given has 3 rows of different lengths; .* Leave rows and length out"),
    ],
)
@pytest.mark.parametrize("kind", ["a denoiser", "its language"])
def test_what_cannot_be_given(given, message, kind):
    """A denoiser that knows no language says the same; a language adds what is impossible."""
    source = Perturbed(LANGUAGE, "tilt", 0.1)
    if kind == "a denoiser":
        source.language = None
    else:
        message = f"{message}|given has shape|tokens have shape|token 4|token -1"
    with pytest.raises(UnmaskError, match=message):
        generate(source, length=LENGTH, rows=2, given=given)


@pytest.mark.parametrize("sampler", ["ancestral", "speculative", "low-confidence"])
def test_a_generation_knows_what_it_was_given(sampler, tmp_path, monkeypatch):
    """Also where a whole block of rows was given everything, and asked for nothing."""
    monkeypatch.setattr(Ideal, "rows_at_once", lambda *_: 2)
    given = LANGUAGE.sample(6, LENGTH)
    given[2:, 1:] = V
    made = generate(LANGUAGE, sampler=sampler, steps=2, length=LENGTH, rows=6, given=given)
    assert torch.equal(made.given, given)
    assert torch.equal(
        made.tokens, generate(LANGUAGE, sampler=sampler, steps=2, length=LENGTH, rows=6, given=made.given).tokens
    )
    assert torch.equal(made.model_calls, sum(made.model_calls_of.values()))
    made.save(tmp_path / "s.npy")
    assert np.load(tmp_path / "s.given.npy").tolist() == given.tolist()


def test_one_group_of_particles_does_not_contradict_another():
    """Rows that were chosen among each other count once, given one prompt too; rows of one prompt alone are many."""
    draw = "given(constraint=regex(pattern='.*0'),particles=64)"
    scores = [
        score(generate("paper-2gram", draw=draw, rows=64, length=10, steps=3, seed=seed), "paper-2gram")
        for seed in range(3)
    ]
    assert max(one.ser.low for one in scores) < min(one.ser.high for one in scores)
    assert {one.ser.n for one in scores} == {one.generative_perplexity.n for one in scores} == {1}
    assert str(scores[0].ser) == "< 0.97 (none in 1 group)"
    assert str(scores[1].ser).endswith("] (one group of dependent rows)")
    assert str(scores[1].generative_perplexity).endswith("(no interval: only 1 group; 20 needed)")

    tokens = EVERY[EVERY[:, 0] == BEST[0]]
    for given in (None, torch.tensor([BEST[0], V, V, V])):
        assert score(tokens, LANGUAGE, given, chosen_among=100).ser.n == 1
        assert score(tokens, LANGUAGE, given).ser.n == 27
