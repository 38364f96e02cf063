"""Whatever somebody gives to the front door is refused there, in words, or does what was asked; nothing else."""

from __future__ import annotations

import inspect
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import unmask
from unmask import UnmaskError, denoisers, diagnosis, languages, metrics, samplers, theory
from unmask.core import errors
from unmask.models import open as hub
from unmask.models import text, trained
from unmask.models.trained.trunk import Trunk
from unmask.samplers import Choice, schedules
from unmask.samplers.rules.blocks import Blocks
from unmask.samplers.rules.low_confidence import LowConfidence

L = languages.load("paper-2gram")
TOKENS = torch.zeros((5, 8), dtype=torch.int64)
INTERVAL = languages.Interval(5)
CODE = "os:system(command='touch was-run')"
LINEAR = schedules.deltas("linear", 2)


def make(source: Any = L, **given: Any) -> Any:
    return unmask.generate(source, **{"rows": 5, "length": 8, "steps": 2} | given)


class Says(denoisers.Denoiser):
    """Uniform, but for what is done to it."""

    def __init__(self, change, vocabulary=8):
        self.change, self.vocabulary = change, vocabulary

    def posterior(self, tokens, positions=None, time=None):
        places = tokens.shape[1] if positions is None else positions.shape[-1]
        return self.change(torch.full((len(tokens), places, 8), 1 / 8, dtype=torch.float64))


class Chooses(samplers.Sampler):
    def __init__(self, answer, pace="free"):
        self.answer, self.pace = answer, pace

    def choose(self, view):
        return self.answer(view)


class Orders(samplers.Sampler):
    def __init__(self, answer):
        self.answer = answer

    def order(self, delta, hidden, rng):
        return self.answer(hidden)


class Runs(samplers.Sampler):
    def __init__(self, act):
        self.act = act

    def run(self, session):
        self.act(session)


def quantized() -> torch.Tensor:
    with warnings.catch_warnings(action="ignore"):  # torch means to do without them
        return torch.quantize_per_tensor(TOKENS.float(), 1.0, 0, torch.quint8)


def in_place(view: Any) -> Choice:
    """Reveal by writing where a sampler may only look."""
    view.tokens.zero_()
    view.hidden.zero_()
    return Choice(view.hidden)


def fails(*_: Any) -> Any:
    raise ZeroDivisionError


NO_TOKENS: dict[str, Any] = {
    "floats": np.zeros((3, 8)),
    "list of floats": [[1.5]],
    "a path": Path("x"),
    "nothing": None,
    "strings": ["ab", "cde"],
    "an iterator": iter([1]),
    "objects": np.array([object()]),
    "64 bits without a sign": np.array([[2**64 - 1]], dtype=np.uint64),
    "no data": torch.zeros(2, 8, dtype=torch.int64, device="meta"),
    "masked": np.ma.array([[1, 2]], mask=[[0, 1]]),
    "sparse": TOKENS.to_sparse(),
    "empty": [],
    "ragged": [[1, 2], [1]],
    "booleans": TOKENS > 1,
    "complex": TOKENS.to(torch.complex64),
    "quantized": quantized(),
    "a mapping": {"tokens": 1},
    "a language": INTERVAL,
    "three dimensions": TOKENS[None],
    "outside": TOKENS + 100,
    "negative": TOKENS - 1,
}
TAKE_TOKENS = {
    "score": lambda x: unmask.score(x, L),
    "audit": lambda x: unmask.audit(x, L, steps=2),
    "log_prob": L.log_prob,
    "supports": L.supports,
    "posterior": L.posterior,
    "oracle": lambda x: unmask.oracle(L)(x),
    "render": L.render,
    "sample": lambda x: L.sample(2, 8, given=[] if x is None else x),
    "generate": lambda x: make(given=[] if x is None else x),
    "loss curve": lambda x: diagnosis.loss_curve.loss_curve(denoisers.Ideal(L), x),
    "windows": lambda x: metrics.window_counts(x, 8, 2),
}
NO_LANGUAGE: dict[str, Any] = {"a word": "x", "nothing": None, "a path": Path("x"), "tokens": TOKENS, "a number": 3}
NO_LANGUAGE |= {"a mapping": {}, "a class": languages.Interval}
SHAPE = trained.preset("quick", "mdm", 8)
TAKE_LANGUAGES = {
    "score": lambda x: unmask.score(TOKENS, x),
    "gap": lambda x: unmask.gap(x, length=8, rows=3, steps=2),
    "check": unmask.check,
    "sharpened": lambda x: denoisers.Sharpened(x, 0.5),
    "information curve": lambda x: theory.sampled.information_curve(x, 8),
    "exact": lambda x: theory.known.exact(x, 8, LINEAR),
    "interaction": lambda x: theory.fluency.interaction(x, 8),
    "ter of AR": lambda x: metrics.ter_autoregressive(x, 8),
    "output law": lambda x: metrics.output_distribution(x, 3, LINEAR),
    "network": trained.Network,
}
OPTIONS: dict[str, list[Any]] = {
    "rows": [2.5, 0, -1, True, "3", np.float64(2), 10**15, 10**30],
    "length": [2.5, 0, True, "8", 10**10, 10**30],
    "steps": [2.5, 0, True, "2", [2], 10**12, 10**30],
    "seed": [1.5, -1, 2**70, True, "1", None, torch.Generator()],
    "first_row": [-1, 2**63, 1.5, "x"],
    "schedule": [None, 3, {}, "nope", [0.5], [math.nan, 1], "polynomial(power=None)", "polynomial(power=-1)", [[1.0]]],
    "temperature": ["x", None, -1, math.nan, math.inf, True, 10**30],
    "top_p": ["x", None, 0, 2],
    "top_k": [2.5, 0, "x", True],
    "guidance": ["x", None, -1, math.inf, 10**30],
    "sampler": [
        *(None, 3, samplers.Sampler, Says, "nope", "blocks(block_length=1.5)", "blocks(", "gibbs(inner=3)", CODE),
        *("gibbs(sweeps=1000000000000)", "blocks(inner=" * 40 + "ancestral" + ")" * 40),
    ],
    "stop": ["x", 2.5, True, -1, 99, [1]],
    "given": ["x", object(), [[1, 2, [3]]], torch.zeros(2, 2, 2, dtype=torch.int64), [[99] * 8], TOKENS[0, :3]],
}
ANSWERS = {
    "too long": lambda p: torch.full((p.shape[0], p.shape[1] + 1, 8), 1 / 8),
    "a list": lambda p: p.tolist(),
    "elsewhere": lambda p: p.to("meta"),
    "infinite": lambda p: p * math.inf,
    "nothing anywhere": lambda p: p * 0,
}
CHOICES = {
    "nothing": lambda view: None,
    "no reveal": lambda view: Choice(None),
    "one row": lambda view: Choice(view.hidden[:1]),
    "done": lambda view: Choice(view.hidden, None, None, True),
    "tokens beyond": lambda view: Choice(view.hidden, view.tokens * 0 + 99),
}
ORDERS = {
    "nothing": lambda hidden: None,
    "floats": lambda hidden: hidden.double(),
    "an array": lambda hidden: hidden.long().numpy(),
    "a list": lambda hidden: hidden.tolist(),
    "one row": lambda hidden: hidden[:1].long(),
    "booleans": lambda hidden: hidden,
    "halves": lambda hidden: torch.ones_like(hidden, dtype=torch.float64) * 1.5,
}
ONE = torch.tensor([0])
ACTS = {
    "nothing": lambda session: None,
    "floats": lambda session: session.write(ONE.double(), ONE, ONE, ONE + 1.0, 1),
    "beyond": lambda session: session.write(ONE + 99, ONE, ONE, ONE + 1.0, 1),
    "lists": lambda session: session.write([0], [0], [0], [1.0], 1),
    "sizes": lambda session: session.write(torch.tensor([0, 1]), ONE, ONE, ONE + 1.0, 1),
    "hides": lambda session: session.hide(ONE + 99, ONE, 1),
}
NAMELESS = languages.NGram(2, [0.5, 0.5], [[0.5, 0.5]] * 2)
RECIPE = {"name": "x", "jobs": ["theory"]}
OTHERS = {
    "load": [lambda: unmask.load(None), lambda: unmask.load("a\0b"), lambda: languages.load(3)],
    "preset": [lambda: languages.load(None), lambda: languages.load("paper-2gram(seed='x')")],
    "interval": [lambda wrong=wrong: languages.Interval(wrong) for wrong in ("5", 3.0, True, 99, 10**12)],
    "brackets": [
        lambda: languages.Brackets("2"),
        lambda: languages.Brackets(10**6, 10**6),
    ],
    "sums": [lambda: languages.ModularSum(10, 10**10), lambda: languages.ModularSum("x")],
    "n-gram": [lambda: languages.NGram("2", [1], [[1]]), lambda: languages.NGram(2, None, None)],
    "hmm": [lambda: languages.HMM(None, None, None), lambda: languages.HMM("x", "y", "z")],
    "names": [lambda wrong=wrong: NAMELESS.named(wrong) for wrong in (3, "ab")],
    "sizes": [lambda: INTERVAL.sizes([1, 2]), lambda: INTERVAL.sizes(3)],
    "lengths": [
        lambda: INTERVAL.possible_lengths(10**15),
        lambda: languages.Brackets(2).possible_lengths(None),
    ],
    "random": [
        lambda: languages.random_ngram("2"),
        lambda: languages.random_hmm(states=10**12),
    ],
    "fit": [
        lambda: languages.NGram.fit(b"abab", 2),
        lambda: languages.NGram.fit("abab", 2.5),
        lambda: languages.NGram.fit("abab", 2, smoothing=1e308),
    ],
    "sample": [
        lambda: L.sample("2", 8),
        lambda: L.sample(2, 8, seed=1.5),
        lambda: L.sample(10**15, 20),
    ],
    "language": [
        lambda: L.entropy("x"),
        lambda: L.window_distribution("2", 8),
        lambda: L.posterior(TOKENS, positions=[99]),
        lambda: L.save("a\0b"),
        lambda: L.encode(["ab"]),
    ],
    "deltas": [
        lambda: schedules.deltas("linear", 2.5),
        lambda: schedules.deltas(None),
        lambda: schedules.deltas("linear"),
    ],
    "plan": [
        lambda: unmask.plan(L, 8, "ser", "x"),
        lambda: unmask.plan(L, 8, "nope", 0.1),
        lambda: unmask.plan(L, 8, "ser", 0.1, batch=1.5),
        lambda: unmask.plan(L, 8, "ser", 0.1, times=(3.0,)),
        lambda: unmask.plan(L, 8, "ser", 0.1, shape="paper"),
        lambda: unmask.plan(L, 8, "ter", 0.1, learning="net"),
    ],
    "audit": [
        lambda: unmask.audit(TOKENS.repeat(50, 1), L, steps=2, filters="x"),
        lambda: unmask.audit(TOKENS.repeat(50, 1), L, steps=2, sampler=None),
    ],
    "gap": [
        lambda: unmask.gap(L, "nope.json"),
        lambda: unmask.gap(L, length=8, rows=3, steps=2, calls=0),
        lambda: unmask.gap(L, length=8, rows=3, steps=2, temperature="x"),
    ],
    "oracle": [
        lambda: unmask.oracle(None),
        lambda: unmask.oracle(L, dtype="float32"),
        lambda: unmask.oracle(L, mask_id="x"),
        lambda: unmask.oracle(L, causal=TOKENS),
        lambda: unmask.oracle(L, shift="x"),
        lambda: unmask.oracle(L)(TOKENS.tolist()),
    ],
    "network": [
        lambda: trained.preset("quick", None, 8),
        lambda: trained.preset("quick", "mdm", 8, layers=10**12),
        lambda: Trunk(trained.Shape("mdm", 8, 8, hidden=2**17, layers=4096, heads=8)),
        lambda: make(Trunk(trained.Shape("mdm", 8, 8, hidden=16, layers=1, heads=2))),
        lambda: trained.load(None),
        lambda: trained.load("nowhere", torch.device("cpu")),
    ],
    "sweep": [
        *(lambda wrong=wrong: unmask.sweep(wrong) for wrong in (None, 3, [1])),
        lambda: unmask.sweep(RECIPE, allow_imports="os"),
        lambda: unmask.sweep(RECIPE, fresh=TOKENS),
        lambda: unmask.sweep(RECIPE, store=3),
        lambda: unmask.sweep(RECIPE, engine="nope"),
    ],
    "train": [lambda: unmask.train(L, None, None, "nowhere")],
    "theory": [
        lambda: theory.theorem_4_3("x", LINEAR),
        lambda: theory.theorem_4_3(8, None),
        lambda: theory.theorem_4_4(8, ser=1.5),
        lambda: theory.theorem_4_2("x", 8, 8, 0.5),
        lambda: theory.known.curve(L, 8).ter_upper("linear", "x"),
        lambda: metrics.sequences("x", 3),
        lambda: metrics.output_distribution(denoisers.Ideal(L), 3, None),
        lambda: theory.known.exact(L, 8, [0.5, 0.5]),
    ],
    "samplers": [
        lambda: Blocks(block_length=1.5),
        lambda: Blocks(inner=None),
        lambda: LowConfidence(temperature="x"),
        lambda: samplers.AtToken("x"),
        lambda: samplers.Budget("x", 0),
    ],
    "generation": [lambda: make().save(None), lambda: make().save("a\0b.npy")],
    "prompts": [lambda: unmask.prompts(L, 0, 8, 2), lambda: unmask.prompts(L, 2, 8, -1)],
}


@pytest.fixture(autouse=True)
def nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yield
    assert not list(tmp_path.iterdir())


def refuses(call) -> None:
    """One line that can be printed."""
    with pytest.raises(UnmaskError) as caught:
        call()
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) <= 2100


@pytest.mark.sampled(4)
@pytest.mark.parametrize("door", TAKE_TOKENS)
@pytest.mark.parametrize("what", NO_TOKENS)
def test_what_are_no_tokens(door, what):
    if (door, what) == ("render", "empty"):
        return  # a sequence of nothing
    if door == "windows" and what in ("outside", "negative", "three dimensions"):
        return  # its callers have compared tokens with a vocabulary
    refuses(lambda: TAKE_TOKENS[door](NO_TOKENS[what]))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("door", TAKE_LANGUAGES)
@pytest.mark.parametrize("what", NO_LANGUAGE)
def test_what_is_no_language(door, what):
    if door in ("check", "network") and what == "nothing":
        return
    refuses(lambda: TAKE_LANGUAGES[door](NO_LANGUAGE[what]))


@pytest.mark.parametrize(("option", "value"), [(name, value) for name, values in OPTIONS.items() for value in values])
def test_what_is_no_option_of_generate(option, value):
    refuses(lambda: make(**{option: value}))


@pytest.mark.parametrize("sampler", ["ancestral", "left-to-right", "low-confidence", "autoregressive"])
@pytest.mark.parametrize("answer", ANSWERS)
def test_what_a_denoiser_must_not_say(answer, sampler):
    refuses(lambda: make(Says(ANSWERS[answer]), sampler=sampler))


@pytest.mark.parametrize("vocabulary", ["8", None, 0, 2.5, 8.0])
def test_what_is_no_vocabulary(vocabulary):
    refuses(lambda: make(Says(lambda p: p, vocabulary)))


@pytest.mark.parametrize("sampler", ["ancestral", "left-to-right", "low-confidence"])
def test_the_error_of_a_denoiser_is_its_own(sampler):
    with pytest.raises(ZeroDivisionError):
        make(Says(fails), sampler=sampler)


def test_a_denoiser_may_say_what_is_nearly_a_distribution():
    assert len(make(Says(lambda p: p.float())).tokens) == 5
    assert len(make(Says(lambda p: p.bfloat16() * 1.01)).tokens) == 5


@pytest.mark.parametrize("pace", ["free", "steps", "counts"])
@pytest.mark.parametrize("answer", CHOICES)
def test_what_a_sampler_must_not_choose(answer, pace):
    refuses(lambda: make(sampler=Chooses(CHOICES[answer], pace)))


@pytest.mark.parametrize("pace", ["free", "steps", "counts"])
def test_the_error_of_a_sampler_is_its_own(pace):
    with pytest.raises(ZeroDivisionError):
        make(sampler=Chooses(fails, pace))


@pytest.mark.parametrize("answer", ORDERS)
def test_what_is_no_order(answer):
    refuses(lambda: make(sampler=Orders(ORDERS[answer])))


@pytest.mark.parametrize("act", ACTS)
def test_what_a_flow_must_not_do(act):
    refuses(lambda: make(sampler=Runs(ACTS[act])))


@pytest.mark.parametrize(("door", "number"), [(door, k) for door, calls in OTHERS.items() for k in range(len(calls))])
def test_other_doors(door, number):
    refuses(OTHERS[door][number])


def test_numbers_of_numpy_are_numbers():
    ours = make(rows=np.int64(5), length=np.int32(8), steps=np.int64(2), seed=np.int64(1))
    assert torch.equal(ours.tokens, make(seed=1).tokens)


def test_arrays_and_lists_of_tokens_are_tokens():
    drawn = L.sample(200, 8, seed=0)
    for tokens in (drawn.numpy(), drawn.tolist()):
        assert unmask.score(tokens, L).ser == unmask.score(drawn, L).ser
        assert unmask.audit(tokens, L, steps=4).verdict == unmask.audit(drawn, L, steps=4).verdict
        assert torch.equal(L.log_prob(tokens), L.log_prob(drawn))
        assert torch.equal(L.supports(tokens), L.supports(drawn))
        assert L.render(tokens[0]) == L.render(drawn[0])
    assert torch.equal(L.sample(5, 8, given=[L.vocabulary] * 8), L.sample(5, 8))


@pytest.mark.parametrize(
    ("wrong", "near"),
    [
        ("step", "steps"),
        ("n_steps", "steps"),
        ("num_steps", "steps"),
        ("batch_size", "rows"),
        ("gen_length", "length"),
    ],
)
def test_an_argument_that_is_not_there_is_told_the_nearest(wrong, near):
    with pytest.raises(UnmaskError, match=f"unknown argument .*'{wrong}'.*; did you mean {near}"):
        unmask.generate(L, **{wrong: 4})


def test_arguments_are_named():
    with pytest.raises(TypeError, match="positional argument"):
        unmask.generate(L, 4, 8)
    assert inspect.signature(unmask.generate).parameters["steps"]


def test_an_ordinary_stride_beyond_the_length():
    made = make(sampler="gibbs(stride=8)", length=4)
    assert torch.equal(made.tokens, make(sampler="gibbs(stride=4)", length=4).tokens)


@pytest.mark.parametrize(("name", "nearest"), [("scores", "score"), ("thory", "theory")])
def test_an_unknown_name_is_an_attribute_error_with_the_nearest(name, nearest):
    with pytest.raises(AttributeError, match=f"has no attribute '{name}'.*did you mean {nearest}"):
        getattr(unmask, name)


TEXT = "to be or not to be that is the question"


@pytest.mark.parametrize("tokens", ["characters", "whitespace"])
def test_texts_of_a_fitted_language(tokens):
    fitted = languages.NGram.fit(TEXT, 2, tokens)
    texts = [fitted.render(row) for row in fitted.sample(4, 7, seed=3)]
    read = fitted.encode(texts)
    assert read.shape == (4, 7)
    assert [fitted.render(row) for row in read] == texts
    assert unmask.score(texts, fitted).to_dict() == unmask.score(read, fitted).to_dict()
    refuses(lambda: fitted.encode(["to", "be or not"]))
    refuses(lambda: fitted.encode(["Z"]))


def test_what_has_no_name_is_read_as_the_unknown():
    fitted = languages.NGram.fit(TEXT, 2, "whitespace", max_vocabulary=3)
    assert fitted.encode(["to zebra"])[0].tolist() == [fitted.names.index(name) for name in ("to ", "<unk> ")]


@pytest.mark.parametrize(
    "thing",
    [
        L,
        denoisers.Ideal(L),
        denoisers.Sharpened(denoisers.Ideal(L), 0.5),
        Blocks(),
        Chooses(None),
        schedules.Schedule(LINEAR),
        unmask.oracle(L),
        theory.known.curve(languages.Interval(3), 6),
        theory.known.exact(languages.Interval(3), 6, LINEAR),
        unmask.plan(languages.Interval(3), 6, "ser", 0.1),
        unmask.score(make(), L),
        make(),
    ],
    ids=lambda thing: type(thing).__name__,
)
def test_a_repr_is_a_line_or_a_small_table(thing, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = repr(thing).splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 120
    assert not any(word in repr(thing) for word in ("object at 0x", "tensor(", "array(", "Estimate("))


NO_NAMES = [5, 2.5, None, [], {}, b"x", True, object(), torch.ones(2)]


@pytest.mark.parametrize("wrong", NO_NAMES, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize(
    "ask",
    [
        lambda wrong: hub.find(wrong),
        lambda wrong: hub.load_model(wrong),
        lambda wrong: text.make(wrong, ["x"]),
        lambda wrong: text.make("chars", "x" if isinstance(wrong, list) else wrong),
    ],
)
def test_what_is_no_name_is_refused(ask, wrong):
    with pytest.raises(UnmaskError, match=r"expected|unknown|no directory") as found:
        ask(wrong)
    assert "\n" not in str(found.value)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_tensors_that_are_not_dense_are_refused():
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    for wrong in (nested, torch.ones(3).to_sparse(), torch.empty(3, device="meta")):
        with pytest.raises(UnmaskError):
            unmask.generate(L, rows=2, length=4, schedule=wrong)
        with pytest.raises(UnmaskError):
            unmask.generate(L, given=wrong, steps=2)
        with pytest.raises(UnmaskError):
            unmask.score(wrong, L)


def test_names_are_listed_in_part():
    every = [f"kind-{number}" for number in range(40)]
    message = str(errors.unknown("thing", "nothing like it", every))
    assert message.endswith("and 28 more")
    assert len(message) < 200
