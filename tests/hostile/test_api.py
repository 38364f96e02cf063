"""Misuses of the Python API: each is refused where it comes in, by an error that says what was expected."""

from __future__ import annotations

import inspect
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import unmask
from unmask import UnmaskError
from unmask.denoisers import Denoiser
from unmask.languages import HMM, Brackets, Interval, ModularSum, NGram
from unmask.samplers import Choice, Sampler
from unmask.schedules import deltas
from unmask.theory.known import exact
from unmask.theory.sampled import information_curve

LANGUAGE = Interval(5)
TOKENS = LANGUAGE.sample(5, 8, seed=0)
USUAL: dict[str, Any] = {"steps": 4, "length": 8, "rows": 5, "seed": 0}


class Saying(Denoiser):
    """A denoiser that answers as it is told."""

    def __init__(self, answer: Any, vocabulary: Any = 8) -> None:
        self.vocabulary, self.answer = vocabulary, answer

    def posterior(self, tokens, positions=None, time=None):
        count = tokens.shape[1] if positions is None else positions.shape[-1]
        return self.answer(len(tokens), count)


class Choosing(Sampler):
    """A sampler that chooses as it is told."""

    distribution = "none"
    pace = "free"

    def __init__(self, choice: Any, pace: str = "free") -> None:
        self.choice, self.pace = choice, pace

    def choose(self, view):
        return self.choice(view)


class Ordering(Sampler):
    distribution = "none"

    def order(self, delta, hidden, rng):
        return torch.ones_like(hidden, dtype=torch.float64) * 1.5


def generated(denoiser: Any = LANGUAGE, **changes: Any) -> Any:
    return unmask.generate(denoiser, **(USUAL | changes))


def sampled(choice: Any, pace: str = "free") -> Any:
    return generated(sampler=Choosing(choice, pace))


def asked(answer: Any, vocabulary: Any = 8, **changes: Any) -> Any:
    return generated(Saying(answer, vocabulary), **changes)


def even(rows: int, count: int) -> torch.Tensor:
    return torch.full((rows, count, 8), 1 / 8)


class Sized(Saying):
    """One that says how many rows are best filled together."""

    def __init__(self, rows: Any) -> None:
        super().__init__(even)
        self.rows = rows

    def rows_at_once(self, length):
        return self.rows


def _raise(*_: Any) -> Any:
    raise ZeroDivisionError


def _in_place(view: Any) -> Choice:
    """One that reveals by writing where it may only look."""
    view.tokens.zero_()
    view.hidden.zero_()
    return Choice(view.hidden)


def _trunk() -> Any:
    from unmask.networks.model.shape import Shape
    from unmask.networks.model.trunk import Trunk

    return Trunk(Shape("mdm", vocabulary=8, length=8, layers=1, hidden=16, heads=2))


def _quantized() -> torch.Tensor:
    with warnings.catch_warnings(action="ignore"):  # torch means to do without them
        return torch.quantize_per_tensor(TOKENS.float(), 1.0, 0, torch.quint8)


SCORES: dict[str, tuple[Any, Any]] = {
    "str": ("x", LANGUAGE), "pathlang": (TOKENS, "nope"), "pathobj": (Path("x"), LANGUAGE),
    "langnone": (TOKENS, None), "meta": (TOKENS.to("meta"), LANGUAGE), "ragged": ([[1, 2], [1]], LANGUAGE),
    "strings": ([["a", "b"]], LANGUAGE), "gen": (iter([1]), LANGUAGE), "swapped": (LANGUAGE, TOKENS),
    "npobj": (np.array([[object()]]), LANGUAGE), "floats": (TOKENS.double(), LANGUAGE),
    "bools": (TOKENS > 1, LANGUAGE), "complex": (TOKENS.to(torch.complex64), LANGUAGE), "none": (None, LANGUAGE),
    "u64": (np.full((2, 3), 2**64 - 1, np.uint64), LANGUAGE), "masked": (np.ma.masked_all((2, 3)), LANGUAGE),
    "sparse": (TOKENS.to_sparse(), LANGUAGE), "flat": (TOKENS[0], LANGUAGE), "cube": (TOKENS[None], LANGUAGE),
    "nothing": (TOKENS[:0], LANGUAGE), "outside": (TOKENS + 100, LANGUAGE), "negative": (-TOKENS - 1, LANGUAGE),
    "quant": (_quantized(), LANGUAGE),
    "strlang": (TOKENS, 3), "dict": ({"tokens": 1}, LANGUAGE),
}  # fmt: skip
GENERATIONS: dict[str, dict[str, Any]] = {
    "rowsf": {"rows": 2.5}, "rowsnp": {"rows": np.float64(3)}, "rowshuge": {"rows": 10**30}, "rowstrue": {"rows": True},
    "lenstr": {"length": "8"}, "stepsf": {"steps": 4.0}, "stepslist": {"steps": [4]}, "seednone": {"seed": None},
    "seedgen": {"seed": torch.Generator()}, "seedf": {"seed": 1.5}, "schednone": {"schedule": None},
    "schedtext": {"schedule": "nope"}, "schednan": {"schedule": [float("nan")]}, "tempstr": {"temperature": "1"},
    "tempnone": {"temperature": None}, "tempnan": {"temperature": float("nan")}, "topkf": {"top_k": 2.5},
    "toppstr": {"top_p": "x"}, "samplernone": {"sampler": None}, "samplerint": {"sampler": 3},
    "samplercode": {"sampler": "os:system(command='touch was-run')"}, "givenstr": {"given": "x"},
    "givenshape": {"given": torch.zeros(3, dtype=torch.long)}, "givenf": {"given": torch.zeros(8)},
    "stopstr": {"stop": "x"}, "stopint": {"stop": 99}, "first": {"first_row": -1}, "guidance": {"guidance": "x"},
    "temphuge": {"temperature": 10**30}, "guidehuge": {"guidance": 10**30}, "toppint": {"top_p": 2},
    "lenhuge": {"length": 10**12}, "stepshuge": {"steps": 10**12},
}  # fmt: skip
MISUSES: dict[str, Any] = {f"score_{name}": lambda pair=pair: unmask.score(*pair) for name, pair in SCORES.items()}
MISUSES |= {f"gen_{name}": lambda more=more: generated(**more) for name, more in GENERATIONS.items()}
MISUSES |= {
    f"gen_{name}": lambda thing=thing: generated(thing)
    for name, thing in {"str": "nope", "path": Path("x"), "int": 3, "dict": {}, "none": None, "class": Interval}.items()
}
ANSWERS: dict[str, Any] = {
    "wrongL": lambda rows, count: even(rows, count + 1), "twod": lambda rows, count: even(rows, count)[:, 0],
    "none": lambda rows, count: None, "lst": lambda rows, count: even(rows, count).tolist(),
    "npy": lambda rows, count: even(rows, count).numpy(), "sparse": lambda rows, count: even(rows, count).to_sparse(),
    "columns": lambda rows, count: even(rows, count)[:, :, :7], "inf": lambda rows, count: even(rows, count) / 0,
    "nan": lambda rows, count: even(rows, count) * float("nan"), "sum": lambda rows, count: even(rows, count) * 2,
    "negative": lambda rows, count: -even(rows, count), "ints": lambda rows, count: even(rows, count).long(),
    "meta": lambda rows, count: even(rows, count).to("meta"),
}  # fmt: skip
for _sampler, _short in {"ancestral": "den", "left-to-right": "denll", "low-confidence": "denlc"}.items():
    MISUSES |= {
        f"{_short}_{name}": lambda answer=answer, sampler=_sampler: asked(answer, sampler=sampler)
        for name, answer in ANSWERS.items()
    }
MISUSES |= {
    f"den_row_bytes_{rows}": lambda rows=rows: generated(Sized(rows)) for rows in (0, -1, 2.5, "x", True, 10**30)
}
MISUSES |= {
    "gen_trunk": lambda: generated(_trunk()), "den_vocab_str": lambda: asked(even, "8"),
    "den_vocab_zero": lambda: asked(even, 0),
    "den_vocab_float": lambda: asked(even, 8.0), "ord_float": lambda: generated(sampler=Ordering()),
}  # fmt: skip
CHOICES = {
    "none": lambda view: None, "tuple": lambda view: (view.hidden,), "npmask": lambda view: view.hidden.numpy(),
    "floattok": lambda view: Choice(view.hidden, view.tokens.double()), "all": lambda view: Choice(~view.hidden),
    "shape": lambda view: Choice(view.hidden[:, :1]), "ints": lambda view: Choice(view.hidden.long()),
    "tokens": lambda view: Choice(view.hidden, view.tokens * 0 + 99), "word": lambda view: "x",
    "inplace": _in_place, "nothing": lambda view: Choice(view.hidden & False),
}  # fmt: skip
MISUSES |= {
    f"samp_{name}_{pace}": lambda choice=choice, pace=pace: sampled(choice, pace)
    for name, choice in CHOICES.items()
    for pace in ("free", "steps", "counts")
}
MISUSES |= {
    "lang_load_none": lambda: unmask.load(None), "lang_load_int": lambda: unmask.load(3),
    "lang_preset_none": lambda: unmask.languages.load(None), "Interval_str": lambda: Interval("5"),
    "Interval_f": lambda: Interval(3.0), "Interval_true": lambda: Interval(True),
    "Interval_huge": lambda: Interval(10**12),
    "Brk": lambda: Brackets("2"), "Brk_f": lambda: Brackets(2.5), "Brk_huge": lambda: Brackets(10**6, 10**6),
    "Mod": lambda: ModularSum("3"), "HMM": lambda: HMM("x", "y", "z"), "NGram": lambda: NGram(2, None, None),
    "fit_bytes": lambda: NGram.fit(b"abc", 2), "fit_path": lambda: NGram.fit(Path("x"), 2),
    "fit_int": lambda: NGram.fit(3, 2), "fit_none": lambda: NGram.fit(None, 2), "fit_f": lambda: NGram.fit("abab", 2.5),
    "logprob_np": lambda: LANGUAGE.log_prob(np.array([["a"]])), "logprob_list": lambda: LANGUAGE.log_prob("abc"),
    "sample_given": lambda: LANGUAGE.sample(3, 8, seed=0, given=["x"]), "sup_list": lambda: LANGUAGE.supports("x"),
    "render_str": lambda: LANGUAGE.render("x"), "entropy_str": lambda: LANGUAGE.entropy("8"),
    "save_none": lambda: LANGUAGE.save(None), "save_nul": lambda: LANGUAGE.save("a\0b"),
    "gen_save_nul": lambda: generated().save("a\0b.npy"), "gen_save_none": lambda: generated().save(None),
    "ter_str": lambda: unmask.metrics.ter_autoregressive(LANGUAGE, "8"), "deltas_f": lambda: deltas("linear", 4.0),
    "deltas_x": lambda: deltas(None, 4), "profile_str": lambda: information_curve("x", 8),
    "audit_lang": lambda: unmask.audit(TOKENS, "nope", steps=4), "audit_str": lambda: unmask.audit("x", LANGUAGE,
        steps=4),
    "audit_list": lambda: unmask.audit([["a"]], LANGUAGE, steps=4), "audit_steps": lambda: unmask.audit(TOKENS,
        LANGUAGE, steps="4"),
    "oracle_lang": lambda: unmask.oracle("nope"), "oracle_list": lambda: unmask.oracle(LANGUAGE)(TOKENS.tolist()),
    "oracle_np": lambda: unmask.oracle(LANGUAGE)(TOKENS.numpy()),
    "oracle_shift": lambda: unmask.oracle(LANGUAGE, shift="x"),
    "oracle_causal": lambda: unmask.oracle(LANGUAGE, causal=TOKENS),
    "plan_times": lambda: unmask.plan(LANGUAGE, 8, "ser", 0.1, times=3.0),
    "plan_one_time": lambda: unmask.plan(LANGUAGE, 8, "ser", 0.1, times=(3.0,)),
    "plan_shape": lambda: unmask.plan(LANGUAGE, 8, "ser", 0.1, shape="paper"),
    "plan_learning": lambda: unmask.plan(LANGUAGE, 8, "ter", 0.1, learning="net"),
    "names_int": lambda: NGram(2, [0.5, 0.5], [[0.5, 0.5]] * 2).name_tokens(3),
    "names_word": lambda: NGram(2, [0.5, 0.5], [[0.5, 0.5]] * 2).name_tokens("ab"),
    "sizes_flat": lambda: LANGUAGE.sizes([1, 2]), "sizes_one": lambda: LANGUAGE.sizes(3),
    "lengths_word": lambda: LANGUAGE.possible_lengths("x"), "lengths_huge": lambda: LANGUAGE.possible_lengths(10**15),
    "lengths_machine": lambda: Brackets(2).possible_lengths(None),
    "sweep_allow": lambda: unmask.sweep({"name": "x", "jobs": ["theory"]}, allow_imports="os"),
    "sweep_allows": lambda: unmask.sweep({"name": "x", "jobs": ["theory"]}, allow_imports=TOKENS),
    "sweep_fresh": lambda: unmask.sweep({"name": "x", "jobs": ["theory"]}, fresh=TOKENS),
    "oracle_float": lambda: unmask.oracle(LANGUAGE)(TOKENS.double()),
    "sweep_none": lambda: unmask.sweep(None), "sweep_int": lambda: unmask.sweep(3),
    "sweep_list": lambda: unmask.sweep([1]),
    "sweep_storeint": lambda: unmask.sweep({"name": "x", "jobs": ["theory"]}, store=3),
    "sweep_engine": lambda: unmask.sweep({"name": "x", "jobs": ["theory"]}, engine="nope"),
    "net_load_none": lambda: unmask.networks.load(None), "net_load_int": lambda: unmask.networks.load(3),
    "net_torchdev": lambda: unmask.networks.load("nowhere", torch.device("cpu")),
    "net_str": lambda: unmask.networks.Network("x"),
    "prompts2": lambda: unmask.prompts("nope", 3, 8, 2), "prompts0": lambda: unmask.prompts(LANGUAGE, 0, 8, 2),
    "prompts_f": lambda: unmask.prompts(LANGUAGE, 3, 8, 2.5), "plan_str": lambda: unmask.plan("nope", length=8,
        metric="ser", target=0.1),
    "plan_target": lambda: unmask.plan(LANGUAGE, length=8, metric="ser", target="x"),
    "train_none": lambda: unmask.train(None, None, None, "x"),
    "exact_ser": lambda: unmask.metrics.ser("nope", 8, steps=4), "exact_serl": lambda: exact(LANGUAGE, 8, [0.5, 0.5]),
    "exact_lang": lambda: exact("nope", 8, deltas("linear", 4)), "exact_len": lambda: exact(LANGUAGE, "8",
        deltas("linear", 4)),
    "ser_given": lambda: unmask.metrics.ser(LANGUAGE, 8, steps=4, given="x"),
    "ter_given": lambda: unmask.metrics.ter(LANGUAGE, 8, steps=4, given=[1, 2]),
    "check_none": lambda: unmask.check(None), "check_str": lambda: unmask.check("nope"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISUSES)
def test_misuses_are_refused_at_the_door(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnmaskError) as caught:
        MISUSES[name]()
    text = str(caught.value)
    assert text.isprintable()
    assert len(text) <= 2100
    assert not list(tmp_path.iterdir())


MANY = LANGUAGE.sample(200, 8, seed=0)
TAKEN: dict[str, Any] = {
    "score_numpy": lambda: unmask.score(TOKENS.numpy(), LANGUAGE).ser,
    "score_list": lambda: unmask.score(TOKENS.tolist(), LANGUAGE).ser,
    "logprob_np": lambda: LANGUAGE.log_prob(TOKENS.numpy()).tolist(),
    "logprob_list": lambda: LANGUAGE.log_prob(TOKENS.tolist()).tolist(),
    "sup_list": lambda: LANGUAGE.supports(TOKENS.tolist()).tolist(),
    "render_list": lambda: LANGUAGE.render(TOKENS[0].tolist()),
    "sample_given": lambda: LANGUAGE.sample(5, 8, given=[LANGUAGE.vocabulary] * 8).tolist(),
    "audit_np": lambda: unmask.audit(MANY.numpy(), LANGUAGE, steps=4).verdict,
    "audit_list": lambda: unmask.audit(MANY.tolist(), LANGUAGE, steps=4).verdict,
    "gen_rowsnp": lambda: generated(rows=np.int64(5)).tokens.tolist(),
}  # fmt: skip
SAME: dict[str, Any] = {
    "score": lambda: unmask.score(TOKENS, LANGUAGE).ser, "logprob": lambda: LANGUAGE.log_prob(TOKENS).tolist(),
    "sup": lambda: LANGUAGE.supports(TOKENS).tolist(), "render": lambda: LANGUAGE.render(TOKENS[0]),
    "sample": lambda: LANGUAGE.sample(5, 8).tolist(), "audit": lambda: unmask.audit(MANY, LANGUAGE, steps=4).verdict,
    "gen": lambda: generated().tokens.tolist(),
}  # fmt: skip


@pytest.mark.parametrize("name", TAKEN)
def test_what_was_refused_and_is_right_is_taken(name):
    assert TAKEN[name]() == SAME[name.partition("_")[0]]()


def test_what_a_denoiser_of_somebody_raises_is_theirs():
    for sampler in ("ancestral", "left-to-right", "low-confidence"):
        with pytest.raises(ZeroDivisionError):
            asked(_raise, sampler=sampler)
    for pace in ("free", "steps", "counts"):
        with pytest.raises(ZeroDivisionError):
            sampled(_raise, pace)


def test_names_that_are_not_there():
    for name in ("nope", "scores", "thory"):
        with pytest.raises(AttributeError, match=f"has no attribute '{name}'"):
            getattr(unmask, name)


def test_arguments_that_are_not_there_are_pythons_own_error():
    with pytest.raises(TypeError, match="unexpected keyword"):
        unmask.generate(LANGUAGE, step=4)
    with pytest.raises(TypeError, match="positional argument"):
        unmask.generate(LANGUAGE, 4, 8)
    assert inspect.signature(unmask.generate).parameters["steps"]
