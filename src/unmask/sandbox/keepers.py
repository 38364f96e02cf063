"""The other end of a keeper: a process of its own, which makes jails while we do something else."""

from __future__ import annotations

import json
import select
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

from unmask.core.errors import UnmaskError
from unmask.sandbox import interpreter

HERE = str(Path(__file__).parent)
PROGRAM = f"import sys; sys.path.insert(0, {HERE!r}); from jail.keeper import main; main()"
PATIENCE = 30.0  # seconds in which a keeper that is told to end has killed what it keeps


class Keeper:
    """One job after another. It dies with us, and all that it keeps with it."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [interpreter.own().python, "-sSPE", "-c", PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd="/",
            start_new_session=True,  # a Ctrl-C is for us alone: we tell it
        )

    def keep(self, job: str, seconds: float) -> dict[str, Any]:
        """What it answers to a job, which must be within so many seconds."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(job.encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise UnmaskError("a keeper has been ended by somebody else") from None
        poll = select.poll()  # select() knows no descriptors beyond 1023
        poll.register(self.process.stdout, select.POLLIN)
        if not poll.poll(seconds * 1000):
            raise UnmaskError(f"a run has not ended after {seconds:g} s; is this machine busy?")
        line = self.process.stdout.readline()
        if not line:
            raise UnmaskError("a keeper has been ended by somebody else")
        return dict(json.loads(line))

    def end(self) -> None:
        self.process.terminate()  # what it keeps
        with suppress(subprocess.TimeoutExpired, BrokenPipeError):
            self.process.communicate(timeout=PATIENCE)
        self.process.kill()
        self.process.wait()
