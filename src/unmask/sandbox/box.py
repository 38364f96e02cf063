"""Sandboxes: the jails that work on this machine, and the programs in them."""

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
LEAST = 4  # ABI of Landlock: earlier ones permit truncation of files, and TCP
GRACE = 60.0  # seconds beyond the wall time, to make and clean up a jail
INSIDE = Path(__file__).parent / "inside.py"


class Sandbox:
    """A jail of one of `LEVELS`; use `strongest()` to choose one. Several threads may run programs at once.

    A program has an interpreter with the standard library, one empty home directory to write to, which is removed
    afterwards, descriptors 0, 1 and 2, and no network. All processes that it starts end with it.
    """

    def __init__(self, means: str, abi: int | None = None) -> None:
        """abi: use this older ABI of Landlock; 0: no Landlock."""
        if not sys.platform.startswith("linux"):
            raise UnmaskError(f"no sandbox for {sys.platform}. Run code in a Linux container or virtual machine")
        arguments.word("sandbox", means, tuple(LEVELS))
        self.means, self.level = means, LEVELS[means]
        if abi is not None:
            arguments.whole("abi", abi, 0)
        self.abi = landlock.abi() if abi is None else min(abi, landlock.abi())
        self.bwrap = shutil.which("bwrap")
        self.tested: dict[str, str] = {}
        needed = {"bubblewrap": (self.bwrap, "bwrap is not installed"), "landlock": self._landlock()}
        available, why = needed.get(means, (True, ""))
        if not available:
            raise UnmaskError(f"{means}: {why}")
        self.interpreter = interpreter.for_strangers()
        self._idle: SimpleQueue[Keeper] = SimpleQueue()
        self._home = tempfile.TemporaryDirectory(prefix="unmask-sandbox-")
        os.chmod(self._home.name, 0o711)

    def _landlock(self) -> tuple[bool, str]:
        if self.abi < LEAST:
            return False, f"the ABI of this kernel is {self.abi}; expected at least {LEAST} (Linux 6.7)"
        return seccomp.machine() is not None, "no filter of system calls for this machine"

    @property
    def name(self) -> str:
        """Its mechanisms."""
        mechanism = {"bubblewrap": "bubblewrap", "landlock": f"Landlock {self.abi}"}.get(self.means)
        if mechanism is None:
            return "only limits, no isolation: files and network are open"
        return f"{mechanism}, seccomp" if seccomp.machine() else mechanism

    def report(self) -> dict[str, Any]:
        """The entry in records: level, mechanisms, Python version, and the outcome of each attempted action."""
        version = ".".join(map(str, sys.version_info[:3]))
        return {"level": self.level, "name": self.name, "python": version, "self_test": dict(self.tested)}

    @classmethod
    def strongest(cls, allowed: str = "confined") -> Sandbox:
        """The strongest of `LEVELS` that passes its test. Level 1, without isolation, requires "unconfined"."""
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
            f"no sandbox works here: {'; '.join(reasons)}. Run in a disposable virtual machine or container, "
            'and allow "unconfined"'
        )

    def passing(self) -> Self:
        """Test the sandbox and return it. An attempt that succeeds is an error, except at level 1."""
        try:
            self.tested = strength.attempted(self)
            allowed = [name for name, answer in self.tested.items() if answer != strength.REFUSED]
            if self.level > 1 and allowed:
                raise UnmaskError(f"{self.name}: a program could {', '.join(allowed)}")
            return self
        except BaseException:
            self.close()
            raise

    def run(self, program: str, limits: Limits | None = None, stdin: str | None = None) -> Ran:
        """Run a program without tests; it passes if it exits with 0, for any reason."""
        return self._run(program, None, None, limits, stdin)

    def check(self, program: str, tests: str, entry_point: str | None = None, limits: Limits | None = None) -> Ran:
        """Run the tests of a program: assertions that use its functions, or only the function `entry_point`.

        Tests run in a process of their own, which never executes code of the program and is forked before it reads the
        tests. Functions of the program are called in the other process; arguments and results are sent as JSON. A
        program passes if the tests reach their last line with results of Python's own types. So it cannot pass by
        exiting with 0, patching a builtin, returning an object that equals everything, or searching memory, files and
        frames for the expected results. A program that recognises the inputs can still return memorised results. At
        level 1 the two processes are not isolated from each other, so hostile programs can pass.

        Names in the tests are resolved in this order: the tests' own, modules of the standard library, builtins, the
        program's; `entry_point` is always the program's. Plain data are int, float, complex, str, bytes, None, list,
        tuple, set, dict, range, and iterators, which are read to their end. All other objects stay in the program: the
        tests can call them, read and set their attributes, and pass them back; each equals only itself. Arguments are
        copies: changes that a function makes to them are lost.
        """
        if isinstance(entry_point, str) and not entry_point.isidentifier():
            raise UnmaskError(f"entry point is {shown(entry_point)}; expected the name of the tested function")
        return self._run(program, tests, entry_point, limits, None)

    def _run(self, program: str, tests: str | None, entry: str | None, limits: Limits | None, stdin: str | None) -> Ran:
        for name, text in (("program", program), ("tests", tests), ("entry point", entry), ("stdin", stdin)):
            if text is not None:
                arguments.of_kind(name, text, str, "a text")
        limits = Limits() if limits is None else arguments.of_kind("limits", limits, Limits, "unmask.sandbox.Limits")
        job = {"means": self.means, "abi": self.abi, "bwrap": self.bwrap, "home": self._home.name}
        job |= {"python": self.interpreter.python, "read": self.interpreter.read, "library": self.interpreter.library}
        job |= {"devices": [path for path in interpreter.DEVICES if os.path.exists(path)], "limits": vars(limits)}
        job |= {"program": program, "tests": tests, "entry": entry, "stdin": stdin or "", "inside": INSIDE.read_text()}
        result = self._result(json.dumps(job), limits.wall + GRACE)
        if "setup" in result:
            raise UnmaskError(f"{self.name}: {result['setup']}")
        return Ran(*(result[name] for name in ("outcome", "stdout", "stderr", "seconds", "exit", "signal")))

    def _result(self, job: str, seconds: float) -> dict[str, Any]:
        """The result of a job, from an idle keeper or a new one."""
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
        self.interpreter = interpreter.own()  # a copy is removed with its last reference
        self._home.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


@dataclass(frozen=True)
class Level:
    """A kind of sandbox, its level (3 is the strongest), and the reason if it does not work here."""

    level: int
    means: str
    name: str
    works: bool
    why: str = ""


def levels() -> list[Level]:
    """All kinds of sandboxes, each tested."""
    tested = []
    for means, level in LEVELS.items():
        try:
            with Sandbox(means).passing() as box:
                tested.append(Level(level, means, box.name, True))
        except UnmaskError as error:
            tested.append(Level(level, means, means, False, str(error)))
    return tested
