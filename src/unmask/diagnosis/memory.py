"""Measure the peak memory of a piece of work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
PEAK = "5"  # the high-water mark of resident memory, in the words of the Linux kernel


@contextmanager
def peak(device: torch.device) -> Iterator[Callable[[], int | None]]:
    """`with peak(device) as most: ...; most()`: bytes of a CUDA device or of the process; None if unknown."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        yield lambda: torch.cuda.max_memory_allocated(device)
        return
    try:
        RESET.write_text(PEAK)
    except OSError:
        yield lambda: None
        return
    yield _resident_peak


def _resident_peak() -> int | None:
    for line in STATUS.read_text().splitlines():
        name, _, rest = line.partition(":")
        if name == "VmHWM":
            return 1024 * int(rest.split()[0])
    return None
