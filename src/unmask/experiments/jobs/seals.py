"""Which cells were put into a store here: names that import code are followed in no others, whoever allows them.

A store may be anybody's, while a recipe is read by whoever runs it. So where a recipe names code, as "module:Name"
does, its cells are sealed in their store, and of a store alone, as `unmask sweep resume` takes it, only sealed cells
may name code. The seal of a cell is HMAC-SHA256(secret, key), and its key the digest of all that it says (cells.py).
The secret is 32 random bytes in a file of the user's, made once, for all stores.
"""

from __future__ import annotations

import hmac
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkstemp
from typing import Any

from unmask.core.errors import UnmaskError, cut
from unmask.core.files import atomic
from unmask.core.reading import opened, read_bytes
from unmask.core.registry import imports
from unmask.experiments.jobs.opening import check_own

FILE = "seals"  # of a store: one a line
CODE = re.compile(":(?![0-9])")  # no name begins with a digit, as the size in bpe:1024 does
SECRET, SEAL = 32, 16  # bytes

Specs = Mapping[str, Mapping[str, Any]]  # what cells are, by their keys


def seal(directory: Path, specs: Specs) -> None:
    """Say of cells that name code that they were put into this store here; where no secret can be kept, nothing is."""
    if keys := _naming_code(specs):
        with suppress(OSError, UnmaskError):
            _make_secret()
        with suppress(UnmaskError):  # whoever resumes the store is told why
            made, known = _seals(keys), _read(directory)
            if made - known:
                with atomic(directory / FILE) as file:
                    file.write(b"\n".join(sorted(made | known)))


@contextmanager
def heeded(directory: Path, specs: Specs) -> Iterator[None]:
    """Code that these cells of a store name may be imported as far as it may be here, or not at all."""
    why = ""
    if keys := _naming_code(specs):
        try:
            if not _seals(keys) <= _read(directory):
                why = f"has cells that were not sealed by {cut(str(place()))}"
        except UnmaskError as error:
            why = f"cannot be known as yours: {error}"
    if not why:
        yield
        return
    help = "a store of somebody else imports nothing: run its recipe in one of your own, unmask sweep run RECIPE"
    with imports((), f"stands in {cut(str(directory))}, which was not made here; it {why}; {help} --store NEW"):
        yield


def place() -> Path:
    """Where the secret is kept."""
    state = os.environ.get("XDG_STATE_HOME", "")
    try:
        return (Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state") / "unmask" / "secret"
    except RuntimeError as error:
        raise UnmaskError("there is no home directory; XDG_STATE_HOME may name one for what is kept") from error


def _naming_code(specs: Specs) -> list[str]:
    """The keys of those that may name code; that some of them name a file with a colon in it is no harm."""
    return [
        key for key, spec in specs.items() if any(CODE.search(one) for one in spec.values() if isinstance(one, str))
    ]


def _seals(keys: Iterable[str]) -> set[bytes]:
    with opened(place(), SECRET) as file:
        found, secret = os.fstat(file.fileno()), file.read()
    if found.st_uid != os.geteuid() or found.st_mode & 0o077 or len(secret) != SECRET:
        what = f"expected {SECRET} bytes that nobody but you may read"
        raise UnmaskError(f"cannot use {cut(str(place()))}: {what}; remove it, and the next sweep makes another")
    return {hmac.digest(secret, key.encode(), "sha256")[:SEAL].hex().encode() for key in keys}


def _read(directory: Path) -> set[bytes]:
    path = directory / FILE
    if not os.path.lexists(path):
        return set()
    check_own(path)
    return set(read_bytes(path).split())


def _make_secret() -> None:
    """Whole or not at all, and once: of two that make it at a time the first wins."""
    path = place()
    if not os.path.lexists(path):
        path.parent.mkdir(0o700, parents=True, exist_ok=True)
        handle, name = mkstemp(dir=path.parent)  # which nobody else may read
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(secrets.token_bytes(SECRET))
                file.flush()
                os.fsync(handle)
            os.link(name, path)
        finally:
            os.unlink(name)
