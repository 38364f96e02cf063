"""Files and arguments: round trips, and an error that names the position for everything that is wrong."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
import torch

from tests import brute
from unmask.core.errors import UnmaskError
from unmask.languages import HMM, Brackets, Interval, ModularSum, NGram, from_dict, load

LANGUAGES = brute.tiny_languages() | {"fitted": (NGram.fit("abracadabra", 2), 4)}
GOOD = {
    "hmm": {
        "kind": "hmm",
        "initial": [1, 0],
        "transition": [[0.5, 0.5], [1, 0]],
        "emission": [[1, 0, 0], [0, 0.5, 0.5]],
    },
    "ngram": {"kind": "ngram", "order": 2, "initial": [0.5, 0.5], "transition": [[0.25, 0.75], [1, 0]]},
    "interval": {"kind": "interval", "width": 3},
    "modular-sum": {"kind": "modular-sum", "modulus": 3, "chained": False},
    "answers": {"kind": "answers", "answers": [[0, 1], [1, 0]], "weights": [1, 2.5], "vocabulary": 3, "end": 2},
    "brackets": {"kind": "brackets", "kinds": 2, "depth": 3, "stop": 0.5},
}


def refused(message: str):
    return pytest.raises(UnmaskError, match=re.escape(message))


@pytest.mark.parametrize("name", LANGUAGES)
def test_round_trips(name, tmp_path):
    """Through a dictionary, JSON text and a file: the same probabilities to the last bit, and the same names."""
    language, length = LANGUAGES[name]
    language.save(tmp_path / "language.json")
    text = json.dumps(language.to_dict())
    strings = torch.from_numpy(np.random.default_rng(0).integers(language.vocabulary, size=(500, length)))
    for again in (from_dict(language.to_dict()), from_dict(json.loads(text)), load(tmp_path / "language.json")):
        assert again.to_dict() == language.to_dict()
        assert torch.equal(again.log_prob(strings), language.log_prob(strings))
        assert (again.names, again.end) == (language.names, language.end)


def test_defaults_and_the_end_of_a_hidden_markov_language():
    assert from_dict({"kind": "modular-sum"}).to_dict() == ModularSum().to_dict()
    assert from_dict({"kind": "brackets"}).to_dict() == Brackets().to_dict()
    language = from_dict(GOOD["hmm"] | {"end": 2, "names": ["a", "b", "."]})
    assert language.end == 2
    assert language.sizes(torch.tensor([[0, 2, 0], [0, 1, 0]])).tolist() == [2, 3]
    assert language.render(torch.tensor([0, 2, 0])) == "a."
    assert from_dict(language.to_dict()).end == 2


def test_a_file_carries_its_origin(tmp_path):
    Interval(3).save(tmp_path / "language.json")
    origin = json.loads((tmp_path / "language.json").read_text())["origin"]
    assert {"command", "versions", "python", "machine"} <= set(origin)


@pytest.mark.parametrize("kind", GOOD)
def test_good_ones_are_read(kind):
    assert from_dict(GOOD[kind]).kind == kind


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            [1, 2],
            "this is not a language; expected a JSON object with a key 'kind': one of answers, brackets",
        ),
        ({"kind": 5}, "unknown kind of language '5'; known: "),
        (
            {"kind": "interval", "widht": 3},
            "a language of kind 'interval': unknown key 'widht'; did you mean width?",
        ),
        ({"kind": "ngram", "order": 2, "initial": [1, 0]}, "of kind 'ngram': it has no"),
        ({"kind": "interval", "width": 5.0}, "width is a number; expected a whole number"),
        ({"kind": "interval", "width": [5]}, "width "),
        ({"kind": "brackets", "stop": True}, "stop "),
        (GOOD["hmm"] | {"end": 3}, "end is 3"),
    ],
)
def test_wrong_contents(content, message):
    with refused(message):
        from_dict(content)


TABLES = [
    ("hmm", {"initial": [[1, 0]]}, "initial has shape (1, 2); expected (any)"),
    ("hmm", {"transition": [[1], [1]]}, "transition has shape (2, 1); expected (2, 2)"),
    ("hmm", {"final": [1]}, "final has shape (1,); expected (2)"),
    ("hmm", {"final": [1, 1e-200]}, "expected 0 or at least 1e-20"),
    ("hmm", {"initial": {"a": 1}}, "initial is not a rectangular table of numbers"),
    ("hmm", {"initial": [0.5, 0.6]}, "initial sums to 1.1; expected 1. Pass --normalise"),
    ("hmm", {"initial": [0.5, None]}, "initial is not a rectangular table of numbers"),
    ("hmm", {"emission": [[1, 0], [float("inf"), 0]]}, "emission[1, 0] is inf: not a finite number"),
    ("ngram", {"order": 1}, "order is 1; expected 2 to 64"),
    ("ngram", {"order": 30}, "1.07e+09 transitions"),
    ("ngram", {"transition": [0.5, 0.5]}, "transition has shape (2,); expected (any, any)"),
    ("ngram", {"transition": [[0.5, 0.5], [1]]}, "transition is not a rectangular table of numbers"),
    ("ngram", {"transition": [[0.5, 0.5], [1.5, -0.5]]}, "transition[1, 1] is -0.5: negative"),
    ("ngram", {"initial": [10**400, 1]}, "an entry is not a number"),
    ("ngram", {"names": ["a"]}, "expected 2, one per token"),
    ("hmm", {"final": [0, 0]}, "final is zero everywhere"),
]


@pytest.mark.parametrize(("kind", "change", "message"), TABLES)
def test_wrong_tables(kind, change, message):
    with refused(message):
        from_dict(GOOD[kind] | change)


@pytest.mark.parametrize("huge", [1.0, 1e200, 1e308])
def test_normalise_divides_rows_by_their_sums(huge):
    """The same table is refused without it; zero rows and tiny quotients are refused with it too."""
    content = GOOD["hmm"] | {"initial": [huge, huge], "transition": [[1, 3], [2, 0]]}
    with refused("--normalise (or normalise=True) to divide"):
        from_dict(content | {"initial": [1, 0]})
    language = from_dict(content, normalise=True)
    assert language.initial.tolist() == [0.5, 0.5]
    assert language.transition.tolist() == [[0.25, 0.75], [1, 0]]
    with refused("transition row 1 is zero everywhere; it cannot be normalized"):
        from_dict(content | {"transition": [[1, 3], [0, 0]]}, normalise=True)
    with refused("expected 0 or at least 1e-20"):
        from_dict(content | {"transition": [[1, 3], [1e21, 1]]}, normalise=True)


def test_sums_are_as_exact_as_float64():
    """float32 exports need `normalise`, and float64 quotients do not."""
    thirds = np.full((2, 3), 1 / 3)
    assert from_dict(GOOD["hmm"] | {"emission": thirds.tolist()})
    rounded = thirds.astype(np.float32).astype(float).tolist()
    with refused("emission row 0 sums to 1.00000002"):
        from_dict(GOOD["hmm"] | {"emission": rounded})
    assert from_dict(GOOD["hmm"] | {"emission": rounded}, normalise=True)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"kind": "interval", "wid', "is not JSON: Input data was truncated"),
        (b"kind = 'interval'\nwidth = 3\n", "is not JSON: invalid character (byte 0)"),
        (b'{"kind": "hmm", "initial": [NaN]}', "language.json is not JSON: invalid character"),
        (b"[" * 100000, "language.json"),
    ],
)
def test_wrong_files(content, message, tmp_path):
    """The file is named, and where in it the mistake is."""
    path = tmp_path / "language.json"
    path.write_bytes(content)
    with refused(message) as caught:
        load(path)
    assert str(path) in str(caught.value)


def test_files_that_cannot_be_read(tmp_path):
    with refused(f"cannot read {tmp_path}: it is a directory"):
        load(tmp_path)
    with refused("unknown language (neither a file nor a preset): 'interval5'; did you mean interval-5"):
        load("interval5")
    assert load("interval-5").to_dict() == Interval(5).to_dict()
    assert load("paper-2gram(seed=4)").to_dict() != load("paper-2gram").to_dict()
    assert (load("paper-2gram(pruned=False)").transition > 0).all()


def test_load_normalises_on_request(tmp_path):
    path = tmp_path / "language.json"
    path.write_text(json.dumps(GOOD["ngram"] | {"initial": [1, 1]}))
    with refused(f"{path}: initial sums to 2; expected 1"):
        load(path)
    assert load(path, normalise=True).initial.tolist() == [0.5, 0.5]


# Arguments

CHAIN = NGram(2, [1, 0], [[0.5, 0.5], [1, 0]])


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: CHAIN.sample(3, 0), "length is 0; expected at least 1"),
        (lambda: CHAIN.sample(0, 3), "rows is 0; expected at least 1"),
        (lambda: CHAIN.sample(1, 3, seed=2**63), "the seed is 9223372036854775808"),
        (lambda: CHAIN.posterior(torch.tensor([[2, 3]])), "row 0, position 1: token 3 is not in 0..2"),
        (lambda: CHAIN.log_prob(torch.tensor([[True, False]])), "tokens are bool; expected integers"),
        (lambda: CHAIN.posterior(torch.tensor([[2, 2]]), torch.tensor([2])), "position"),
        (lambda: CHAIN.sample(2, 3, given=torch.full((3, 3), 2)), "given has shape (3, 3); expected (3,) or (2, 3)"),
        (lambda: CHAIN.entropy(2, given=torch.full((2, 2), 2)), "given has shape (2, 2)"),
    ],
)
def test_wrong_arguments(ask, message):
    with refused(message):
        ask()


def test_tokens_of_any_integer_type():
    wanted = CHAIN.log_prob(torch.tensor([[0, 1, 0]]))
    for dtype in (torch.uint8, torch.int16, torch.int32):
        assert torch.equal(CHAIN.log_prob(torch.tensor([[0, 1, 0]], dtype=dtype)), wanted)
    assert torch.equal(CHAIN.log_prob(torch.tensor([[0], [1], [0]]).t()), wanted)


def test_rendering():
    assert Interval(3).render(torch.tensor([3, 4, 0])) == "3 _ 0"
    assert Brackets().render(torch.tensor([0, 2, 4])) == "([_"
    assert NGram(2, [1, 0], [[0.5, 0.5], [1, 0]]).named(("x", "y")).render(torch.tensor([1, 0])) == "yx"
    shared = load("sparse-hmm(seed=5)")
    assert shared.named([*"abcdefgh"]).names != shared.names
    assert load("sparse-hmm(seed=5)") is shared
    assert shared.names is None
    assert HMM([1.0], [[1.0]], [[0.5, 0.5]]).render(torch.tensor([0, 1, 2])) == "0 1 _"
