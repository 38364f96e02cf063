"""The code of an engine: its place, its version, and one file of it as a module."""

from __future__ import annotations

import hashlib
import importlib.util
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType
from typing import Any


class Missing(Exception):
    """An engine that is not here; the message says what to do."""


class Stub(type):
    """A name of a package that the tested function does not use: a class, a decorator, or a module of such names."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Stub(name, (), {})

    def __getitem__(cls, _: Any) -> Any:
        return cls

    def __call__(cls, *arguments: Any, **_: Any) -> Any:
        return arguments[0] if len(arguments) == 1 and callable(arguments[0]) else cls


def installed(package: str) -> str:
    """The version of an installed package."""
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        raise Missing(f"{package} is not installed. Run `pip install {package}`.") from None


class Checkout:
    """A folder of one repository: DIR/NAME, as `git clone` makes it."""

    def __init__(self, folder: Path | None, name: str, url: str) -> None:
        if folder is None or not (folder / name).is_dir():
            at = "--checkouts DIR" if folder is None else str(folder / name)
            raise Missing(f"no checkout of {url}. Clone it as {name} into {at}.")
        self.path = folder / name
        self.name = name

    def version(self, *files: str) -> str:
        """The commit, from git or from a file COMMIT; without either the beginning of the files' SHA-256."""
        if (self.path / ".git").exists():
            command = ["git", "-C", str(self.path), "rev-parse", "HEAD"]
            return subprocess.run(command, capture_output=True, text=True, check=True).stdout[:12]
        if (self.path / "COMMIT").is_file():
            return (self.path / "COMMIT").read_text().strip()[:12]
        digest = hashlib.sha256(b"".join((self.path / file).read_bytes() for file in files))
        return f"sha256 {digest.hexdigest()[:12]}"

    def load(self, file: str, stubs: Mapping[str, Any] | None = None, beside: str = "", within: str = "") -> ModuleType:
        """One file as a module. beside: a folder whose modules the file imports by their plain names.

        within: the package from which it imports by dots."""
        return load(self.path / file, stubs, self.path / beside if beside else None, within)


def load(
    path: Path, stubs: Mapping[str, Any] | None = None, beside: Path | None = None, within: str = ""
) -> ModuleType:
    """A file as a module.

    stubs: modules, or the attributes of modules, in place of others of these names while the file is loaded. Every
    other module of their packages, and of the file's own, is a stub too.
    """
    if not path.is_file():
        raise Missing(f"{path} does not exist; expected a file of this engine. Is the checkout of another version?")
    package = within or f"engine_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(f"{package}.{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with _in_place({package: {}} | dict(stubs or {}), beside):  # relative imports find stubs too
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    sys.modules[spec.name] = module  # dataclasses look it up
    return module


class _Stubbed(ModuleType):
    """A module with every name."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Stub(name, (), {})


class _Finder(MetaPathFinder, Loader):
    """Finds a stub for every module of some packages."""

    def __init__(self, stubs: Mapping[str, Any]) -> None:
        self.stubs, self.packages = stubs, {name.partition(".")[0] for name in stubs}

    def owns(self, name: str) -> bool:
        return name.partition(".")[0] in self.packages

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return ModuleSpec(name, self, is_package=True) if self.owns(name) else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        given = self.stubs.get(spec.name)
        if isinstance(given, ModuleType):
            return given
        module = _Stubbed(spec.name)
        vars(module).update(given or {})
        return module

    def exec_module(self, module: ModuleType) -> None:
        """A stub has nothing to execute."""


@contextmanager
def _in_place(stubs: Mapping[str, Any], beside: Path | None) -> Iterator[None]:
    finder, path = _Finder(stubs), list(sys.path)
    before = {name: sys.modules.pop(name) for name in list(sys.modules) if finder.owns(name)}
    known = set(sys.modules)
    sys.meta_path.insert(0, finder)
    if beside is not None:
        sys.path.insert(0, str(beside))
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        sys.path[:] = path
        for name in set(sys.modules) - known:
            origin = getattr(sys.modules[name], "__file__", None) or ""
            if finder.owns(name) or (beside is not None and origin.startswith(str(beside))):
                del sys.modules[name]
        sys.modules.update(before)
