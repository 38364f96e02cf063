"""Compiled functions, kept on disk for the next start: in a directory of their own for each state of their sources.

numba asks only whether the file that defines a function has changed, and would keep one whose callee in another file is
not what it was. Here the sources of all that kernels may call name the directory, so that nothing that is found there
can be stale, nothing has to be deleted, and processes that start together can only write the same. The first of those
that needs a kernel compiles it, and the others wait and load it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from numba import config, njit
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.compiler_lock import global_compiler_lock
from numba.core.event import Listener, register

from unmask.core import progress
from unmask.core.errors import UnmaskError

PACKAGE = Path(__file__).parents[1]
CALLED = ("core/compiled.py", "core/chance.py", "kernels/*.py")  # with the kernels that those of other files may call
PATIENCE = 60.0  # seconds: longer than any kernel takes, so that one who was stopped while compiling holds up nobody

if config.DISABLE_JIT:
    what = "the exact kernels are made of machine instructions, and cannot be run without their compiler"
    raise UnmaskError(f"NUMBA_DISABLE_JIT is set, and {what}; unset it")


def kernel(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """The function compiled, to run without the interpreter's lock; options are those of `numba.njit`."""
    if function is None:
        return lambda function: kernel(function, **options)
    dispatcher = njit(nogil=True, no_cfunc_wrapper=True, **options)(function)
    if (kept := directory(function.__code__.co_filename)) is not None:
        dispatcher._cache = _Cache(function)
        name = f"{function.__module__}.{function.__qualname__}.lock"
        dispatcher.compile = _one_at_a_time(dispatcher.compile, kept / name)
    return dispatcher


def _one_at_a_time(compiled: Callable[[Any], Any], lock: Path) -> Callable[[Any], Any]:
    """As `compiled`, which looks on disk first, in one process after the other. A kernel that calls another holds both
    locks, and no two wait for each other, since no callee calls its caller; nor do two threads of one process, which
    numba's own lock lets in one by one."""

    def alone(signature: Any) -> Any:
        with global_compiler_lock, _held(lock):
            return compiled(signature)

    return alone


@contextmanager
def _held(lock: Path) -> Iterator[None]:
    """While nobody else has it, who would be let go by the system if he died; or without it, where it cannot be had."""
    try:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError:
        yield
        return
    try:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            with suppress(OSError):
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            time.sleep(0.02)
        yield
    finally:
        os.close(handle)


@cache
def directory(source: str) -> Path | None:
    """Where a file's kernels are kept: NUMBA_CACHE_DIR, or beside it, or the user's cache; None where none will do."""
    for place in _places(Path(source)):
        kept = place / f"kernels-{digest(source)}"
        with suppress(OSError):
            kept.mkdir(parents=True, exist_ok=True)
            if os.access(kept, os.W_OK):
                return kept
    _say_uncached()
    return None


def _places(source: Path) -> list[Path]:
    if config.CACHE_DIR:
        return [Path(config.CACHE_DIR)]
    places = [source.parent / "__pycache__"]
    with suppress(RuntimeError):  # a user without a home, as containers have
        places.append(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "unmask")
    return places


@cache
def _say_uncached() -> None:
    """Once a process."""
    what = "set NUMBA_CACHE_DIR to a directory that can be written, and they are kept"
    progress.note(f"the exact kernels are compiled anew at each start: there is no place to keep them; {what}")


@cache
def digest(source: str) -> str:
    """Of a file and of all whose kernels it may call."""
    files = {Path(source), *(path for pattern in CALLED for path in PACKAGE.glob(pattern))}
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(files))).hexdigest()[:16]


class _Clock(Listener):  # type: ignore[misc]
    """Tells how long kernels are compiled, when the next is: those that are found on disk are not."""

    began = 0.0
    depth = 0

    def on_start(self, event: Any) -> None:
        if self.depth == 0:
            self.began = time.monotonic()
        progress.compiling(self._passed())
        self.depth += 1

    def on_end(self, event: Any) -> None:
        self.depth -= 1
        progress.compiling(self._passed())

    def _passed(self) -> float:
        before, self.began = self.began, time.monotonic()
        return self.began - before


register("numba:compile", _Clock())


class _Locator:
    """What numba asks where a function is kept."""

    def __init__(self, function: Any, source: str) -> None:
        self._py_file, self.line = source, function.__code__.co_firstlineno

    @classmethod
    def from_function(cls, function: Any, source: str) -> _Locator:
        return cls(function, source)

    def get_cache_path(self) -> str:
        return str(directory(self._py_file))

    def ensure_cache_path(self) -> None:
        Path(self.get_cache_path()).mkdir(parents=True, exist_ok=True)

    def get_source_stamp(self) -> str:
        return digest(self._py_file)

    def get_disambiguator(self) -> str:
        return str(self.line)


class _Implementation(CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = (_Locator,)


class _Cache(FunctionCache):  # type: ignore[misc]
    _impl_class = _Implementation

    def save_overload(self, signature: Any, data: Any) -> None:
        """A disk that is full keeps nothing, and stops nothing."""
        with suppress(OSError):
            super().save_overload(signature, data)
