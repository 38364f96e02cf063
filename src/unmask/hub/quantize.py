"""Weights in 8 or 4 bits, by torchao: a quarter or an eighth of float32, and another model, which results name."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from unmask.core import arguments
from unmask.core.errors import UnmaskError, cut
from unmask.hub.body import Body

CONFIGS = {"int8": "Int8WeightOnlyConfig", "int4": "Int4WeightOnlyConfig"}
HEAD = "lm_head"  # stays as it is: what is decided upon


def quantize(body: Body, kind: str) -> Body:
    """The body itself, the matrices of its layers being what torchao makes of them."""
    arguments.word("quantize", kind, CONFIGS)
    with _quiet():
        try:
            from torchao import quantization
        except ImportError as error:
            raise UnmaskError(f"--quantize {kind} needs torchao, which is not here; pip install torchao") from error
        try:
            config = getattr(quantization, CONFIGS[kind])()
            quantization.quantize_(
                body, config, lambda module, name: isinstance(module, nn.Linear) and HEAD not in name
            )
        except (ImportError, RuntimeError, ValueError, NotImplementedError, AssertionError) as error:
            what = f"torchao cannot make {kind} of {body.dtype} on {body.device}: {cut(str(error).splitlines()[0])}"
            raise UnmaskError(f"{what}; try --dtype bfloat16, or int8") from error
    return body


@contextmanager
def _quiet() -> Iterator[None]:
    """torchao says of each of its libraries that does not fit this machine."""
    usual = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(usual)
