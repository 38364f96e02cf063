"""A board as a sweep: what a cell keeps, how seeds are joined, and what an interruption leaves."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import pytest
import torch

from tests.experiments.sweeps.conftest import results
from unmask import UnmaskError
from unmask.experiments import sweep
from unmask.experiments.board import Settings, board
from unmask.experiments.board import curve as measuring
from unmask.experiments.board.curve import FILE, Ground, Point, Sample, from_file, joined, measure, to_bytes
from unmask.experiments.board.families import family
from unmask.experiments.board.run import measured
from unmask.experiments.cell import cells_of, check
from unmask.experiments.recipe import from_dict
from unmask.languages.presets import varied

TINY = {"languages": ("paper-2gram", "interval-5"), "lengths": (20,), "rows": 30, "seeds": 2, "steps": (2, 5, 20)}
PLACE = {"languages": ("paper-2gram",), "lengths": (20,)}
FEW = Settings(samplers=("ancestral", "low-confidence", "speculative", "autoregressive"), **TINY)


@pytest.fixture(scope="module")
def undisturbed():
    return board(FEW)


@pytest.fixture
def counted(monkeypatch):
    """How often each budget is measured; `last` is how many are before an interruption."""
    seen: Counter[tuple[object, ...]] = Counter()
    limit = SimpleNamespace(seen=seen, last=None)

    def counting(ground, sampler, steps, *rest):
        if limit.last is not None and seen.total() >= limit.last:
            raise KeyboardInterrupt
        seen[ground.language, ground.seed, sampler.partition("(")[0], sampler, steps] += 1
        return measure(ground, sampler, steps, *rest)

    monkeypatch.setattr(measuring, "measure", counting)
    return limit


@pytest.mark.long
def test_an_interrupted_board_goes_on_where_it_was(tmp_path, undisturbed, counted):
    counted.last = 8  # in the middle of a cell
    with pytest.raises(KeyboardInterrupt):
        board(FEW, store=tmp_path / "s")
    before = Counter(counted.seen)
    counted.last = None
    made = board(FEW, store=tmp_path / "s")
    assert made.records == undisturbed.records
    again = [about for about, times in counted.seen.items() if times > 1]
    assert len({about[:3] for about in again}) <= 1 < len({about[:3] for about in before})  # the cell that was running
    seen = counted.seen.total()
    assert board(FEW, store=tmp_path / "s").records == undisturbed.records
    assert counted.seen.total() == seen


@pytest.mark.long
def test_processes_and_this_one_agree_to_the_bit(tmp_path, undisturbed):
    made = board(FEW, store=tmp_path / "s", engine="local", workers=2)
    assert made.records == undisturbed.records
    board(FEW, store=tmp_path / "t")
    assert results(tmp_path / "s") == results(tmp_path / "t")


@pytest.mark.long
def test_the_board_grows(tmp_path, undisturbed, counted):
    fewer = Settings(samplers=("autoregressive", "ancestral"), **TINY)
    board(fewer, store=tmp_path / "s")
    assert board(FEW, store=tmp_path / "s").records == undisturbed.records
    assert max(counted.seen.values()) == 1


def test_a_seed_that_costs_as_much_as_ar_before_the_others_stops_none_of_them():
    """Every budget measured for all seeds, up to that which costs all together as much as AR."""
    grounds = [Ground(varied("paper-2gram", seed=seed), length=20, seed=seed) for seed in range(3)]
    member = family("threshold", 20)
    expected, ends = [], {}
    for value in member.values:
        samples = [measure(ground, *member.at(value), 30, 0) for ground in grounds]
        ends[value] = [float(sample.values["model_calls"].double().mean()) for sample in samples]
        point = Point(value, samples, 20)
        expected.append((value, point.ser.value, point.model_calls))
        if point.model_calls >= 20:
            break
    assert min(ends[0.7]) < 20 <= max(ends[0.7])  # they differ
    found = board(Settings(samplers=("threshold",), **PLACE, rows=30, seeds=3, ter_share=0)).of("ser")
    assert [tuple(r[name] for name in ("budget", "value", "model_calls")) for r in found] == expected


def fake(model_calls, digest):
    return SimpleNamespace(values={"model_calls": torch.full((4,), float(model_calls))}, digest=digest)


def test_budgets_that_all_seeds_have_are_joined():
    member = family("ancestral(steps=[1, 2, 3, 4])", 20)
    seeds = [{0: fake(1, "a"), 1: fake(2, "b"), 3: fake(9, "d")}, {0: fake(3, "e"), 2: fake(5, "f"), 3: fake(7, "g")}]
    points = joined(member, 20, seeds)
    assert [(point.value, point.model_calls) for point in points] == [(1, 2.0), (4, 8.0)]
    assert [sample.digest for sample in points[1].samples] == ["d", "g"]
    assert joined(member, 20, [{0: fake(1, "a")}, {}]) == []
    same = [{i: fake(5, "a") for i in range(4)}, {i: fake(5, "b" if i < 2 else "c") for i in range(4)}]
    assert [point.value for point in joined(member, 20, same)] == [1]
    assert [point.value for point in joined(member, 5, seeds)] == [1, 4]
    assert [point.value for point in joined(member, 2, seeds)] == [1]


@pytest.mark.parametrize("seed", [0, 1])
def test_what_a_curve_keeps_is_read_again(tmp_path, seed):
    rng = torch.Generator().manual_seed(seed)
    sample = Sample(
        digest="0123",
        values={
            "ser": torch.arange(5).double() % 2,
            "model_calls": torch.ones(5),
            "generative_perplexity": torch.rand(5, generator=rng).double(),
        },
        calls_of={"denoiser": 1 / 3, "causal": 0.1},
        own_bits=1 / 3 if seed else None,
        diversity=0.1 + 0.2 if seed else None,
        divergence=torch.tensor([0.1, float("inf")], dtype=torch.float64),
        proper=bool(seed),
        unbounded="why",
    )
    content = to_bytes({0: sample, 12: sample})
    assert content == to_bytes({0: sample, 12: sample})
    (tmp_path / FILE).write_bytes(content)
    found = from_file(tmp_path / FILE, 5)
    assert list(found) == [0, 12]
    for name in Sample.__dataclass_fields__:
        ours, theirs = getattr(sample, name), getattr(found[12], name)
        if name == "values":
            assert list(ours) == list(theirs)
            assert all(torch.equal(ours[key], theirs[key]) for key in ours)
        elif name == "divergence":
            assert torch.equal(ours, theirs)
        else:
            assert ours == theirs
    (tmp_path / FILE).write_bytes(content[:-40])
    with pytest.raises(UnmaskError, match="no results of a curve"):
        from_file(tmp_path / FILE, 5)
    with pytest.raises(UnmaskError, match="nowhere has no results of a curve"):
        from_file(tmp_path / "nowhere", 5)


def test_a_cell_says_each_budget_of_one_seed(tmp_path, undisturbed):
    content = {
        "name": "t",
        "jobs": ["curve(rows=30, ter_rows=15)", "theory"],
        "zip": {"language.seed": [0, 1], "seed": [0, 1]},
    }
    fixed = {"language": "interval-5", "length": 20, "sampler": "ancestral(steps=[2, 5, 20])"}
    made = sweep(content | {"fixed": fixed | {"steps": 5}}, store=tmp_path / "s", engine="here")
    rows = [row for row in made.rows() if row["measure"] == "ser" and row["job"] == "curve"]
    assert [(row["seed"], row["knob"], row["budget"], row["n"]) for row in rows] == [
        (seed, "steps", n, 30) for seed in (0, 1) for n in (2, 5, 20)
    ]
    whole = [r for r in undisturbed.of("ser") if (r["language"], r["sampler"]) == ("interval-5", "ancestral")]
    assert [r["by_seed"] for r in whole] == [[rows[i]["value"], rows[3 + i]["value"]] for i in range(3)]
    found, failures = measured(made)  # which leaves the cells of other metrics alone
    assert [(m.language, m.length, m.family.specification, len(m.points)) for m in found] == [
        ("interval-5", 20, "ancestral", 3)
    ]
    assert failures == []


def test_a_budget_that_fails_is_a_record(tmp_path):
    content = {"name": "t", "jobs": ["curve"], "rows": 4}
    fixed = {"language": "interval-5", "length": 20, "sampler": "blocks(block_length=5, steps=[2, 20])", "ter_rows": 0}
    made = sweep(content | {"fixed": fixed}, store=tmp_path / "s", engine="here")
    (failed,) = (row for row in made.rows() if row["measure"] == "failure")
    assert (failed["knob"], failed["budget"], failed["value"]) == ("steps", 2, None)
    assert failed["note"] == "steps is 2 for 4 blocks of 5 positions; expected at least 4 steps"
    assert [row["budget"] for row in made.rows() if row["measure"] == "ser"] == [20]


def test_a_cell_that_fails_as_a_whole_is_reported(tmp_path, monkeypatch):
    """One seed of one language: the other seed alone is not shown for both."""
    now = [Ground()]

    def seen(ground, *rest):
        now[:] = [ground]
        return measure(ground, *rest)

    def broken(samples):
        if (now[0].language, now[0].seed) == ("interval-5", 1):
            raise OSError("the disk is gone")
        return to_bytes(samples)

    monkeypatch.setattr(measuring, "measure", seen)
    monkeypatch.setattr(measuring, "to_bytes", broken)
    made = board(Settings(samplers=("ancestral", "strided"), **TINY), store=tmp_path / "s")
    assert {r["language"] for r in made.records} == {"paper-2gram"}
    found = [(f.language, f.sampler, f.knob, f.value) for f in made.failures]
    assert found == [("interval-5", name, "steps", None) for name in ("ancestral", "strided")]
    assert made.failures[0].message.startswith("OSError: the disk is gone")
    with pytest.raises(UnmaskError, match="no sampler could be measured; ancestral: OSError"):
        board(Settings(samplers=("ancestral",), **(TINY | {"languages": ("interval-5",)})), store=tmp_path / "s")


@pytest.mark.parametrize(
    ("fixed", "expected"),
    [
        ({"sampler": "nobody"}, "unknown sampler"),
        ({"sampler": "ancestral(steps=[0])"}, "steps of sampler"),
        ({"language": "paper-5gram"}, "did you mean"),
        ({"language": "modular-sum"}, "20"),
        ({"length": 1}, "at least 2 tokens"),
        ({"ter_rows": -1}, "ter_rows is -1"),
        ({"language": ""}, "neither a language nor a model"),
        ({"causal_model": "ar"}, "a causal model needs a model"),
        ({"model": "mdm"}, "leave the language out"),
        ({"language": "", "model": "nowhere"}, "the language of nowhere is unknown"),
    ],
)
def test_mistakes_are_found_before_anything_is_measured(tmp_path, monkeypatch, fixed, expected):
    monkeypatch.setattr(measuring, "measure", pytest.fail)
    usual = {"language": "interval-5", "length": 20, "sampler": "ancestral"}
    content = {"name": "t", "jobs": ["curve"], "fixed": usual | fixed}
    with pytest.raises(UnmaskError, match=expected):
        check(cells_of(from_dict(content)))
    with pytest.raises(UnmaskError, match=expected):
        sweep(content, store=tmp_path / "s", engine="here")
