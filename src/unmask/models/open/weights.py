"""The weights of a published checkpoint, in one or several safetensors files; each tensor must be used.

The files are mapped into memory and become the parameters without a copy. For another type, device or shape, one tensor
at a time is copied.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any

import msgspec
import torch
from torch import Tensor

from unmask.core import progress
from unmask.core.arguments import fits
from unmask.core.errors import UnmaskError, shown
from unmask.core.reading import read_json
from unmask.models.open.card import Family
from unmask.models.open.decoder import Body
from unmask.models.trained import checkpoints

CONFIG, WHOLE, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
SHOWN = 12  # problems per error
SAMPLE = 2**12  # bytes of each tensor that the digest reads
MANY = 2**26  # bytes of an index


class Index(msgspec.Struct):
    weight_map: dict[str, Annotated[str, msgspec.Meta(max_length=255, pattern=r"^[^/\\]+\.safetensors$")]]


def read_config(directory: Path) -> dict[str, Any]:
    """The content of config.json."""
    path = directory / CONFIG
    if not os.path.exists(path):
        raise UnmaskError(f"{directory} contains no {CONFIG}; expected the directory of a checkpoint")
    return read_json(path, dict[str, Any], 2**22)


class Files(Mapping[str, Any]):
    """The headers of a checkpoint's tensors, by name; `read` loads one tensor."""

    def __init__(self, directory: Path, opened: Sequence[Any]) -> None:
        self.directory = directory
        self._files = {name: file for file in opened for name in file.keys()}  # noqa: SIM118

    def __getitem__(self, name: str) -> Any:
        return self._files[name].get_slice(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

    def read(self, name: str) -> Tensor:
        return self._files[name].get_tensor(name)


@contextmanager
def opened(directory: Path) -> Iterator[Files]:
    """Open the files of a checkpoint, and read their headers."""
    with ExitStack() as stack:
        yield Files(directory, [stack.enter_context(checkpoints.opened(path)) for path in _paths(directory)])


def _paths(directory: Path) -> list[Path]:
    if os.path.exists(directory / INDEX):
        named = read_json(directory / INDEX, Index, MANY).weight_map
        shards = [directory / name for name in sorted(set(named.values()))]
        missing = [path.name for path in shards if not os.path.exists(path)]
        if missing:
            raise UnmaskError(f"{directory} lacks {_some(missing)}, listed in {INDEX}. Download them, too")
        return shards
    if os.path.exists(directory / WHOLE):
        return [directory / WHOLE]
    others = sorted(name for name in os.listdir(directory) if name.endswith(PICKLES)) if directory.is_dir() else []
    if others:
        problem = f"{directory} contains only {_some(others)}; pickles can run any code and are not loaded"
        raise UnmaskError(f"{problem}. Convert them to safetensors, or use a revision with safetensors")
    raise UnmaskError(f"{directory} contains no weights; expected {WHOLE} or {INDEX}. Download them, too")


def fill(body: Body, family: Family, directory: Path, device: torch.device, dtype: torch.dtype | None) -> None:
    """Load the tensors of a checkpoint into a body on the meta device."""
    with opened(directory) as files:
        _fill(body, family, files, device, dtype)


def _fill(body: Body, family: Family, files: Files, device: torch.device, dtype: torch.dtype | None) -> None:
    """The same; an error lists all problems of the files."""
    assert family.sources is not None
    misfits = list(problems(body, family, files))
    if misfits:
        more = f" (and {len(misfits) - SHOWN} more)" if len(misfits) > SHOWN else ""
        listed = "; ".join(misfits[:SHOWN])
        raise UnmaskError(f"the weights in {files.directory} do not fit its {CONFIG}: {listed}{more}")
    count = sum(weight.numel() for weight in body.parameters())
    each = (dtype or files.read(next(iter(files))).dtype).itemsize
    lower = "the size of the model or of its weights (--dtype)"
    fits(count, f"parameters of {files.directory}", each, lower, checkpoints.free_on(device))
    sources, state = family.sources(body, frozenset(files)), {}
    with progress.track("loading weights", len(body.state_dict())) as advance:
        for name, empty in body.state_dict().items():
            make, tensors = sources[name].make, [files.read(source) for source in sources[name].names]
            tensor = tensors[0] if make is None else make(tensors)
            if tensor.shape != empty.shape:
                problem = f"{_some(sources[name].names)} in {files.directory} give {name!r} the shape"
                raise UnmaskError(f"{problem} {tuple(tensor.shape)}; expected {tuple(empty.shape)} by {CONFIG}")
            state[name] = tensor.to(device, dtype)
            advance(1)
    body.load_state_dict(state, assign=True)
    body.requires_grad_(False).eval()


def problems(body: Body, family: Family, files: Files) -> Iterator[str]:
    """Each tensor that is missing, unused, or of another type or shape."""
    assert family.sources is not None
    sources, used = family.sources(body, frozenset(files)), set()
    for name, empty in body.state_dict().items():
        parts = sources[name].shapes or (tuple(empty.shape),) * (sources[name].make is None)
        for source, expected in zip_longest(sources[name].names, parts):
            if source in used:
                continue
            used.add(source)
            if source not in files:
                yield f"no {source!r}"
                continue
            header = files[source]
            if header.get_dtype() not in checkpoints.FLOATS:
                yield f"{source!r} is of type {header.get_dtype()}, not {', '.join(checkpoints.FLOATS)}"
            elif expected is not None and (size := tuple(header.get_shape())) != expected:
                yield f"{source!r} is {size}, not {expected}"
    for name in files:
        if name not in used and not any(re.search(pattern, name) for pattern in family.unused):
            yield f"{shown(name)} is not used"


def digest(body: Body) -> str:
    """A digest of the names, types, shapes and first bytes of all tensors; whole checkpoints are too large."""
    whole = hashlib.sha256()
    for name, tensor in sorted(body.state_dict().items()):
        whole.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\0".encode())
        first = tensor.reshape(-1)[: SAMPLE // tensor.element_size()].cpu().contiguous()
        whole.update(first.view(torch.uint8).numpy().tobytes())
    return whole.hexdigest()[:16]


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(map(repr, names[:3])) + more
