"""The benchmarks run, and what they time computes what it should; no test says how long anything takes."""

from __future__ import annotations

import json
from itertools import product

import numpy as np
import pytest
import torch

from benchmarks import (
    causal,
    clusters,
    gap,
    generation,
    joint_text,
    learning,
    networks,
    pages,
    passes,
    peers,
    scaling,
    sweeps,
    training,
    vocabulary,
)
from benchmarks.timing import Report, Work, agree, resume
from tests.needs import needs
from tests.sparing import held_out_in_part, in_this_process
from unmask import generate, languages
from unmask.models.text import NGramJudge
from unmask.models.text.ngrams import END

pytestmark = pytest.mark.filterwarnings("ignore")  # those that the peers raise when they are imported


@pytest.fixture
def report(tmp_path) -> Report:
    return Report("toy", tmp_path)


@pytest.fixture(params=[pytest.param(name, marks=needs(name)) for name in peers.PEERS])
def peer_name(request) -> str:
    return request.param


@pytest.mark.long
@pytest.mark.parametrize(
    "part",
    [passes, causal, generation, scaling, networks, gap, training, learning, sweeps, clusters, vocabulary, pages],
    ids=lambda part: part.__name__,
)
def test_runs_and_reports(part, report, capsys, monkeypatch):
    monkeypatch.setattr(peers, "PEERS", {"torch": peers.Torch})
    monkeypatch.setattr(peers, "find_spec", lambda name: object() if name == "torch" else None)
    monkeypatch.setattr(clusters, "find_spec", lambda name: None)  # a cluster has tests of its own
    monkeypatch.setattr(pages, "find_spec", lambda name: None)  # the browser of a process is that of its tests
    with in_this_process(), held_out_in_part():
        part.measure(report)
    report.show()
    result = json.loads(capsys.readouterr().out.splitlines()[-1], parse_constant=pytest.fail)
    assert result["size"] == "toy"
    assert result["machine"]["threads"] >= 1
    for m in result["measurements"]:
        assert 0 < m["low"] <= m["seconds"] <= m["high"]
        assert (m["ratio"] is None) == (m["who"] == "unmask")
    assert all(check["met"] is None for check in result["checks"])
    assert all(
        reason == peers.INSTALL
        for name, reason in result["missing"].items()
        if not name.startswith(("figure", "clusters"))
    )


@pytest.mark.parametrize("language", ["paper-2gram", "paper-hmm"])
def test_peers_compute_the_posterior(peer_name, language):
    language = languages.load(language)
    tokens = language.sample(5, 9, seed=3)
    hidden = torch.rand((5, 9), generator=torch.Generator().manual_seed(4)) < 0.6
    tokens = torch.where(hidden, language.vocabulary, tokens)
    peer = peers.PEERS[peer_name](peers.tables(language))
    marginals = language.posterior(tokens)[hidden]
    np.testing.assert_allclose(peer.marginals(tokens.numpy())[hidden.numpy()], marginals, atol=1e-5)
    emission = peers.tables(language).emission
    np.testing.assert_allclose(peer.states(tokens.numpy())[hidden.numpy()] @ emission, marginals, atol=1e-5)


@pytest.mark.parametrize("name", [pytest.param(name, marks=needs(name)) for name in ("dynamax", "hmmlearn")])
def test_peers_compute_the_likelihood(name):
    language = languages.load("paper-hmm")
    tokens = language.sample(5, 9, seed=3)
    theirs = np.sum(peers.PEERS[name](peers.tables(language)).log_prob(tokens.numpy()))
    assert theirs == pytest.approx(float(language.log_prob(tokens).sum()), rel=1e-5)


@pytest.mark.parametrize("threads", [1, 2])
def test_peers_make_the_same_rows(peer_name, threads):
    """By recomputing every changed row in every step, with our steps and our randomness."""
    language = languages.load("paper-hmm")
    made = generate(language, rows=7, length=12, steps=8, seed=generation.SEED)
    peer = peers.PEERS[peer_name](peers.tables(language))
    again = generation.regenerate(peer, language, made, rows=7, chunk=3, threads_used=threads)
    assert again.equal(made.tokens)


def test_turns_skip_the_empty_rounds():
    order = np.array([[7, 2, 7, 5], [1, 1, 1, 1], [4, 3, 2, 1]])
    assert generation.turns_of(order).tolist() == [[3, 1, 3, 2], [1, 1, 1, 1], [4, 3, 2, 1]]


def test_a_race_counts_rows_and_patience(report):
    calls = []
    works = {
        "unmask": Work(lambda: calls.append("a"), 1),
        "peer": Work(lambda: calls.append("b"), 1, rows=1, first=9.0),
    }
    found = report.race("task", 4, 8, works, repeats=2)
    assert calls == ["a", "a", "b", "a", "b"]
    assert found["peer"].first == 9.0
    a_row = found["unmask"].seconds / 4
    assert found["peer"].ratio == pytest.approx(found["peer"].seconds / a_row)
    calls.clear()
    report.race("task", 4, 8, works, repeats=2, patience=0.0)
    assert calls == ["a", "a", "b"]


def test_targets_are_judged_at_full_size_only(tmp_path):
    for size, met in (("full", [True, False]), ("quick", [None, None])):
        report = Report(size, tmp_path)
        report.at_most("time", 1.0, 2.0)
        report.at_least("ratio", 1.0, 2.0)
        assert [check.met for check in report.checks] == met
        assert [check.verdict for check in report.checks] == (["met", "MISSED by 50%"] if met[0] else ["-", "-"])


def test_an_interrupted_run_goes_on(tmp_path):
    """The second part fails once: the first is not repeated, and the files of parts go when all are there."""
    done: list[str] = []

    def first(report: Report) -> None:
        done.append("first")
        report.race("task", 4, 8, {"unmask": Work(int, 1), "peer": Work(int, 1)}, repeats=1)
        report.missing["other"] = "absent"

    def second(report: Report) -> None:
        done.append("second")
        if done.count("second") == 1:
            raise KeyboardInterrupt
        report.at_most("time", 1.0, 2.0)

    first.__module__, second.__module__ = "benchmarks.one", "benchmarks.two"
    with pytest.raises(KeyboardInterrupt):
        resume(Report("full", tmp_path), [first, second])
    report = Report("full", tmp_path)
    resume(report, [first, second])
    assert done == ["first", "second", "second"]
    assert [m.who for m in report.measurements] == ["unmask", "peer"]
    assert [check.met for check in report.checks] == [True]
    assert report.missing == {"other": "absent"}
    assert not list(tmp_path.iterdir())


def test_who_computes_something_else_is_not_timed():
    agree("near", [1.0], [1.0 + 1e-7], 1e-6)
    with pytest.raises(SystemExit, match="far differs from unmask by 1"):
        agree("far", [1.0], [2.0], 1e-6)
    with pytest.raises(SystemExit, match="nan"):
        agree("far", [np.nan], [2.0], 1e-6)


def test_windows_of_a_text_are_those_of_its_judge():
    judge = NGramJudge(["abracadabra"], 3)
    symbols = sorted(judge.symbols)
    table = joint_text.pooled(np.array([symbols.index(c) for c in "abracadabra" + END]), len(symbols), 3)
    assert table.sum() == pytest.approx(1)
    for row, context in zip(table, product(symbols, symbols), strict=True):
        assert row / row.sum() == pytest.approx([judge.probability(c, "".join(context)) for c in symbols])
