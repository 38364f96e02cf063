"""A trace in the eyes of its model: that of an ideal denoiser is the language's, that of a toy is by enumeration."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch

import unmask
from tests.diagnosis.gap.toys import Toy, chained, table
from unmask.diagnosis import reveal
from unmask.diagnosis.reveal import read, read_by_model
from unmask.samplers.trace import read as read_trace


def test_an_ideal_denoiser_says_what_its_language_says():
    """Also with tokens that are hidden again: then the meter of the path counts each of their draws."""
    language = unmask.languages.load("sparse-hmm(pruned=False)")
    trace = unmask.generate(language, steps=3, length=12, rows=4, seed=2, trace=True).trace()
    for row, own in enumerate(read_by_model(unmask.denoisers.Ideal(language), trace)):
        truth = read(language, trace, row)
        assert own.lost == pytest.approx(truth.lost, abs=1e-9)
        assert [one.meter for one in own.steps] == pytest.approx([one.meter for one in truth.steps], abs=1e-9)
        assert own.impossible is None
    revised = unmask.generate(language, sampler="remdm", steps=6, length=12, rows=2, seed=2, trace=True).trace()
    steps = [len(one.steps) for one in read_by_model(unmask.denoisers.Ideal(language), revised)]
    assert steps == [len(list(row.steps())) for row in revised.rows]


def test_losses_and_arcs_of_an_inconsistent_model():
    toy = Toy(4, 0.4)
    generation = unmask.generate(toy, sampler="fixed-size", steps=2, length=4, rows=6, seed=1)
    trace = generation.trace()
    for row, own in enumerate(read_by_model(toy, trace)):
        tokens, order = generation.tokens[row].tolist(), generation.order[row].tolist()
        context, total = (3,) * 4, 0.0
        for step in (1, 2):
            places = [i for i in range(4) if order[i] == step]
            marginals = table(4, 0.4, context)
            total += sum(math.log(marginals[i][tokens[i]]) for i in places)
            total -= chained(toy, context, tuple(tokens), tuple(places))
            i, j = places
            nats = []
            for seen, other in ((i, j), (j, i)):
                after = table(4, 0.4, tuple(tokens[k] if k == seen else t for k, t in enumerate(context)))[other]
                nats.append(float((after * np.log(after / marginals[other])).sum()))
            assert own.steps[step - 1].pairs == ((i, j, pytest.approx(max(nats))),)
            context = tuple(tokens[k] if k in places else t for k, t in enumerate(context))
        assert own.lost == pytest.approx(total)


def test_what_the_model_excludes_is_an_infinite_loss():
    """A pruned language: the steps that are impossible are the same, and the page gives the reason."""
    language = unmask.languages.load("paper-2gram")
    trace = unmask.generate(language, steps=2, length=16, rows=6, seed=1, trace=True).trace()
    own, truth = (
        read_by_model(unmask.denoisers.Ideal(language), trace),
        [read(language, trace, row) for row in range(6)],
    )
    assert [one.impossible for one in own] == [one.impossible for one in truth]
    assert {one.why for one in own if one.impossible is not None} == {reveal.EXCLUDED}


def test_the_page_says_which(tmp_path, monkeypatch, capsys):
    from unmask.cli.main import main

    monkeypatch.chdir(tmp_path)
    words = ["play", "--language", "sparse-hmm(pruned=False)", "--length", "12", "--steps", "4", "--rows", "3", "--gap"]
    assert main([*words, "--json"]) == 0
    said = json.loads(capsys.readouterr().out.splitlines()[-1])["ancestral, 4 steps"]
    assert said["measured_by"] == "the ideal denoiser of hmm"
    assert '"measured":"model"' in (tmp_path / "play.html").read_text().replace(" ", "")
    assert main([*words, "--out", "t.json"]) == 0
    assert len(read_trace(tmp_path / "t.json").rows) == 3
    assert main(["play", "t.json", "--gap"]) == 2
    assert "--gap needs the model" in capsys.readouterr().err
    assert main(["play", "t.json", "--gap", "--language", "sparse-hmm(pruned=False)", "--json"]) == 0
    again = json.loads(capsys.readouterr().out.splitlines()[-1])["ancestral"]
    assert again["nats_lost"] == pytest.approx(said["nats_lost"], abs=1e-6)
    assert torch.is_grad_enabled()
