"""What a command does beside what it says: files that it touches, programs that it starts, code that it imports."""

from __future__ import annotations

import os
import pkgutil
import sys
import tempfile
from contextlib import suppress
from importlib import import_module
from typing import Any

import unmask
from unmask.core.errors import NotInstalled

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGING = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.chmod", "os.chown", "os.link", "os.symlink")
CHANGING += ("os.truncate", "os.utime", "shutil.rmtree", "shutil.move", "os.listdrives")
STARTING = ("os.system", "subprocess.Popen", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty", "pty.spawn")
STARTING += ("socket.connect", "socket.getaddrinfo", "socket.bind", "webbrowser.open", "ctypes.dlopen", "os.kill")
CODE = {"os", "posix", "subprocess", "sys", "shutil", "runpy", "importlib", "pty", "socket"}  # pickles that name these

IMPORTED: list[str] = []


def import_all() -> None:
    """Every module of `unmask`, except the program itself and modules whose packages are not installed."""
    for found in pkgutil.walk_packages(unmask.__path__, "unmask."):
        if found.name != "unmask.__main__":
            with suppress(NotInstalled):
                import_module(found.name)


def watch(root: str, told: int) -> None:
    """From here on, what this process does that no command should is written to a file, for ever."""
    package = os.path.dirname(os.path.abspath(unmask.__file__))
    allowed = (f"{root}/", f"{package}/", "/dev/null", "/proc")  # kernels: beside their sources, or in NUMBA_CACHE_DIR
    allowed += tuple(f"{os.path.abspath(place)}/" for place in (os.environ.get("NUMBA_CACHE_DIR"),) if place)
    tempfile.tempdir = None

    def tell(event: str, what: Any) -> None:
        os.write(told, f"{event}: {what!s:.200}\n".encode(errors="replace"))

    def outside(path: Any) -> bool:
        if isinstance(path, int) or path is None:
            return False
        text = os.fsdecode(path)
        if text == ":memory:":
            return False
        if text.startswith("file:"):
            text = text.removeprefix("file://").partition("?")[0]
        return not os.path.abspath(text).startswith(allowed)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if flags & WRITING and outside(path):
                tell(event, path)
        elif event == "import":
            IMPORTED.append(arguments[0])
        elif event in STARTING:
            tell(event, arguments)
        elif event in CHANGING:
            for path in arguments[: 2 if event in ("os.rename", "os.link", "shutil.move") else 1]:
                if outside(path):
                    tell(event, path)
        elif event == "pickle.find_class" and arguments[0] in CODE:
            tell(event, arguments)

    sys.addaudithook(hook)


def check_modules(root: str, told: int) -> None:
    """A line for each module that was imported since from the files of a case."""
    for name in IMPORTED:
        place = getattr(sys.modules.get(name), "__file__", None)
        if isinstance(place, str) and os.path.abspath(place).startswith(f"{root}/"):
            os.write(told, f"imported: {name} from {place}\n".encode())
