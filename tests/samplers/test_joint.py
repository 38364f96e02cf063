"""Joint draws against enumeration: laws, identities, counterexamples, and generations drawn from them.

Check values were computed by another program, with dense tables of V^L entries.
"""

from __future__ import annotations

import json
import re
from itertools import product

import numpy as np
import pytest
import torch

from benchmarks import joint_text
from tests.brute import p_value, sequences
from tests.doubles import Fixed
from tests.samplers.joints import Laws, Tables, everything, joints, log_step, sparse_chain, sparse_hidden, splits
from unmask import UnmaskError, generate
from unmask.denoisers import Denoiser, Ideal, Perturbed
from unmask.denoisers import Engine as EngineOf
from unmask.denoisers.marginals import Logits, Table
from unmask.languages import Answers, NGram, automata, load
from unmask.languages.automata import Automaton
from unmask.languages.patterns import regex
from unmask.samplers.joint import Joint
from unmask.samplers.joint.drawing import masses

CHAIN, WIDE, HIDDEN = (sparse_chain(1, 2), 6), (sparse_chain(2, 3), 6), (sparse_hidden(1), 6)
TABLE = [  # language, draw, N, SER, KL of the law, mean KL of an order
    (CHAIN, "product", 1, 0.927, 3.3184, 3.3184),
    (CHAIN, "product", 2, 0.515, 0.908, 1.2203),
    (CHAIN, "product", 3, 0.277, 0.376, 0.5880),
    (CHAIN, "coupled", 1, 0, 0.700, 0.700),
    (CHAIN, "coupled", 2, 0, 0.294, 0.5482),
    (CHAIN, "coupled", 3, 0, 0.164, 0.4804),
    (CHAIN, "coupled", 6, 0, 0.124, 0.4016),
    (CHAIN, "fitted", 1, 0, 0.2053, 0.2053),
    (CHAIN, "fitted", 2, 0, 0.061, 0.1049),
    (CHAIN, "fitted", 3, 0, 0.016, 0.0510),
    (CHAIN, "fitted", 6, 0, 0, 0),
    (CHAIN, "alone", 6, 0, 0, 0),
    (CHAIN, "soft", 1, 0, 0, 0),
    (CHAIN, "soft", 2, 0, 0, 0),
    (WIDE, "product", 1, 0.763, 1.594, 1.5942),
    (WIDE, "coupled", 1, 0, 0.153, 0.153),
    (WIDE, "coupled", 3, 0, 0.014, 0.0659),
    (WIDE, "fitted", 1, 0, 0.1462, 0.1462),
    (WIDE, "fitted", 3, 0, 0.007, 0.0293),
    (HIDDEN, "product", 2, 0.118, 0.162, 0.2477),
    (HIDDEN, "coupled", 2, 0, 0.055, 0.1250),
    (HIDDEN, "fitted", 1, 0, 0.1741, 0.1741),
    (HIDDEN, "fitted", 2, 0, 0.032, 0.0716),
    (HIDDEN, "soft", 1, 0.071, 0.139, 0.139),
    (HIDDEN, "soft", 3, 0.019, 0.024, 0.0409),
    (WIDE, "soft 3", 1, 0, 0, 0),
    (HIDDEN, "soft 3", 1, 0.014, 0.027, 0.0273),
    (HIDDEN, "soft 3", 2, 0.010, 0.016, 0.0194),
]
KNOWN = {case: Laws(*case) for case in (CHAIN, WIDE, HIDDEN)}


@pytest.mark.sampled(13)
@pytest.mark.parametrize(("case", "draw", "steps", "ser", "kl", "plan"), TABLE)
def test_laws_have_the_check_values(case, draw, steps, ser, kl, plan):
    measured = KNOWN[case].measure(joints(*case)[draw], steps)
    assert measured[0] == pytest.approx(ser, abs=6e-4)
    assert measured[2:] == pytest.approx((kl, plan), abs=1.1e-3)
    assert measured[1] >= ser - 1e-9  # a total variation below the SER is impossible


@pytest.mark.parametrize("case", [CHAIN, WIDE, HIDDEN], ids=["chain", "wide", "hidden"])
def test_pythagoras_for_a_step_that_reveals_everything(case):
    laws, joint = KNOWN[case], joints(*case, sweeps=10_000)
    excess, between, allowed = pythagoras(laws, joint, joint["fitted"])
    assert excess == pytest.approx(0, abs=1e-9)
    assert between >= -np.log(allowed) - 1e-12


def pythagoras(laws, joint, together):
    """(KL(q || product) - KL(q || J) - KL(J || product), the last of these, P(A)) of one step for everything.

    The first is 0 if J has the marginals of the product and is the nearest such joint on A."""
    every = [tuple(range(laws.length))]
    apart, log = laws.log_order(joint["product"], every), laws.log_order(together, every)
    assert np.exp(log).sum() == pytest.approx(1, abs=1e-9)
    between = float((np.exp(log) * (log - apart)).sum())
    return laws.divergence(apart) - laws.divergence(log) - between, between, np.exp(apart).sum()


def test_paths_are_not_strings():
    """An automaton whose strings weigh as many as the hidden chain has paths for them loses Pythagoras."""
    (language, length), laws = HIDDEN, KNOWN[HIDDEN]
    excess = {
        most: pythagoras(laws, joints(*HIDDEN), Joint(counting_paths(language, length, most), 10_000))[0]
        for most in (1, 10**6)
    }
    assert excess[1] == pytest.approx(0, abs=1e-9)
    assert abs(excess[10**6]) > 1e-3


def counting_paths(language, length, most):
    """The automaton of a hidden chain whose weights multiply to the number of hidden paths; most: to each state."""
    moves, emits = language.transition > 0, language.emission > 0
    start = (0, (1,) * len(moves))
    number, rows, weights = {start: 0}, [], []
    queue = [start]
    for at, counts in queue:
        rows.append([-1] * emits.shape[1])
        weights.append([0.0] * emits.shape[1])
        for symbol in range(emits.shape[1] if at < length else 0):
            here = np.array(counts) if at == 0 else np.array(counts) @ moves
            following = (at + 1, tuple(np.minimum(here * emits[:, symbol], most).tolist()))
            if sum(following[1]):
                if following not in number:
                    number[following] = len(queue)
                    queue.append(following)
                rows[-1][symbol] = number[following]
                weights[-1][symbol] = sum(following[1]) / sum(counts) if most > 1 else 1.0
    final = np.array([at == length for at, _ in queue])
    return Automaton(np.array(rows), final, np.array(weights))


def step_divergence(laws, joint, now):
    """KL(q_S || J_S) of a first step that reveals S."""
    inside = laws.strings[:, list(now)]
    _, which = inside.unique(dim=0, return_inverse=True)
    q = np.bincount(which.numpy(), laws.q)
    return float((laws.q * (np.log(q[which]) - laws.step(joint, (), now))).sum())


def listed(table):
    strings = torch.tensor([[int(c) for c in string] for string in table])
    return Laws(Answers(strings, weights=list(table.values())), strings.shape[1])


COUNTEREXAMPLES = [
    (Laws(NGram(2, [1 / 3] * 3, [[1 / 2, 1 / 2, 0], [1 / 6, 1 / 6, 2 / 3], [1 / 3] * 3]), 3), (0, 2), 0.0083),
    (listed({"000": 1, "001": 1, "010": 1, "011": 1, "100": 1, "101": 1, "110": 2}), (0, 1), 0.0129),
]


@pytest.mark.parametrize(("laws", "now", "loss"), COUNTEREXAMPLES, ids=["chain", "and-gate"])
def test_fitted_can_be_worse_than_the_product_and_alone_is_not(laws, now, loss):
    joint = joints(laws.denoiser.language, laws.length)
    assert step_divergence(laws, joint["fitted"], now) == pytest.approx(loss, abs=6e-5)
    assert step_divergence(laws, joint["product"], now) == pytest.approx(0, abs=1e-12)
    assert step_divergence(laws, joint["alone"], now) <= 1e-9


@pytest.mark.parametrize(
    ("steps", "written", "orders"),
    [
        (2, (0.472216, 0.471883), (0.6456, 0.6440)),
        (4, (0.205320, 0.205113), (0.3000, 0.3005)),
        (8, (0.094987, 0.094846), (0.1443, 0.1449)),
    ],
)
def test_a_chain_in_random_order_can_lose_by_its_orders_and_not_in_what_it_writes(steps, written, orders):
    """KL(q || p), and E KL(q || p_order), of (product, fitted): almost a cycle, with a move that is forbidden."""
    moves = [[0.0005, 0.0005, 0.999], [0.999, 0.0005, 0.0005], [0, 0.9995, 0.0005]]
    laws = Laws(NGram(2, [0.5, 0.49, 0.01], moves), 3)
    joint = joints(laws.denoiser.language, 3, sweeps=1000)
    found = [laws.in_random_order(joint[draw], steps) for draw in ("product", "fitted")]
    assert [law for law, _ in found] == pytest.approx(written, abs=5e-5)
    assert [plan for _, plan in found] == pytest.approx(orders, abs=6e-5)


def test_neighbors_of_a_chain_gain_what_their_fit_has():
    """The fitted joint of a chain is a chain of fitted pairs: two neighbors gain the information of J."""
    laws = Laws(sparse_chain(3, 2), 4)
    each = joints(laws.denoiser.language, 4, sweeps=2000)
    for now in ((0, 1), (1, 2), (2, 3)):
        pair = {draw: np.exp(laws.step(each[draw], (), now)) for draw in ("product", "fitted")}
        ratio = np.log(pair["fitted"] / pair["product"])
        seen = {
            tuple(row[list(now)].tolist()): (j, r)
            for row, j, r in zip(laws.strings, pair["fitted"], ratio, strict=True)
        }
        information = sum(j * r for j, r in seen.values())
        assert sum(j for j, _ in seen.values()) == pytest.approx(1, abs=1e-6)
        assert float(laws.q @ ratio) == pytest.approx(information, abs=1e-5)
        assert information > 0.01


def test_a_whole_law_of_fitted_can_be_worse_than_the_products():
    laws = listed({"001": 0.80, "110": 0.17, "000": 0.01, "011": 0.01, "101": 0.01})
    joint = joints(laws.denoiser.language, 3)
    found = {draw: laws.in_random_order(joint[draw], 2) for draw in ("fitted", "alone", "product")}
    assert (found["fitted"][0], found["product"][0]) == pytest.approx((0.2204, 0.2050), abs=2e-4)
    assert found["alone"][1] <= found["product"][1]
    assert [found[draw][1] for draw in ("fitted", "product")] == pytest.approx((0.3591, 0.3556), abs=6e-5)


@pytest.mark.parametrize(
    ("steps", "alone", "product"), [(2, 0.2282, 0.2221), (4, 0.09475, 0.09328), (8, 0.04153, 0.04119)]
)
def test_what_alone_writes_in_random_order_can_be_worse(steps, alone, product):
    """Each order loses less than the product, and their mixture more: KL(q || p) is not the mean over orders."""
    rare = {"001": 0.0001, "010": 0.0001, "111": 0.0001}
    laws = listed({"011": 0.846, "100": 0.147, "110": 0.0065, **rare})
    joint = joints(laws.denoiser.language, 3, sweeps=1000)
    found = {draw: laws.in_random_order(joint[draw], steps) for draw in ("alone", "product")}
    assert (found["alone"][0], found["product"][0]) == pytest.approx((alone, product), abs=6e-5)
    assert found["alone"][1] <= found["product"][1]
    if steps == 2:
        assert (found["alone"][1], found["product"][1]) == pytest.approx((0.3479, 0.3598), abs=6e-5)


@pytest.mark.long
@pytest.mark.parametrize("part", range(16))
def test_alone_is_never_worse_than_the_product(part):
    """In no step, whatever the language, the constraint's other positions, or the number of sweeps: 10,000 cases."""
    length, g = 4, np.random.default_rng(part)
    for _ in range(19):
        strings = np.array(list(product((0, 1), repeat=length)))
        strings = strings[g.permutation(len(strings))[: g.integers(4, 13)]]
        laws = Laws(Answers(strings, weights=list(g.exponential(size=len(strings)) ** 2 + 1e-3), vocabulary=2), length)
        joint = Joint(automata.support(laws.denoiser.language), int(g.integers(4)), alone=True)
        free = Joint(everything(2))
        for kinds in product((0, 1, 2), repeat=length):  # revealed, in this step, later
            given, now = (tuple(j for j in range(length) if kinds[j] == kind) for kind in (0, 1))
            if len(now) > 1:
                alone, apart = (float(laws.q @ laws.step(one, given, now)) for one in (joint, free))
                assert alone >= apart - 1e-9, (part, strings, given, now)


@pytest.mark.parametrize("name", ["interval", "brackets", "modular-sum"])
def test_a_uniform_language_is_written_exactly_in_one_step(name):
    language, length = {"interval": (load("interval-5"), 5), "brackets": (load("brackets"), 6)}.get(
        name, (load("modular-sum"), 5)
    )
    tokens = language.sample(64, length, seed=1)
    log = log_step(Ideal(language), Joint(automata.support(language), 200), tokens, (), tuple(range(length)))
    assert log == pytest.approx(language.log_prob(tokens).numpy(), abs=1e-6 if name == "interval" else 0.2)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("draw", ["fitted", "alone", "coupled", "soft"])
def test_generations_follow_the_law(draw):
    """A chi-square test with a false-alarm rate of 1e-4; the law of another draw has p < 1e-12."""
    language, length = WIDE
    joint, laws = joints(language, length, sweeps=3), KNOWN[WIDE]
    drawn = generate(language, sampler="fixed-size", steps=3, length=length, rows=20_000, draw=draw, seed=3).tokens

    def p(name):
        parts = splits(tuple(range(length)), 2)
        law = np.mean([np.exp(laws.log_order(joint[name], part)) for part in parts], 0)
        return p_value(drawn.numpy(), laws.strings.numpy(), law)

    assert p(draw) > 1e-4
    assert p("soft" if draw == "coupled" else "coupled") < 1e-12


@pytest.mark.parametrize("draw", ["fitted", "alone", "coupled", "soft"])
@pytest.mark.parametrize("sampler", ["ancestral", "entropy", "blocks(block_length=5)"])
def test_a_row_depends_on_nothing_but_its_number(draw, sampler):
    language = load("paper-2gram")
    how = {"sampler": sampler, "steps": 4, "length": 14, "draw": draw, "seed": 2}
    whole = generate(language, rows=11, **how).tokens
    assert torch.equal(generate(language, rows=3, first_row=4, **how).tokens, whole[4:7])
    assert bool(language.supports(whole).all())


@pytest.mark.parametrize("draw", ["fitted", "alone", "coupled"])
def test_given_tokens_and_ragged_rows(draw):
    language = load("sparse-hmm")
    tokens = language.sample(6, 20, seed=4)
    given = [
        torch.where(torch.rand(n) < 0.4, row[:n], 8).tolist()
        for n, row in zip((20, 7, 13, 20, 1, 9), tokens, strict=True)
    ]
    made = generate(language, given=given, steps=3, draw=draw)
    for row, (line, drawn) in enumerate(zip(given, made.tokens, strict=True)):
        drawn = drawn[: len(line)]
        assert all(token in (8, new) for token, new in zip(line, drawn.tolist(), strict=True))
        assert bool(language.supports(drawn.unsqueeze(0)).all())
        alone = generate(language, given=[line], steps=3, draw=draw, first_row=row)
        assert torch.equal(alone.tokens[0], drawn)


@pytest.mark.parametrize("draw", ["fitted", "alone", "coupled"])
def test_steps_that_exclude_every_string_fall_back_and_are_counted(draw):
    """One token everywhere, which two in a row the language never has."""
    language = CHAIN[0]
    moves = language.transition > 0
    token = int(np.flatnonzero(~moves.diagonal())[0])
    poor = Fixed(torch.eye(language.vocabulary, dtype=torch.float64)[torch.full((10,), token)], language)
    made = generate(poor, steps=2, length=10, rows=20, draw=draw)
    assert bool(language.supports(made.tokens).all())
    assert made.summary()["fallback_steps"] == int(made.fallbacks.sum()) > 0
    assert bool((made.probability > 0).all())
    assert generate(language, steps=2, length=10, rows=20, draw=draw).fallbacks.sum() == 0


def test_filters_change_the_marginals_of_a_joint():
    language = load("paper-2gram")
    cold = generate(language, steps=4, length=24, rows=60, draw="fitted", temperature=0.3).tokens
    warm = generate(language, steps=4, length=24, rows=60, draw="fitted").tokens
    assert language.log_prob(cold).mean() > language.log_prob(warm).mean() + 5
    assert bool(language.supports(cold).all())


def test_an_imperfect_denoiser_keeps_to_the_constraint():
    language = load("paper-2gram")
    made = generate(Perturbed(language, "leak", 0.1), steps=3, length=30, rows=40, draw="fitted(sweeps=1000)")
    assert bool(language.supports(made.tokens).all())


def test_a_regex_that_the_model_does_not_know():
    made = generate(
        load("sparse-hmm"), steps=4, length=12, rows=50, draw="coupled(constraint=regex(pattern='(0[1-7]|2.)*'))"
    )
    assert all(
        row[k] in (0, 2) and (row[k] != 0 or row[k + 1] != 0) for row in made.tokens.tolist() for k in range(0, 12, 2)
    )


MERGED = regex("(a[bc]?|[de]a)*", 5, tuple("abcde"))  # b, c and d, e are classes


@pytest.mark.parametrize("now", [(0, 1, 2, 3), (0, 2), (1,)])
@pytest.mark.parametrize("alone", [False, True])
def test_classes_of_tokens_change_no_distribution(now, alone):
    """Also where the marginals exclude every allowed string, up to the constant that replaces them."""
    apart = Automaton(MERGED.moves[:, MERGED.classes], MERGED.final)
    assert MERGED.moves.shape[1] == 3
    assert apart.edges == MERGED.edges == 9
    strings = torch.cartesian_prod(*[torch.arange(5)] * 4)
    strings = strings[MERGED.accepts(strings)]
    p = np.random.default_rng(1).dirichlet(np.ones(5), size=4)
    denoiser = Fixed(torch.from_numpy(p))
    given = () if len(now) > 2 else (3,)
    merged, each = (log_step(denoiser, Joint(one, 3, alone), strings, given, now) for one in (MERGED, apart))
    assert merged == pytest.approx(each, rel=1e-9)


def test_windows_of_a_text_are_multiplied_in_or_fitted(monkeypatch):
    """Over its two most frequent tokens and the class of all others; a fit keeps all marginals."""
    monkeypatch.setattr(joint_text, "KEPT", 2)
    line = np.array([0, 1, 0, 2, 0, 1, 1, 0, 3, 0, 1, 0, 4, 0])
    automaton, strings = joint_text.dependence(line, 5, 3), sequences(5, 4)
    p = np.random.default_rng(3).dirichlet(np.ones(5), size=4)
    windows, c = joint_text.pooled(np.minimum(line, 2), 3, 3).reshape(3, 3, 3), np.minimum(strings, 2).T
    pair, one = windows.sum(2), windows.sum((0, 1))  # a string begins as windows do
    pair, three = pair / np.outer(pair.sum(1), pair.sum(0)), windows / windows.sum(2, keepdims=True) / one
    law = p[np.arange(4), strings].prod(1) * pair[c[0], c[1]] * three[c[0], c[1], c[2]] * three[c[1], c[2], c[3]]
    draws = Joint(automaton, 0, single=False), Joint(automaton, 99)
    every = torch.from_numpy(strings), (), (0, 1, 2, 3)
    unfitted, soft = (log_step(Fixed(torch.from_numpy(p)), joint, *every) for joint in draws)
    assert unfitted == pytest.approx(np.log(law / law.sum()))
    kept = [np.bincount(column, np.exp(soft), 5) for column in strings.T]
    assert np.array(kept) == pytest.approx(p)
    ratio = (soft - unfitted).reshape((5,) * 4)  # a sum of functions of one token each
    assert ratio - ratio[:1] - ratio[:, :1] + ratio[:1, :1] == pytest.approx(0, abs=1e-9)


def test_draws_of_classes_follow_the_distribution():
    """With a false-alarm rate of 1e-4; tokens of one class in equal parts have p < 1e-12."""
    p = np.random.default_rng(2).dirichlet(np.ones(5), size=4)
    denoiser = Fixed(torch.from_numpy(p))
    strings = torch.cartesian_prod(*[torch.arange(5)] * 4)
    strings = strings[MERGED.accepts(strings)]
    law = np.exp(log_step(denoiser, Joint(MERGED), strings, (), (0, 1, 2, 3)))
    made = generate(denoiser, steps=1, length=4, rows=20_000, draw=Joint(MERGED), seed=1)
    assert p_value(made.tokens.numpy(), strings.numpy(), law) > 1e-4
    assert made.probability.numpy() == pytest.approx(np.take_along_axis(p, made.tokens.numpy().T, 1).T)
    even = np.array([law[(MERGED.classes[strings] == MERGED.classes[row]).all(1)].mean() for row in strings.numpy()])
    assert p_value(made.tokens.numpy(), strings.numpy(), even) < 1e-12


def test_masses_of_classes_are_the_same_for_logits_and_tables():
    states = torch.randn(7, 3000, generator=torch.Generator().manual_seed(1))
    classes = torch.arange(3000) % 11
    table = Table(states.double().softmax(-1))
    found = masses(table, classes, 11)
    assert torch.allclose(masses(Logits(states), classes, 11), found, rtol=1e-5)
    assert found.sum() == pytest.approx(7)
    assert found[2, 3] == pytest.approx(float(table.dense()[2, 3::11].sum()))


class Pieces:
    """A tokenizer of many pieces; the last token ends a document and the one before is special."""

    texts = ("{", '{"', "key", '"', '": ', "1", "2", "12", "}", *map(str, range(5000)), "", "\n\n")
    vocabulary, separator = len(texts), len(texts) - 1

    def written(self, tokens):
        return "".join(self.texts[token] for token in tokens if token != self.separator)

    @property
    def pieces(self):
        return (tuple(text.encode() for text in self.texts),) * 2


class Writer(Denoiser):
    """Large logits that depend on the position only, of a model with a tokenizer and some more symbols."""

    def __init__(self, inner):
        self.tokenizer, self.vocabulary, self.language = inner, inner.vocabulary + 3, None
        self.states = torch.randn(9, self.vocabulary, generator=torch.Generator().manual_seed(2))

    def engine(self, tokens, given=None, valid=None):
        class Engine(EngineOf):
            def at(engine, rows, positions, time):
                return Logits(self.states[positions])

        return Engine(tokens)

    def posterior(self, tokens, positions=None, time=None):
        return self.states.softmax(-1)[torch.arange(tokens.shape[1]).expand(len(tokens), -1)]


@pytest.mark.long
@pytest.mark.parametrize("draw", ["fitted", "alone", "coupled"])
def test_a_template_for_a_model_with_a_large_vocabulary(draw, tmp_path):
    (tmp_path / "t.json").write_text('{"key": "integer"}')
    constraint = f"schema(file='{tmp_path / 't.json'}')"
    model = Writer(Pieces())
    made = generate(model, steps=3, length=9, rows=300, draw=f"{draw}(constraint={constraint})", seed=1)
    texts = ["".join(Pieces.texts[token] for token in row) for row in made.tokens.tolist()]
    values = {json.loads(text)["key"] for text in texts}
    assert len(values) > 100
    assert all(re.fullmatch(r'\{"key": ?[0-9]+\}\n*', text) for text in texts)
    assert int(made.fallbacks.sum()) == 0


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"sampler": "low-confidence"}, "chooses positions before it draws; low-confidence does not"),
        ({"sampler": "gibbs"}, "chooses positions before it draws"),
        ({"sampler": "autoregressive"}, "chooses positions before it draws"),
        (
            {"draw": "fitted(constraint=regex(pattern='0*'))", "given": [8, 8, 3, 8]},
            "of row 0: nothing fits its tokens up to position 2",
        ),
        ({"draw": "fitted(constraint=regex(pattern='0*('))"}, "breaks at character 2"),
        ({"draw": "fitted(sweeps=-1)"}, "sweeps is -1"),
        ({"draw": "soft(order=1)"}, "order is 1"),
        ({"draw": "soft(order=5)", "given": [8] * 4}, "order is 5; expected 2 to 4, the length"),
        ({"draw": "soft(order=3)", "length": 1}, "length 1 has none; expected a length of at least 2"),
        ({"draw": "fittd"}, "did you mean fitted"),
        ({"draw": Joint(everything(3))}, "the automaton has 3 symbols"),
    ],
)
def test_mistakes_get_one_line(how, message):
    with pytest.raises(UnmaskError, match=message.replace("(", r"\(")):
        generate(load("paper-2gram"), **{"rows": 2, "length": 4, "steps": 2, "draw": "fitted"} | how)


@pytest.mark.parametrize("sweeps", [0, 1, 2, 3, 5])
def test_each_sweep_is_one_of_proportional_fitting(sweeps):
    """Also with marginals that no joint on the constraint has."""
    language, length = WIDE
    p = np.random.default_rng(sweeps).dirichlet(np.ones(4), size=length)
    strings = torch.cartesian_prod(*[torch.arange(4)] * length)
    strings = strings[language.supports(strings)]
    denoiser, every = Fixed(torch.from_numpy(p), language), tuple(range(length))
    joint = Joint(automata.support(language), sweeps)
    expected = Tables(denoiser, joint, length).law((4,) * length, every)
    assert len(expected) == len(strings)
    log = log_step(denoiser, joint, strings, (), every)
    assert np.exp(log) == pytest.approx([expected[tuple(x)] for x in strings.tolist()], rel=1e-9)
