"""The files of a published checkpoint: config.json, and weights in one or several safetensors files."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import torch
from torch import Tensor

from unmask.core.errors import UnmaskError, listed
from unmask.core.memory import fits
from unmask.core.reading import check_file, fit, read_json
from unmask.models.open.body import Body, Count
from unmask.models.trained import checkpoints

CONFIG, WHOLE, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
SAMPLE = 2**12  # bytes of each tensor that the digest reads
MANY = 2**26  # bytes of an index


class Known(msgspec.Struct):
    """The entries of config.json that choose a family and a size; each family reads its own."""

    model_type: str | None = None
    architectures: list[str] | None = None
    vocab_size: Count | None = None
    max_position_embeddings: Count | None = None
    n_positions: Count | None = None


class Index(msgspec.Struct):
    weight_map: dict[str, Annotated[str, msgspec.Meta(max_length=255, pattern=r"^[^/\\]+\.safetensors$")]]


def read_config(directory: Path) -> dict[str, Any]:
    """The content of config.json."""
    path = directory / CONFIG
    if not os.path.exists(path):
        raise UnmaskError(f"{directory} contains no {CONFIG}; expected the directory of a checkpoint")
    content: dict[str, Any] = read_json(path, dict[str, Any], 2**22)
    fit(content, Known, str(path))
    return content


def read(directory: Path) -> dict[str, Tensor]:
    """The tensors of a checkpoint."""
    tensors: dict[str, Tensor] = {}
    for path in _paths(directory):
        with checkpoints.opened(path) as file:
            for name in file.keys():  # noqa: SIM118
                if file.get_slice(name).get_dtype() not in checkpoints.FLOATS:
                    raise UnmaskError(f"{name!r} in {path} is not of a type {', '.join(checkpoints.FLOATS)}")
                tensors[name] = file.get_tensor(name)
    return tensors


def _paths(directory: Path) -> list[Path]:
    if os.path.exists(directory / INDEX):
        named = read_json(directory / INDEX, Index, MANY).weight_map
        shards = [directory / name for name in sorted(set(named.values()))]
        missing = [path.name for path in shards if not os.path.exists(path)]
        if missing:
            raise UnmaskError(f"{directory} lacks {some(missing)}, listed in {INDEX}. Download them, too")

        return shards
    if os.path.exists(directory / WHOLE):
        return [directory / WHOLE]

    others = sorted(path.name for path in directory.glob("*") if path.name.endswith(PICKLES))
    if others:
        raise UnmaskError(
            f"{directory} contains only {some(others)}; pickles can run any code and are not loaded",
            "Convert them to safetensors, or use a revision with safetensors",
        )
    raise UnmaskError(f"{directory} contains no weights; expected {WHOLE} or {INDEX}. Download them, too")


def check_room(directory: Path, device: torch.device) -> None:
    """Raise an error if the files of the weights do not fit into the memory of the device."""
    files = [path for path in directory.glob("*") if path.suffix in (".safetensors", ".bin")]
    whole = sum(map(check_file, files))
    fits(whole, f"bytes of weights in {directory}", 1, "the size of the model", checkpoints.free_on(device))


def digest(body: Body) -> str:
    """A digest of the names, types, shapes and first bytes of all tensors; whole checkpoints are too large."""
    whole = hashlib.sha256()
    for name, tensor in sorted(body.state_dict().items()):
        whole.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\0".encode())
        first = tensor.reshape(-1)[: SAMPLE // tensor.element_size()].cpu().contiguous()
        whole.update(first.view(torch.uint8).numpy().tobytes())
    return whole.hexdigest()[:16]


def some(names: Sequence[str]) -> str:
    """The first of these names, and how many more there are."""
    return listed(map(repr, names), most=3)
