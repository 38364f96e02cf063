from __future__ import annotations

import os
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.needs import unmet
from tests.sandbox.attacks import Attack
from unmask.core.errors import UnmaskError
from unmask.sandbox import Ran, Sandbox

LEFT = f"unmask-attack-{os.getpid()}"


@dataclass
class Outside:
    """What a program must not reach, and whether it has."""

    file: Path
    server: socket.socket
    path: str

    def attacked(self, box: Sandbox, attack: Attack) -> tuple[Ran, list[str]]:
        """What came of an attack, and what it has reached."""
        with subprocess.Popen(["sleep", "100"]) as victim:
            program = attack.program.replace("TARGET", str(self.file)).replace("PATH", self.path)
            program = program.replace("PORT", str(self.server.getsockname()[1]))
            program = program.replace("VICTIM", str(victim.pid)).replace("PARENT", str(os.getpid()))
            program = program.replace("LEFT", LEFT)
            ran = box.run(program, attack.limits)
            reached = ["a process"] if victim.poll() is not None else []
            victim.kill()
        if "ESCAPED" in ran.stdout:
            reached.append(ran.stdout[:200])
        left = [name for name in os.listdir("/dev/shm") if name.startswith(LEFT)]
        for name in left:
            os.remove(f"/dev/shm/{name}")
        reached += left
        if not self.file.exists() or self.file.read_text() != "ours" or self.file.stat().st_mode & 0o777 != 0o666:
            reached.append("a file")
        self.renew()
        return ran, reached

    def renew(self) -> None:
        self.file.parent.mkdir(exist_ok=True)  # where nothing confines, an ordinary user deletes it
        self.file.parent.chmod(0o777)
        self.file.write_text("ours")
        self.file.chmod(0o666)
        for other in self.file.parent.glob("file.*"):
            other.unlink()


@pytest.fixture(scope="session")
def outside() -> Iterator[Outside]:
    """Open to every user, so that it is the jail that refuses."""
    with (
        tempfile.TemporaryDirectory(prefix="unmask-outside-") as directory,
        tempfile.TemporaryDirectory(prefix="unmask-sockets-") as sockets,
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as local,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("UNMASK_SECRET", "ours")
        local.bind(f"{sockets}/path")
        datagrams.bind(f"{sockets}/path.datagrams")
        local.listen()
        for path in (directory, sockets, *Path(sockets).iterdir()):
            os.chmod(path, 0o777)
        made = Outside(Path(directory, "file"), server, f"{sockets}/path")
        made.renew()
        yield made


@pytest.fixture(scope="session")
def box() -> Iterator[Callable[..., Sandbox]]:
    """A sandbox of a kind, made and tested once; a test skips where it does not work, saying why."""
    made: dict[tuple[str, int | None], Sandbox | str] = {}

    def get(means: str, abi: int | None = None) -> Sandbox:
        if (means, abi) not in made:
            try:
                made[means, abi] = Sandbox(means, abi).passing()
            except UnmaskError as error:
                made[means, abi] = str(error)
        found = made[means, abi]
        return unmet("bwrap" if means == "bubblewrap" else means, found) if isinstance(found, str) else found

    yield get
    for one in made.values():
        if isinstance(one, Sandbox):
            one.close()


@pytest.fixture(scope="session")
def strongest(box: Callable[..., Sandbox]) -> Iterator[Sandbox]:
    try:
        found = Sandbox.strongest()
    except UnmaskError as error:
        unmet("sandbox", error)
    with found:
        yield found
