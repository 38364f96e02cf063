"""The client of a keeper, which is a separate process that makes jails."""

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
PATIENCE = 30.0  # seconds in which a terminated keeper kills its programs


class Keeper:
    """Run one job after another. It ends with this process, and its programs end with it."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [interpreter.own().python, "-sSPE", "-c", PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd="/",
            start_new_session=True,  # a Ctrl-C reaches this process only, which then ends the keeper
        )

    def keep(self, job: str, seconds: float) -> dict[str, Any]:
        """Return the result of a job within `seconds`."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(job.encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise UnmaskError("the process that keeps the jail was ended from outside") from None
        poll = select.poll()  # select() is limited to descriptors below 1024
        poll.register(self.process.stdout, select.POLLIN)
        if not poll.poll(seconds * 1000):
            raise UnmaskError(f"a run has not ended after {seconds:g} s. Retry when this machine is less busy")
        line = self.process.stdout.readline()
        if not line:
            raise UnmaskError("the process that keeps the jail was ended from outside")
        return dict(json.loads(line))

    def end(self) -> None:
        self.process.terminate()  # and its programs
        with suppress(subprocess.TimeoutExpired, BrokenPipeError):
            self.process.communicate(timeout=PATIENCE)
        self.process.kill()
        self.process.wait()
