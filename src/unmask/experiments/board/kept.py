"""The rows of a curve as one file: what its points are made of again, so that seeds and samplers are joined row by row.

An .npz of numpy, without pickle: an array for each tensor of each budget, "3.ser" being the values of that yardstick at
the budget with index 3 in its family, and the rest as JSON in "about".
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from unmask.core.errors import UnmaskError
from unmask.core.estimates import Estimate
from unmask.experiments.board.cells import Sample
from unmask.metrics import Bigrams

FILE = "curve.npz"
PRICE = "divergence"  # the one tensor that is no yardstick's
AGAIN = "take another store, and it is measured again"


def to_bytes(samples: Mapping[int, Sample]) -> bytes:
    """The samples of one seed by the index of their budget."""
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


def read(path: Path) -> dict[int, Sample]:
    """What `to_bytes` was given."""
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as arrays:
            about = json.loads(str(arrays["about"]))
            for index, fields in about.items():
                fields["bigrams"] = _bigrams(fields["bigrams"])
                names = [name.partition(".")[2] for name in arrays.files if name.startswith(f"{index}.")]
                fields["values"] = {name: torch.from_numpy(arrays[f"{index}.{name}"]) for name in names}
                fields[PRICE] = fields["values"].pop(PRICE)
            return {int(index): Sample(**fields) for index, fields in about.items()}
    except OSError as error:
        raise UnmaskError(f"cannot read {path}: {error.strerror or error}; {AGAIN}") from error
    except (ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise UnmaskError(f"{path} is not what a curve leaves: {error}; {AGAIN}") from error


def _bigrams(fields: dict[str, Any] | None) -> Bigrams | None:
    if fields is None:
        return None
    return Bigrams(**(fields | {"total_variation": Estimate(**fields["total_variation"])}))
