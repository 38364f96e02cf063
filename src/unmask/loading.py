"""load(): whatever has a name or lies in a file, by what it is: a language, or a network."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.core import arguments
from unmask.core.errors import UnmaskError

if TYPE_CHECKING:
    from unmask.languages import Language
    from unmask.networks import Network

CONFIG = "config.json"  # what the directory of a network has


def load(source: str | Path, **options: Any) -> Language | Network:
    """A language, of a preset, a file or a kind with options (languages.load); or the network of a directory that
    `unmask train` has made (networks.read_network), which can be given an AR model beside it: causal_model=DIR.
    """
    path = arguments.path("source", source)
    if not os.path.isdir(path):
        from unmask import languages

        return languages.load(source, **options)
    if not os.path.exists(path / CONFIG):
        what = f"there is no {CONFIG} in it, which `unmask train` leaves beside the weights"
        raise UnmaskError(f"the directory {path} holds no network: {what}")
    from unmask.networks import read_network

    return read_network(path, **options)
