"""Jails, which of them work on this machine, and programs that run in them."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, Self

from unmask.core import arguments
from unmask.core.errors import UnmaskError, shown
from unmask.sandbox import interpreter, strength
from unmask.sandbox.jail import landlock, seccomp
from unmask.sandbox.keepers import Keeper
from unmask.sandbox.limits import Limits, Ran

LEVELS = {"bubblewrap": 3, "landlock": 2, "none": 1}
LEAST = 4  # of Landlock, where nothing else keeps files: those before it let files be cut short, and TCP pass
GRACE = 60.0  # seconds beyond its wall time in which a keeper has made a jail and emptied it
INSIDE = Path(__file__).parent / "inside.py"


class Sandbox:
    """A jail of one of `LEVELS`; `strongest()` finds the one to use. Several threads may run programs at once.

    A program has an interpreter with the standard library, one empty directory to write to, which is its home and is
    gone after it, descriptors 0, 1 and 2, and no network. Whatever it has started ends with it.
    """

    def __init__(self, means: str, abi: int | None = None) -> None:
        """`abi` of Landlock, where it should be taken for older than it is; 0: as if it were not there."""
        if not sys.platform.startswith("linux"):
            raise UnmaskError(f"no sandbox for {sys.platform}; run code in a Linux container or virtual machine")
        arguments.word("sandbox", means, tuple(LEVELS))
        self.means, self.level = means, LEVELS[means]
        if abi is not None:
            arguments.whole("abi", abi, 0)
        found = landlock.abi()
        self.abi = found if abi is None else min(abi, found)
        self.bwrap = shutil.which("bwrap")
        self.tested: dict[str, str] = {}
        needed = {"bubblewrap": (self.bwrap, "bwrap is not installed"), "landlock": self._landlock()}
        there, why = needed.get(means, (True, ""))
        if not there:
            raise UnmaskError(f"{means}: {why}")
        self.interpreter = interpreter.for_strangers()
        self._idle: SimpleQueue[Keeper] = SimpleQueue()
        self._home = tempfile.TemporaryDirectory(prefix="unmask-sandbox-")
        os.chmod(self._home.name, 0o711)

    def _landlock(self) -> tuple[bool, str]:
        if self.abi < LEAST:
            return False, f"this kernel has its ABI {self.abi}, and {LEAST} is needed (Linux 6.7)"
        return seccomp.machine() is not None, "no filter of system calls for this machine"

    @property
    def name(self) -> str:
        """What it is made of."""
        made = {"bubblewrap": "bubblewrap", "landlock": f"Landlock {self.abi}"}.get(self.means)
        if made is None:
            return "limits alone, no isolation: files and network are open"
        return f"{made}, seccomp" if seccomp.machine() else made

    def report(self) -> dict[str, Any]:
        """What records say of it: level, what it is made of, and what was attempted in it with which answer."""
        version = ".".join(map(str, sys.version_info[:3]))
        return {"level": self.level, "name": self.name, "python": version, "self_test": dict(self.tested)}

    @classmethod
    def strongest(cls, allowed: str = "confined") -> Sandbox:
        """The first of `LEVELS` that passes its test; the last, confining nothing, where "unconfined" is allowed."""
        arguments.word("allowed", allowed, ("confined", "unconfined"))
        reasons = []
        for means, level in LEVELS.items():
            if level == 1 and allowed != "unconfined":
                continue
            try:
                return cls(means).passing()
            except UnmaskError as error:
                reasons.append(str(error))
        raise UnmaskError(
            f"no sandbox works here: {'; '.join(reasons)}; run in a virtual machine or container that may be lost, "
            'and allow "unconfined"'
        )

    def passing(self) -> Self:
        """The same, if it has refused all that a program attempted in it, except at level 1; otherwise an error."""
        try:
            self.tested = strength.attempted(self)
            let = [name for name, answer in self.tested.items() if answer != strength.REFUSED]
            if self.level > 1 and let:
                raise UnmaskError(f"{self.name}: a program could {', '.join(let)}")
            return self
        except BaseException:
            self.close()
            raise

    def run(self, program: str, limits: Limits | None = None, stdin: str | None = None) -> Ran:
        """What came of a program by itself: it has passed if it exits with 0, for whatever reason."""
        return self._kept(program, None, None, limits, stdin)

    def check(self, program: str, tests: str, entry_point: str | None = None, limits: Limits | None = None) -> Ran:
        """What came of a program's tests: assertions, which name its functions, or what checks `entry_point`.

        Tests run in a process where no line of the program ever runs, and which has been forked apart before it reads
        them; a function of the program is called in the other process, and plain data go there and back as JSON. Passed
        says: the tests came to their last line, over answers that are data of Python's own types. So exiting with 0, a
        patched builtin, an object that equals everything and a search through memory, files and frames for what is
        expected all fail. It does not say that the answers were computed: a program that recognises the inputs may have
        learnt them. At level 1 nothing keeps the two processes apart, and it proves nothing about hostile programs.

        In the tests a name is what they define themselves, a module of the standard library, a builtin, and only then
        the program's, but for `entry_point`, which always is. What is no plain data (int, float, complex, str, bytes,
        None, list, tuple, set, dict, range, and iterators, which are read to their end) stays with the program: the
        tests may call it, read and set its attributes and hand it back, and it equals itself alone. Arguments are
        copies: what a function does to them is not seen.
        """
        if isinstance(entry_point, str) and not entry_point.isidentifier():
            raise UnmaskError(f"entry point {shown(entry_point)} is no name of a function; give the one that is tested")
        return self._kept(program, tests, entry_point, limits, None)

    def _kept(
        self, program: str, tests: str | None, entry: str | None, limits: Limits | None, stdin: str | None
    ) -> Ran:
        for name, text in (("program", program), ("tests", tests), ("entry point", entry), ("stdin", stdin)):
            if text is not None:
                arguments.of_kind(name, text, str, "a text")
        limits = Limits() if limits is None else arguments.of_kind("limits", limits, Limits, "unmask.sandbox.Limits")
        job = {"means": self.means, "abi": self.abi, "bwrap": self.bwrap, "home": self._home.name}
        job |= {"python": self.interpreter.python, "read": self.interpreter.read, "library": self.interpreter.library}
        job |= {"devices": [path for path in interpreter.DEVICES if os.path.exists(path)], "limits": vars(limits)}
        job |= {"program": program, "tests": tests, "entry": entry, "stdin": stdin or "", "inside": INSIDE.read_text()}
        result = self._told(json.dumps(job), limits.wall + GRACE)
        if "setup" in result:
            raise UnmaskError(f"{self.name}: {result['setup']}")
        return Ran(
            result["outcome"],
            result["stdout"],
            result["stderr"],
            result["seconds"],
            result["exit"],
            result["signal"],
        )

    def _told(self, job: str, seconds: float) -> dict[str, Any]:
        """What a keeper answers: one that has nothing to do, or another."""
        try:
            keeper = self._idle.get_nowait()
        except Empty:
            keeper = Keeper()
        try:
            result = keeper.keep(job, seconds)
        except BaseException as error:
            keeper.end()
            if isinstance(error, UnmaskError):
                raise UnmaskError(f"{self.name}: {error}") from error
            raise
        self._idle.put(keeper)
        return result

    def close(self) -> None:
        while not self._idle.empty():
            self._idle.get().end()
        self.interpreter = interpreter.own()  # a copy goes where nobody holds it
        self._home.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


@dataclass(frozen=True)
class Level:
    """A way to confine, its level (3 is the strongest), and why it does not work here, if it does not."""

    level: int
    means: str
    name: str
    works: bool
    why: str = ""


def levels() -> list[Level]:
    """Each way to confine, tried."""
    found = []
    for means, level in LEVELS.items():
        try:
            with Sandbox(means).passing() as box:
                found.append(Level(level, means, box.name, True))
        except UnmaskError as error:
            found.append(Level(level, means, means, False, str(error)))
    return found
