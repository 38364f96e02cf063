"""What tests/shapes.py holds in every test: signatures with shapes mean what they say."""

from __future__ import annotations

from dataclasses import fields
from importlib import import_module

import pytest
import torch

from tests.shapes import MODULES, functions
from unmask import load
from unmask.core.chance import Randomness
from unmask.denoisers import as_denoiser
from unmask.denoisers.canvas import Canvas
from unmask.denoisers.contracts import Engine
from unmask.denoisers.marginals import Marginals, Table
from unmask.samplers.session import Session
from unmask.samplers.view import View


def canvas() -> Canvas:
    denoiser = as_denoiser(load("paper-2gram"), "mask")
    return Canvas(denoiser, torch.full((2, 3), denoiser.vocabulary), Randomness(0, torch.arange(2)))


WRONG = {
    "entries of two numbers": lambda: canvas().at(torch.tensor([0, 0]), torch.tensor([0, 1, 2])),
    "times of another number of rows": lambda: canvas()._engine.at(
        torch.tensor([0]), torch.tensor([0]), torch.zeros((1, 2))
    ),
    "uniforms of another number": lambda: Table(torch.full((2, 3), 1 / 3)).draw(torch.zeros((2, 1))),
    "whole numbers as probabilities": lambda: Table(torch.ones((2, 3), dtype=torch.int64)),
    "an order of another length": lambda: canvas()._engine.follow(
        torch.ones((2, 3), dtype=torch.int64), None, torch.zeros((2, 2), dtype=torch.int64)
    ),
}


@pytest.mark.parametrize("call", WRONG.values(), ids=WRONG)
def test_another_shape_is_told(call):
    with pytest.raises(TypeError, match="expected"):
        call()


def test_the_shapes_are_there():
    """A hundred signatures and more, and those of the words that a sampler meets."""
    held = [member for path in MODULES for _, _, member in functions(import_module(path))]
    wrapped = [getattr(member, "fget", None) or getattr(member, "func", None) or member for member in held]
    assert sum(hasattr(one, "__wrapped__") for one in wrapped) >= 100
    for kind, name in ((Engine, "at"), (Canvas, "at"), (Marginals, "draw"), (Session, "write")):
        assert "[Tensor," in str(vars(kind)[name].__annotations__)
    assert sum("[Tensor," in str(field.type) for field in fields(View)) >= 8
