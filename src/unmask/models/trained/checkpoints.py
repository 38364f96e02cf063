"""Files of a trained network, and of a training that can be resumed: safetensors and JSON, no pickle.

    config.json        the shape
    model.safetensors  the weights (their moving average, if there is one)
    training.json      training options, losses, origin
    losses.csv         the losses of each validation, for other programs
    tokenizer.json     for a text: characters to tokens and back (models/text/published.py)
    state.safetensors  state of the training: raw weights, average, optimiser, step; `--resume` reads only this file

A file gets its name only when it is complete, so that all files are whole after a kill. The state is written first and
is never older than the other files. One process trains in a directory.
"""

from __future__ import annotations

import csv
import fcntl
import hashlib
import io
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import msgspec
import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.errors import UnmaskError, cut, needed, shown, unknown
from unmask.core.files import atomic, check_writable, make_directory, write_json
from unmask.core.memory import available
from unmask.core.reading import MOST, check_file, from_json, read_json
from unmask.languages import Language, from_dict
from unmask.models.text import Text, Tokenizer
from unmask.models.text import load as load_tokenizer
from unmask.models.text import read as read_text
from unmask.models.text.tokenizer import FILE as TOKENIZER
from unmask.models.trained.recipe import Recipe, parts_of
from unmask.models.trained.shape import Shape
from unmask.models.trained.trunk import Trunk

CONFIG, WEIGHTS, LOSSES = "config.json", "model.safetensors", "losses.csv"
ACCOUNT, STATE = "training.json", "state.safetensors"
FILES = (CONFIG, WEIGHTS, LOSSES, ACCOUNT, STATE, TOKENIZER)
MODEL_TYPE = "unmask"
SMALL = 2**20  # bytes of a configuration
TRIED = 64  # symbols
FLOATS = ("F64", "F32", "F16", "BF16")  # as safetensors calls them
Label = Annotated[str, msgspec.Meta(max_length=1000)]  # name of a language
Seconds = Annotated[float, msgspec.Meta(ge=0)]
Step = Annotated[int, msgspec.Meta(ge=0)]


class Read(msgspec.Struct, forbid_unknown_fields=True):
    """Path and digests of the text: `Text.facts`."""

    source: Annotated[str, msgspec.Meta(max_length=2**12)]
    digest: str
    tokenizer: Label
    tokenizer_digest: str


class Facts(msgspec.Struct, forbid_unknown_fields=True):
    """The state of a training without its tensors."""

    shape: Shape
    recipe: Recipe
    label: Label
    step: Step
    seconds: Seconds
    loss: float
    journal: list[dict[str, int | float]]  # step, seconds, rate and losses of each validation
    language: dict[str, Any] | None = None
    text: Read | None = None


class Learned(msgspec.Struct):
    """The fields of training.json that `read_language` reads, in origin.configuration."""

    label: Label
    language: dict[str, Any] | None = None
    text: dict[str, Any] | None = None


class Origin(msgspec.Struct):
    configuration: Learned


class Account(msgspec.Struct):
    origin: Origin


def save(trunk: Trunk, directory: str | Path, account: Mapping[str, Any] | None = None) -> Path:
    """Write a network that `load` reads; create the directory if it is missing."""
    directory = make_directory(Path(directory))
    write_json(directory / CONFIG, {"model_type": MODEL_TYPE} | trunk.shape.to_dict())
    _write(directory / WEIGHTS, trunk.state_dict(), {"format": "pt"})
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


@torch.no_grad()
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

    trunk = Trunk(shape).eval()
    trunk.load_state_dict(weights)

    # finite weights can still overflow
    symbols = torch.linspace(0, shape.vocabulary, min(shape.vocabulary + 1, TRIED)).round().long().unsqueeze(1)
    time = torch.ones(len(symbols), dtype=trunk.dtype)
    if not bool(trunk(symbols, time=time).isfinite().all()):  # each symbol by itself
        raise UnmaskError(
            f"{directory / WEIGHTS} has weights that are too large: the logits are not finite", "Train again"
        )
    return trunk.to(place)


def read_shape(directory: str | Path) -> Shape:
    path = Path(directory) / CONFIG
    if not os.path.exists(path):
        problem = f"no {CONFIG} in it" if os.path.isdir(path.parent) else "it does not exist"
        raise UnmaskError(
            f"{directory} holds no network ({problem})",
            "Pass a directory of `unmask train --out`, or any other model as module:Name (docs/contracts.md)",
        )
    content = read_json(path, dict[str, Any], SMALL)
    if (kind := content.pop("model_type", None)) != MODEL_TYPE:
        raise UnmaskError(
            f"{path}: the type of the model is {shown(kind)}", f"expected {MODEL_TYPE!r}, a network of unmask"
        )
    with _named(path):
        return Shape.from_dict(content)


def read_language(directory: str | Path) -> tuple[Language, str]:
    """The language on which the network was trained, and its name."""
    path = Path(directory) / ACCOUNT
    if not os.path.exists(path):
        raise UnmaskError(f"the language of {directory} is unknown ({ACCOUNT} is missing). Pass --language")
    about = read_json(path, Account, MOST).origin.configuration
    if about.language is None and about.text is None:
        raise UnmaskError(f"{path}: origin.configuration has no 'language'")
    if about.language is None:
        raise UnmaskError(
            f"{directory} was trained on a text ({about.label}), so exact error rates are not defined",
            "Use `unmask model judge`",
        )
    with _named(path):
        return from_dict(about.language), about.label


def read_tokenizer(directory: str | Path) -> Tokenizer | None:
    """The tokenizer of a network trained on a text, checked against its shape; None for a language."""
    tokenizer = load_tokenizer(directory)
    if tokenizer is not None:
        symbols = read_shape(directory).vocabulary
        if tokenizer.vocabulary != symbols:
            raise UnmaskError(
                f"{directory}/{TOKENIZER} has {tokenizer.vocabulary} symbols, the network {symbols}",
                "Restore the tokenizer of the training",
            )
    return tokenizer


def check_fits(shape: Shape, where: str | Path, vocabulary: int | None = None, length: int | None = None) -> None:
    """Raise an error if a network of this shape has another vocabulary or is too short."""
    if vocabulary is not None and vocabulary != shape.vocabulary:
        raise UnmaskError(
            f"{where} is a network for {shape.vocabulary} symbols, not for {vocabulary}",
            "Use the language of its training, or train another network",
        )
    if length is not None and length > shape.length:
        raise UnmaskError(
            f"{where} is a network for at most {shape.length} tokens, not for {length}",
            f"Use a length up to {shape.length}, or train one with --length {length}",
        )


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
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return available()


@contextmanager
def alone(directory: Path) -> Iterator[None]:
    """Lock a writable directory while its process trains; a new directory is removed if it stays empty."""
    existed = os.path.isdir(directory)
    handle = os.open(make_directory(directory), os.O_RDONLY)
    try:
        for name in FILES:
            check_writable(directory / name)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise UnmaskError(f"another process trains in {directory}. Wait for it, or pass another --out") from error
    finally:
        os.close(handle)
        if not existed:
            with suppress(OSError):  # not empty
                directory.rmdir()


def check_unused(directory: Path) -> None:
    for name in (STATE, CONFIG):
        if os.path.exists(directory / name):
            raise UnmaskError(f"{directory} already holds a network ({name}). Pass --resume, or another --out")


def save_state(directory: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Save the state of a training; the facts are those of `Facts`."""
    _write(directory / STATE, tensors, {MODEL_TYPE: json.dumps(facts, allow_nan=False)})


def write_losses(directory: Path, entries: Sequence[Mapping[str, Any]]) -> None:
    """Write one row per validation; entries are those of the journal."""
    text = io.StringIO(newline="")
    if entries:
        rows = csv.DictWriter(text, list(entries[0]))
        rows.writeheader()
        rows.writerows(entries)
    with atomic(directory / LOSSES) as file:
        file.write(text.getvalue().encode())


def facts(directory: str | Path) -> Facts:
    """The state in a directory, without its tensors, which are not read."""
    path = Path(directory) / STATE
    if not os.path.exists(path):
        raise UnmaskError(f"{directory} holds nothing to resume ({STATE} is missing). Leave --resume out")

    with opened(path) as file:
        metadata = file.metadata() or {}
    if MODEL_TYPE not in metadata:
        raise UnmaskError(f"{path} has no metadata of a training; expected a state written by `unmask train`")
    with _named(path):
        state: Facts = from_json(metadata[MODEL_TYPE], Facts, str(path))

    check_fits(state.shape, path)
    if state.step > state.recipe.steps:
        raise UnmaskError(f"{path}: step is {state.step}; expected at most {state.recipe.steps}")
    return state


def read_state(directory: Path) -> tuple[Language | Text, Facts, dict[str, Tensor]]:
    """The state of an interrupted training: (language or text, facts, tensors of its Learner)."""
    state = facts(directory)
    path = directory / STATE
    with _named(path):
        source = _source(state, directory)
    check_fits(state.shape, path, source.vocabulary)
    with torch.device("meta"):
        network = Trunk(state.shape)
    expected = {}
    for name, weight in network.named_parameters():
        for part in parts_of(state.recipe, state.step, name, weight.dim()):
            expected[f"{part}/{name}"] = weight.shape
    return source, state, read_tensors(path, expected, "this training")


def _source(state: Facts, directory: Path) -> Language | Text:
    """The language, or the text if neither it nor its tokenizer has changed."""
    if state.language is not None:
        return from_dict(state.language)
    if state.text is None:
        raise UnmaskError("the state has neither a language nor a text")
    tokenizer = load_tokenizer(directory)
    if tokenizer is None or tokenizer.digest != state.text.tokenizer_digest:
        raise UnmaskError(f"{directory} does not hold the tokenizer of this training. Restore {TOKENIZER}")
    corpus = read_text(state.text.source)
    if corpus.digest != state.text.digest:
        raise UnmaskError(
            f"the text {state.text.source} has changed since the start of this training",
            "Restore the text, or start another training",
        )
    return Text(corpus, tokenizer)


def read_tensors(path: Path, expected: Mapping[str, torch.Size], whose: str) -> dict[str, Tensor]:
    """Read exactly these tensors, all of finite floats; headers are checked before any memory is allocated."""
    together = "Copy all files of one network together"
    with opened(path) as file:
        names = set(file.keys())
        for name in expected:
            if name not in names:
                raise UnmaskError(f"{path} has no {name!r}, which {whose} needs. {together}")
        for name in names - expected.keys():
            raise UnmaskError(f"{path} has {shown(name)}, which {whose} does not have. {together}")
        for name, shape in expected.items():
            header = file.get_slice(name)
            if (size := tuple(header.get_shape())) != tuple(shape):
                raise UnmaskError(f"{name!r} in {path} has shape {size}; {whose} needs {tuple(shape)}")

            if header.get_dtype() not in FLOATS:
                raise UnmaskError(f"{name!r} in {path} is of type {header.get_dtype()}; expected {', '.join(FLOATS)}")
        tensors = {name: file.get_tensor(name) for name in expected}

    for name, tensor in tensors.items():
        if not bool(tensor.isfinite().all()):
            raise UnmaskError(f"{name!r} in {path} has values that are not finite: its training diverged. Train again")
    return tensors


def _write(path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str]) -> None:
    with needed("train", "the file of a network"):
        from safetensors.torch import save as to_bytes
    here = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with atomic(path) as file:
        file.write(to_bytes(here, metadata))


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """Open a safetensors file; its defects become an UnmaskError."""
    if not os.path.exists(path):
        raise UnmaskError(f"{path.parent} holds no {path.name}. Copy it there, or train the network again")
    size = check_file(path)
    with needed("train", "the file of a network"):
        from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            yield file
    except SafetensorError as error:
        raise UnmaskError(
            f"{path} ({size} bytes) is not a complete safetensors file: {cut(str(error))}", "Copy it again"
        ) from error
    except OSError as error:
        raise UnmaskError(f"cannot read {path}: {error.strerror or error}") from error


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Put the path before errors of its content that lack it."""
    try:
        yield
    except UnmaskError as error:
        raise UnmaskError(str(error) if str(path) in str(error) else f"{path}: {error}") from error
