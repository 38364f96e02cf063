"""What a program may use, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass, fields

from unmask.core.errors import UnmaskError, cut

MiB = 1 << 20
OUTCOMES = ("passed", "failed", "timeout", "memory", "processes", "disk", "output", "killed")


@dataclass(frozen=True)
class Limits:
    """wall and cpu in seconds, the latter a process; bytes of memory, of one file and of all, of stdout and stderr."""

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
    """What came of a program.

    passed       it came to its end: exit code 0; with tests, all of them have passed
    failed       another exit code: an exception, which is the last line of stderr; with tests, one that did not pass
    timeout      wall or CPU time
    memory, processes, disk, output    a limit, where it ended the program or the program did not expect it
    killed       a signal: `signal`
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
        """The outcome in one line, with the last that was said of a failure."""
        import signal  # here: as a module it has the name of a field

        if self.signal is not None:
            named = self.signal in {known.value for known in signal.Signals}
            return f"{self.outcome}: {signal.Signals(self.signal).name if named else f'signal {self.signal}'}"
        last = self.stderr.rstrip().rpartition("\n")[2]
        return f"{self.outcome}: {cut(last)}" if self.outcome != "passed" and last else self.outcome
