"""Files of a trained network, and of a training that can be resumed: safetensors and JSON, no pickle.

    config.json        the shape; `load` and transformers read this file and the weights
    model.safetensors  the weights (their moving average, if there is one)
    training.json      training options, losses, origin
    losses.csv         the losses of each validation, for other programs
    tokenizer.json     for a text: characters to tokens and back (models/text/tokenizers.py)
    state.safetensors  state of the training: raw weights, average, optimiser, step; `--resume` reads only this file

A file gets its name only when it is complete, so that all files are whole after a kill. The state is written first and
is never older than the other files.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import msgspec
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes
from torch import Tensor

from unmask.core import arguments
from unmask.core.arguments import available
from unmask.core.errors import UnmaskError, cut, shown, unknown
from unmask.core.files import atomic, make_directory, write_json
from unmask.core.reading import MOST, check_file, read_json
from unmask.languages import Language, from_dict
from unmask.models.text import Tokenizer
from unmask.models.text.tokenizer import FILE as TOKENIZER
from unmask.models.text.tokenizers import load as load_tokenizer
from unmask.models.trained.shape import Shape
from unmask.models.trained.trunk import Trunk

CONFIG, WEIGHTS, LOSSES = "config.json", "model.safetensors", "losses.csv"
ACCOUNT, STATE = "training.json", "state.safetensors"
FILES = (CONFIG, WEIGHTS, LOSSES, ACCOUNT, STATE, TOKENIZER)
MODEL_TYPE = "unmask"
ARCHITECTURES = {"mdm": "UnmaskForMaskedLM", "ar": "UnmaskForCausalLM"}
OTHERS = ("model_type", "architectures", "transformers_version", "dtype", "torch_dtype", "auto_map")  # not of the shape
SMALL = 2**20  # bytes of a configuration
TRIED = 64  # symbols
Label = Annotated[str, msgspec.Meta(max_length=1000)]  # name of a language
FLOATS = ("F64", "F32", "F16", "BF16")  # as safetensors calls them
GENERATING = ("bos_token_id", "use_cache")  # for the `generate` of transformers


class Trained(msgspec.Struct):
    """The fields of training.json that `read_language` reads."""

    label: Label
    language: dict[str, Any] | None = None
    text: dict[str, Any] | None = None


class Origin(msgspec.Struct):
    configuration: Trained


class Account(msgspec.Struct):
    origin: Origin


def save(trunk: Trunk, directory: str | Path, account: Mapping[str, Any] | None = None) -> Path:
    """Write a network that `load` and transformers read; create the directory if it is missing."""
    directory = make_directory(Path(directory))
    write_json(directory / CONFIG, configuration(trunk.shape))
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in trunk.state_dict().items()}
    _write(directory / WEIGHTS, weights, {"format": "pt"})  # required by transformers
    if account is not None:
        write_json(directory / ACCOUNT, account)
    return directory


def digest(trunk: Trunk) -> str:
    """Digest of the weights, independent of device and directory."""
    whole = hashlib.sha256()
    for name, tensor in sorted(trunk.state_dict().items()):
        raw = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        whole.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\0".encode() + raw.numpy().tobytes())
    return whole.hexdigest()[:16]


def load(
    directory: str | Path, device: str | torch.device = "auto", vocabulary: int | None = None, length: int | None = None
) -> Trunk:
    """Load a network for evaluation; raise an error if its vocabulary or length does not fit."""
    directory = arguments.path("directory", directory)
    place = choose_device(device)
    shape = read_shape(directory)
    check_fits(shape, directory, vocabulary, length)
    with torch.device("meta"):
        expected = {name: tensor.shape for name, tensor in Trunk(shape).state_dict().items()}
    weights = read_tensors(directory / WEIGHTS, expected, f"the network of {CONFIG}")
    trunk = Trunk(shape)
    trunk.load_state_dict(weights)
    _check_answer(trunk.eval(), directory / WEIGHTS)
    return trunk.to(place)


def configuration(shape: Shape) -> dict[str, Any]:
    """Content of config.json."""
    model = {"model_type": MODEL_TYPE, "architectures": [ARCHITECTURES[shape.kind]]}
    generating = dict(zip(GENERATING, (shape.vocabulary, False), strict=True)) if shape.causal else {}
    return model | shape.to_dict() | generating


def read_shape(directory: str | Path) -> Shape:
    path = Path(directory) / CONFIG
    if not os.path.exists(path):
        problem = f"no {CONFIG} in it" if os.path.isdir(path.parent) else "it does not exist"
        raise UnmaskError(f"{directory} holds no network ({problem}). Pass a directory written by `unmask train --out`")
    content = read_json(path, dict[str, Any], SMALL)
    if content.get("model_type") != MODEL_TYPE:
        kind = shown(content.get("model_type"))
        raise UnmaskError(f"{path}: the type of the model is {kind}; expected {MODEL_TYPE!r}, a network of unmask")
    try:
        return Shape.from_dict({name: value for name, value in content.items() if name not in OTHERS + GENERATING})
    except UnmaskError as error:
        raise UnmaskError(f"{path}: {error}") from error


def read_language(directory: str | Path) -> tuple[Language, str]:
    """The language on which the network was trained, and its name."""
    path = Path(directory) / ACCOUNT
    if not os.path.exists(path):
        raise UnmaskError(f"the language of {directory} is unknown ({ACCOUNT} is missing). Pass --language")
    about = read_json(path, Account, MOST).origin.configuration
    if about.language is None and about.text is None:
        raise UnmaskError(f"{path}: origin.configuration has no 'language'")
    if about.language is None:
        problem = f"{directory} was trained on a text ({about.label}), so exact error rates are not defined"
        raise UnmaskError(f"{problem}. Use `unmask model judge` or `unmask report {directory}`")
    try:
        return from_dict(about.language), about.label
    except UnmaskError as error:
        raise UnmaskError(f"{path}: {error}") from error


def read_tokenizer(directory: str | Path) -> Tokenizer | None:
    """The tokenizer of a network trained on a text, checked against its shape; None for a language."""
    tokenizer = load_tokenizer(directory)
    if tokenizer is not None:
        symbols = read_shape(directory).vocabulary
        if tokenizer.vocabulary != symbols:
            sizes = f"{directory}/{TOKENIZER} has {tokenizer.vocabulary} symbols, the network {symbols}"
            raise UnmaskError(f"{sizes}. Restore the tokenizer of the training")
    return tokenizer


def check_fits(shape: Shape, where: str | Path, vocabulary: int | None = None, length: int | None = None) -> None:
    """Raise an error if a network of this shape has another vocabulary or is too short."""
    if vocabulary is not None and vocabulary != shape.vocabulary:
        remedy = "Use the language of its training, or train another network"
        raise UnmaskError(f"{where} is a network for {shape.vocabulary} symbols, not for {vocabulary}. {remedy}")
    if length is not None and length > shape.length:
        remedy = f"Use a length up to {shape.length}, or train one with --length {length}"
        raise UnmaskError(f"{where} is a network for at most {shape.length} tokens, not for {length}. {remedy}")


def choose_device(device: str | torch.device) -> torch.device:
    """The device for auto (CUDA if available), cpu or cuda."""
    name = str(device)
    if name not in ("auto", "cpu") and not name.startswith("cuda"):
        raise unknown("device", name, ("auto", "cpu", "cuda"))
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise UnmaskError("device is 'cuda', but torch finds no CUDA device. Pass 'cpu' or 'auto'")
    return torch.device(name)


def free_on(device: torch.device) -> int:
    """Bytes that may still be allocated on a device."""
    return torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else available()


def save_state(directory: str | Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Save the state of a training; the facts are plain values, read by training/stored.py."""
    _write(Path(directory) / STATE, tensors, {MODEL_TYPE: json.dumps(facts, allow_nan=False)})


def _write(path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str]) -> None:
    with atomic(path) as file:
        file.write(to_bytes(dict(tensors), metadata))


def read_metadata(path: Path) -> dict[str, str]:
    """Metadata of a safetensors file; no tensor is read."""
    with opened(path) as file:
        return file.metadata() or {}


def read_tensors(path: Path, expected: Mapping[str, torch.Size], whose: str) -> dict[str, Tensor]:
    """Read exactly these tensors, all of finite floats; transformers may have prefixed their names.

    Names, shapes and types are checked in the header before any memory is allocated.
    """
    together = "Copy all files of one network together"
    with opened(path) as file:
        names = {name.removeprefix("trunk."): name for name in file.keys()}  # noqa: SIM118 -- not a mapping
        for name in expected:
            if name not in names:
                raise UnmaskError(f"{path} has no {name!r}, which {whose} needs. {together}")
        for name in names:
            if name not in expected:
                raise UnmaskError(f"{path} has {shown(name)}, which {whose} does not have. {together}")
        for name, shape in expected.items():
            header = file.get_slice(names[name])
            size = tuple(header.get_shape())
            if size != tuple(shape):
                raise UnmaskError(f"{name!r} in {path} has shape {size}; {whose} needs {tuple(shape)}")
            if header.get_dtype() not in FLOATS:
                raise UnmaskError(f"{name!r} in {path} is of type {header.get_dtype()}; expected {', '.join(FLOATS)}")
        tensors = {name: file.get_tensor(names[name]) for name in expected}
    for name, tensor in tensors.items():
        if not bool(tensor.isfinite().all()):
            raise UnmaskError(f"{name!r} in {path} has values that are not finite: its training diverged. Train again")
    return tensors


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """Open a safetensors file; its defects become an UnmaskError."""
    if not os.path.exists(path):
        raise UnmaskError(f"{path.parent} holds no {path.name}. Copy it there, or train the network again")
    size = check_file(path)
    try:
        with safe_open(path, "pt") as file:
            yield file
    except SafetensorError as error:
        problem = f"is not a complete safetensors file: {cut(str(error))}"
        raise UnmaskError(f"{path} ({size} bytes) {problem}. Copy it again") from error
    except OSError as error:
        raise UnmaskError(f"cannot read {path}: {error.strerror or error}") from error


@torch.no_grad()
def _check_answer(trunk: Trunk, path: Path) -> None:
    """Raise an error if finite weights give infinite logits, for some symbol by itself (at most TRIED symbols)."""
    mask = trunk.shape.vocabulary
    symbols = torch.linspace(0, mask, min(mask + 1, TRIED)).round().long().unsqueeze(1)
    time = None if trunk.shape.time_free else torch.ones(len(symbols), dtype=trunk.dtype)
    if not bool(trunk(symbols, time=time).isfinite().all()):
        raise UnmaskError(f"{path} has weights that are too large: the logits are not finite. Train again")
