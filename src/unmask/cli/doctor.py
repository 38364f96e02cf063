"""unmask doctor."""

from __future__ import annotations

from unmask.cli.options import Answer

OF_DEVELOPERS = ("test", "extras", "bench", "docs")  # extras that only this project's own work needs


def command() -> Answer:
    """Show versions, devices and extras, for a question or the report of a bug.

    Examples:
        unmask doctor
        unmask doctor --json

    The command installs, downloads and changes nothing.
    """
    import platform
    import re
    from importlib.metadata import PackageNotFoundError, requires, version

    def number(package: str) -> str | None:
        try:
            return version(package)
        except PackageNotFoundError:
            return None

    needs: dict[str, list[str]] = {}
    for requirement in requires("unmask") or ():
        if (optional := re.match(r"([\w.-]+).*; extra == [\"'](.+)[\"']", requirement)) is not None:
            needs.setdefault(optional[2], []).append(optional[1])
    versions = {name: number(name) for name in ("unmask", "torch", "numpy", "scipy", "numba")}
    versions |= {"python": platform.python_version()}
    extras = {name: all(map(number, packages)) for name, packages in needs.items() if name not in OF_DEVELOPERS}
    missing = [name for name, installed in extras.items() if not installed]
    devices = _devices()
    lines = [("versions", ", ".join(f"{name} {one}" for name, one in versions.items()))]
    lines += [("devices", devices), ("extras", ", ".join(extras.keys() - {*missing}) or "none")]
    lines += [("not installed", f"{', '.join(missing)}: pip install 'unmask[NAME]'")] if missing else []
    return Answer({"versions": versions, "devices": devices, "extras": extras}, lines)


def _devices() -> str:
    try:
        import torch
    except Exception as error:  # this command is for users who have a problem already
        return f"unknown: {type(error).__name__}: {' '.join(str(error).split())}"
    names = [torch.cuda.get_device_properties(number).name for number in range(torch.cuda.device_count())]
    return ", ".join(["cpu", *(f"cuda:{at} {name}" for at, name in enumerate(names))])
