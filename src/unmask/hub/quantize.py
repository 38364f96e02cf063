"""Quantize weights to 8 or 4 bits with torchao: a quarter or an eighth of float32. Results name the quantization."""

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
HEAD = "lm_head"  # is not quantized


def quantize(body: Body, kind: str) -> Body:
    """Quantize the matrices of a body's layers in place, and return it."""
    arguments.word("quantize", kind, CONFIGS)
    with _quiet():
        try:
            from torchao import quantization
        except ImportError as error:
            raise UnmaskError(f"--quantize {kind} needs torchao. Run: pip install torchao") from error
        try:
            config = getattr(quantization, CONFIGS[kind])()
            quantization.quantize_(
                body, config, lambda module, name: isinstance(module, nn.Linear) and HEAD not in name
            )
        except (ImportError, RuntimeError, ValueError, NotImplementedError, AssertionError) as error:
            reason = cut(str(error).splitlines()[0])
            problem = f"torchao cannot convert {body.dtype} to {kind} on {body.device}: {reason}"
            raise UnmaskError(f"{problem}. Try --dtype bfloat16, or int8") from error
    return body


@contextmanager
def _quiet() -> Iterator[None]:
    """Hide the warnings of torchao about each library that does not fit this machine."""
    usual = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(usual)
