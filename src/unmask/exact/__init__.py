"""Compiled kernels on plain arrays: machines, messages, likelihoods, sampling.

numba keeps compiled kernels on disk, by the time stamp of the file that defines each one. A kernel that calls another
of another file would stay as it was when that other one changes, so the kept ones go when any of the sources does.
"""

from __future__ import annotations

import hashlib
import sys
from contextlib import suppress
from pathlib import Path


def _forget_stale_kernels() -> None:
    here = Path(__file__).parent
    sources = [*sorted(here.glob("*.py")), here.parent / "chance.py"]
    with suppress(OSError):  # an installation that cannot be written to does not change either
        now = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()
        stamp = here / "__pycache__" / "kernels.sha256"
        if stamp.exists() and stamp.read_text() == now:
            return
        for kept in here.parent.glob("**/__pycache__/*.nb[ic]"):
            kept.unlink(missing_ok=True)
        stamp.parent.mkdir(exist_ok=True)
        stamp.write_text(now)
        if sys.stderr.isatty():
            print("unmask: compiling its kernels for this machine; the next start will be quick", file=sys.stderr)


_forget_stale_kernels()
