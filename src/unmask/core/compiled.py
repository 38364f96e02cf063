"""Compiled functions, cached on disk in a directory that is named by a digest of their sources.

numba's own cache checks only the file that defines a function, so it would reuse a function whose callee in another
file has changed. Here the digest covers all sources that a kernel may call: a cache entry is never stale, and needs no
deletion. When several processes need the same kernel, the first one compiles it; the others wait and load it. Without
that, numba's index can name the code of another signature.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

from unmask.core import progress
from unmask.core.errors import UnmaskError

try:
    from numba import config, njit
    from numba import uint64 as uint64  # for kernels that are loaded first
    from numba.core.caching import CompileResultCacheImpl, FunctionCache
    from numba.core.compiler_lock import global_compiler_lock
except ValueError as error:
    problem = f"the compiler numba cannot start: {error}"
    raise UnmaskError(f"{problem} Correct the variable NUMBA_NUM_THREADS, or unset it.") from error

PACKAGE = Path(__file__).parents[1]
CALLED = ("core/compiled.py", "core/chance.py", "languages/kernels/*.py")  # have kernels that other files may call
PATIENCE = 60.0  # seconds to wait for a lock: longer than any compilation, so a stopped process blocks no other

if config.DISABLE_JIT:
    raise UnmaskError("NUMBA_DISABLE_JIT is set, but the exact kernels need the compiler. Unset it.")


def kernel(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Return the compiled function, which releases the interpreter's lock; options are those of `numba.njit`."""
    if function is None:
        return lambda function: kernel(function, **options)
    dispatcher = njit(nogil=True, no_cfunc_wrapper=True, **options)(function)
    cache_directory = directory(function.__code__.co_filename)
    if cache_directory is not None:
        dispatcher._cache = _Cache(function)
        name = f"{function.__module__}.{function.__qualname__}.lock"
        dispatcher.compile = _one_at_a_time(dispatcher.compile, cache_directory / name)
    return dispatcher


inner = partial(kernel, _nrt=False, no_cpython_wrapper=True)  # of a function that only kernels call


def _one_at_a_time(compiled: Callable[[Any], Any], lock: Path) -> Callable[[Any], Any]:
    """Wrap `compiled` so that one process at a time loads or compiles the kernel.

    A kernel that calls another holds both locks. A deadlock is impossible: no callee calls its caller, and numba's own
    lock serializes the threads of a process.
    """

    def alone(signature: Any) -> Any:
        with global_compiler_lock, _held(lock):
            return compiled(signature)

    return alone


@contextmanager
def _held(lock: Path) -> Iterator[None]:
    """Hold the lock; go on without it if the file cannot be opened, or after PATIENCE. The system frees it on exit."""
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
    """Cache directory of a file's kernels: NUMBA_CACHE_DIR, or next to the file, or the user's cache; None if no
    directory is writable."""
    for parent in _parents(Path(source)):
        cache_directory = parent / f"kernels-{digest(source)}"
        with suppress(OSError):
            cache_directory.mkdir(parents=True, exist_ok=True)
            if os.access(cache_directory, os.W_OK):
                return cache_directory
    _warn_uncached()
    return None


def _parents(source: Path) -> list[Path]:
    if config.CACHE_DIR:
        return [Path(config.CACHE_DIR)]
    parents = [source.parent / "__pycache__"]
    with suppress(RuntimeError):  # a user without a home directory, as in containers
        parents.append(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "unmask")
    return parents


@cache
def _warn_uncached() -> None:  # once per process
    advice = "Set NUMBA_CACHE_DIR to a writable directory."
    progress.note(f"no cache directory is writable, so the exact kernels are compiled again at each start. {advice}")


@cache
def digest(source: str) -> str:
    """Digest of a file and of all files whose kernels it may call."""
    files = {Path(source), *(path for pattern in CALLED for path in PACKAGE.glob(pattern))}
    return hashlib.sha256(b"".join(map(Path.read_bytes, sorted(files)))).hexdigest()[:16]


class _Locator:
    """Locates the cache of a function, for numba."""

    def __init__(self, function: Any, source: str) -> None:
        self._py_file = source
        self.line = function.__code__.co_firstlineno

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
        with suppress(OSError):  # a full disk: the function works without a cache
            super().save_overload(signature, data)
