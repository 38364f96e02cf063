"""The rows of a curve in one file, so that seeds and samplers can be joined row by row.

It is an .npz of numpy without pickle, with an array for each tensor of each budget. "3.ser" has the values of that
metric at the budget with index 3 in its family. "about" has all other fields as JSON.
"""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unmask.core.errors import UnmaskError, cut
from unmask.core.memory import size
from unmask.core.reading import fit, read_bytes
from unmask.core.samples import HEADER
from unmask.experiments.board.cells import Sample
from unmask.metrics import Bigrams

FILE = "curve.npz"
PRICE = "divergence"  # the only tensor that is not a metric
MOST = 2**30  # unpacked bytes
BROKEN = (*HEADER, KeyError, RuntimeError, NotImplementedError, zipfile.BadZipFile, zlib.error)
AGAIN = "choose another store to measure it again"


def to_bytes(samples: Mapping[int, Sample]) -> bytes:
    """Encode the samples of one seed, by the index of their budget."""
    arrays: dict[str, Any] = {}
    about = {}
    for index, sample in samples.items():
        fields = asdict(sample)
        tensors = fields.pop("values") | {PRICE: fields.pop(PRICE)}
        arrays |= {f"{index}.{name}": tensor.numpy() for name, tensor in tensors.items()}
        about[index] = fields
    file = io.BytesIO()
    np.savez_compressed(file, about=np.array(json.dumps(about)), **arrays)
    return file.getvalue()


class About(msgspec.Struct, forbid_unknown_fields=True):
    """The fields of a sample in a file, without its tensors."""

    digest: str
    model_calls_of: dict[str, float]
    forwards: int
    own_bits: float | None
    bigrams: Bigrams | None
    proper: bool
    unbounded: str


def read(path: Path, rows: int) -> dict[int, Sample]:
    """Read the samples of a file; each must have this number of rows."""
    content = read_bytes(path, MOST)
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            whole = sum(member.file_size for member in archive.infolist())
        if whole > MOST:
            raise UnmaskError(f"it unpacks to {size(whole)}; expected at most {size(MOST)}")
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            tensors = {name: _tensor(name, arrays[name]) for name in arrays.files if name != "about"}
            about = fit(json.loads(str(arrays["about"])), dict[str, About], "about")  # an end may be infinite
        return {int(index): _sample(index, entry, tensors, rows) for index, entry in about.items()}
    except (UnmaskError, *BROKEN) as error:
        raise UnmaskError(f"{path} has no results of a curve: {cut(str(error))}; {AGAIN}") from error


def _sample(index: str, about: About, tensors: Mapping[str, Tensor], rows: int) -> Sample:
    values = {name.removeprefix(f"{index}."): t for name, t in tensors.items() if name.startswith(f"{index}.")}
    sizes = {name: len(tensor) for name, tensor in values.items() if name != PRICE}
    if {*sizes.values()} != {rows} or not {"ser", "model_calls"} <= sizes.keys() or PRICE not in values:
        raise ValueError(f"budget {index} has the rows {sizes}; expected {rows} of each")
    return Sample(values=values, divergence=values.pop(PRICE), **msgspec.structs.asdict(about))


def _tensor(name: str, array: NDArray[Any]) -> Tensor:
    if array.ndim != 1 or array.dtype.kind not in "fiu":
        raise ValueError(f"{name} is {array.dtype} of shape {array.shape}")
    return torch.from_numpy(array)
