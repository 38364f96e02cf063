"""A trained network in a directory, and all that a later process needs to train on: safetensors and JSON, no pickle.

    config.json        the shape; with the weights this is what `load` and transformers read
    model.safetensors  the weights that are used (their moving average, where one is kept)
    README.md          the model card
    training.json      how it was trained, what the loss was, where it came from
    tokenizer.json     of a text: from its characters to tokens and back (text/tokenizers.py)
    state.safetensors  where training stands: raw weights, average, optimiser, step; a resumed run reads nothing else

Each file takes its name only when it is complete, so that after a kill every one of them is whole; the state is written
first, and is never older than the others.
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
from unmask.core.errors import UnmaskError, cut, shown, unknown
from unmask.core.files import atomic, make_directory, write_json
from unmask.core.reading import MOST, check_file, read_json
from unmask.languages import Language, from_dict
from unmask.networks.model.shape import Shape
from unmask.networks.model.trunk import Trunk
from unmask.text import Tokenizer
from unmask.text.tokenizer import FILE as TOKENIZER
from unmask.text.tokenizers import load as load_tokenizer

CONFIG, WEIGHTS, CARD = "config.json", "model.safetensors", "README.md"
ACCOUNT, STATE = "training.json", "state.safetensors"
FILES = (CONFIG, WEIGHTS, CARD, ACCOUNT, STATE, TOKENIZER)
MODEL_TYPE = "unmask"
ARCHITECTURES = {"mdm": "UnmaskForMaskedLM", "ar": "UnmaskForCausalLM"}
OTHERS = ("model_type", "architectures", "transformers_version", "dtype", "torch_dtype", "auto_map")  # not of the shape
SMALL = 2**20  # bytes of a configuration
TRIED = 64  # symbols
Label = Annotated[str, msgspec.Meta(max_length=1000)]  # what the card calls a language
FLOATS = ("F64", "F32", "F16", "BF16")  # as safetensors calls them
GENERATING = ("bos_token_id", "use_cache")  # for the `generate` of transformers


class Trained(msgspec.Struct):
    """What `read_language` needs to know of how a network was trained."""

    label: Label
    language: dict[str, Any] | None = None
    text: dict[str, Any] | None = None


class Origin(msgspec.Struct):
    configuration: Trained


class Account(msgspec.Struct):
    """What is read of training.json; it says more."""

    origin: Origin


def save(
    trunk: Trunk, directory: str | Path, card: str | None = None, account: Mapping[str, Any] | None = None
) -> Path:
    """Write a network that `load` and transformers read; the directory is made if it is not there."""
    directory = make_directory(Path(directory))
    write_json(directory / CONFIG, configuration(trunk.shape))
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in trunk.state_dict().items()}
    _write(directory / WEIGHTS, weights, {"format": "pt"})  # which transformers asks for
    if account is not None:
        write_json(directory / ACCOUNT, account)
    if card is not None:
        with atomic(directory / CARD) as file:
            file.write(card.encode())
    return directory


def digest(trunk: Trunk) -> str:
    """Of the weights, whatever device and directory they lie in."""
    whole = hashlib.sha256()
    for name, tensor in sorted(trunk.state_dict().items()):
        raw = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        whole.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\0".encode() + raw.numpy().tobytes())
    return whole.hexdigest()[:16]


def load(
    directory: str | Path, device: str | torch.device = "auto", vocabulary: int | None = None, length: int | None = None
) -> Trunk:
    """The network of a directory, for evaluation; an error where it is not one for this vocabulary or this length."""
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
    """What config.json says."""
    whose = {"model_type": MODEL_TYPE, "architectures": [ARCHITECTURES[shape.kind]]}
    generating = dict(zip(GENERATING, (shape.vocabulary, False), strict=True)) if shape.causal else {}
    return whose | shape.to_dict() | generating


def read_shape(directory: str | Path) -> Shape:
    """The shape that config.json says."""
    path = Path(directory) / CONFIG
    if not os.path.exists(path):
        what = (
            "name a directory that `unmask train --out` has written"
            if os.path.isdir(path.parent)
            else "it does not exist"
        )
        raise UnmaskError(f"{directory} holds no network ({CONFIG} is not there); {what}")
    content = read_json(path, dict[str, Any], SMALL)
    if content.get("model_type") != MODEL_TYPE:
        what = f"a model of type {shown(content.get('model_type'))}"
        raise UnmaskError(f"{path} describes {what}; expected {MODEL_TYPE!r}, a network of unmask")
    try:
        return Shape.from_dict({name: value for name, value in content.items() if name not in OTHERS + GENERATING})
    except UnmaskError as error:
        raise UnmaskError(f"{path}: {error}") from error


def read_language(directory: str | Path) -> tuple[Language, str]:
    """The language that it was trained on, and what the card calls it."""
    path = Path(directory) / ACCOUNT
    if not os.path.exists(path):
        raise UnmaskError(
            f"{directory} does not say what it was trained on ({ACCOUNT} is not there); name the language"
        )
    about = read_json(path, Account, MOST).origin.configuration
    if about.language is None and about.text is None:
        raise UnmaskError(f"{path}: origin.configuration has no 'language'")
    if about.language is None:
        what = "no exact law of which is known to hold it against"
        raise UnmaskError(f"{directory} has learned a text ({about.label}), {what}; name a language, if it is one")
    try:
        return from_dict(about.language), about.label
    except UnmaskError as error:
        raise UnmaskError(f"{path}: {error}") from error


def read_tokenizer(directory: str | Path) -> Tokenizer | None:
    """That of a network that has learned a text, held against its shape; None where it has learned a language."""
    tokenizer = load_tokenizer(directory)
    if tokenizer is not None:
        symbols = read_shape(directory).vocabulary
        if tokenizer.vocabulary != symbols:
            what = (
                f"knows {tokenizer.vocabulary} symbols, and its network {symbols}; put back the one it was trained with"
            )
            raise UnmaskError(f"the tokenizer in {directory} ({TOKENIZER}) {what}")
    return tokenizer


def check_fits(shape: Shape, where: str | Path, vocabulary: int | None = None, length: int | None = None) -> None:
    """Is it a network for this vocabulary, and was it made for sequences so long?"""
    if vocabulary is not None and vocabulary != shape.vocabulary:
        what = "take the language that it was trained on, or train another network"
        raise UnmaskError(f"{where} is a network for {shape.vocabulary} symbols, not for {vocabulary}; {what}")
    if length is not None and length > shape.length:
        what = f"ask for at most {shape.length}, or train one with --length {length}"
        raise UnmaskError(f"{where} is a network for at most {shape.length} tokens, not for {length}; {what}")


def choose_device(device: str | torch.device) -> torch.device:
    """auto (CUDA where there is one), cpu or cuda."""
    name = str(device)
    if name not in ("auto", "cpu") and not name.startswith("cuda"):
        raise unknown("device", name, ("auto", "cpu", "cuda"))
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise UnmaskError("device 'cuda' was asked for, but torch finds no CUDA device here; take 'cpu' or 'auto'")
    return torch.device(name)


def save_state(directory: str | Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Where training stands; the facts are plain values, which training/standing.py reads."""
    _write(Path(directory) / STATE, tensors, {MODEL_TYPE: json.dumps(facts, allow_nan=False)})


def _write(path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str]) -> None:
    with atomic(path) as file:
        file.write(to_bytes(dict(tensors), metadata))


def read_metadata(path: Path) -> dict[str, str]:
    """What a file of tensors says beside them; nothing else of it is read."""
    with opened(path) as file:
        return file.metadata() or {}


def read_tensors(path: Path, expected: Mapping[str, torch.Size], whose: str) -> dict[str, Tensor]:
    """Exactly these tensors of a file, as one that transformers writes may prefix them, all of finite floats.

    Names, shapes and types are compared in its header, before there is room made for anything.
    """
    with opened(path) as file:
        names = {name.removeprefix("trunk."): name for name in file.keys()}  # noqa: SIM118 -- it is no mapping
        for name in expected:
            if name not in names:
                raise UnmaskError(f"{path} has no {name!r}, which {whose} needs; they are of two networks")
        for name in names:
            if name not in expected:
                raise UnmaskError(f"{path} has {shown(name)}, which {whose} does not have")
        for name, wanted in expected.items():
            header = file.get_slice(names[name])
            found = tuple(header.get_shape())
            if found != tuple(wanted):
                raise UnmaskError(f"{name!r} in {path} is {found}, but by {whose} it should be {tuple(wanted)}")
            if header.get_dtype() not in FLOATS:
                raise UnmaskError(f"{name!r} in {path} is of type {header.get_dtype()}; expected {', '.join(FLOATS)}")
        tensors = {name: file.get_tensor(names[name]) for name in expected}
    for name, tensor in tensors.items():
        if not bool(tensor.isfinite().all()):
            raise UnmaskError(f"{name!r} in {path} holds what is no finite number; the training that wrote it diverged")
    return tensors


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """A file of safetensors; what is wrong with it is an UnmaskError."""
    if not os.path.exists(path):
        raise UnmaskError(f"{path.parent} holds no {path.name}; copy it there, or train the network again")
    size = check_file(path)
    try:
        with safe_open(path, "pt") as file:
            yield file
    except SafetensorError as error:
        what = f"is not a complete safetensors file: {cut(str(error))}; copy it again"
        raise UnmaskError(f"{path} ({size} bytes) {what}") from error
    except OSError as error:
        raise UnmaskError(f"cannot read {path}: {error.strerror or error}") from error


@torch.no_grad()
def _check_answer(trunk: Trunk, path: Path) -> None:
    """An error where weights are finite, and so large that what is computed of them is not: for each symbol by itself,
    or some of many."""
    mask = trunk.shape.vocabulary
    symbols = torch.linspace(0, mask, min(mask + 1, TRIED)).round().long().unsqueeze(1)
    time = None if trunk.shape.time_free else torch.ones(len(symbols), dtype=trunk.dtype)
    if not bool(trunk(symbols, time=time).isfinite().all()):
        raise UnmaskError(f"{path} holds weights that are too large: the network says what is no number")
