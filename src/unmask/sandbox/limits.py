"""Limits of a program, and its result."""

from __future__ import annotations

from dataclasses import dataclass, fields

from unmask.core.errors import UnmaskError, cut

MiB = 1 << 20
OUTCOMES = ("passed", "failed", "timeout", "memory", "processes", "disk", "output", "killed")


@dataclass(frozen=True)
class Limits:
    """wall: seconds; cpu: seconds per process; memory, file (each), disk (all files), output (all streams): bytes."""

    wall: float = 10.0
    cpu: float = 10.0
    memory: int = 512 * MiB
    processes: int = 32
    file: int = 16 * MiB
    disk: int = 64 * MiB
    output: int = MiB

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            kind = (int, float) if field.name in ("wall", "cpu") else int
            if isinstance(value, bool) or not isinstance(value, kind) or not 0 < value < 2**40:
                raise UnmaskError(f"limit {field.name} is {cut(str(value))}; expected a positive number")


@dataclass(frozen=True)
class Ran:
    """The result of a program. Its outcome is one of:

    passed       exit code 0; with tests, all tests passed
    failed       another exit code, with the exception in the last line of stderr; with tests, a failed test
    timeout      the wall or CPU time exceeded its limit
    memory, processes, disk, output    this limit ended the program, directly or by an exception it did not catch
    killed       the signal `signal` ended it
    """

    outcome: str
    stdout: str
    stderr: str
    seconds: float
    exit_code: int | None
    signal: int | None

    @property
    def passed(self) -> bool:
        return self.outcome == "passed"

    @property
    def why(self) -> str:
        """The outcome in one line, with the last line of stderr."""
        import signal  # here, since a field has the same name

        if self.signal is not None:
            named = self.signal in {known.value for known in signal.Signals}
            return f"{self.outcome}: {signal.Signals(self.signal).name if named else f'signal {self.signal}'}"
        last = self.stderr.rstrip().rpartition("\n")[2]
        return f"{self.outcome}: {cut(last)}" if self.outcome != "passed" and last else self.outcome
