"""Where the files of a checkpoint are: a directory, the cache of huggingface_hub, or, where it may, the hub itself."""

from __future__ import annotations

import os
import re
from pathlib import Path

from unmask.core import arguments
from unmask.core.errors import UnmaskError
from unmask.core.extras import needed
from unmask.hub import card as cards
from unmask.hub.card import Card
from unmask.hub.weights import is_packed
from unmask.text.packages import file_of

REPOSITORY = re.compile(r"(?!.*(--|\.\.|\.git$))\b[\w.-]+\b/\b[\w.-]{1,96}\b")  # as the hub names one
PATTERNS = ("*.safetensors", "*.safetensors.index.json", "*.json", "tokenizer.model", "merges.txt")


def locate(source: str | Path, card: str | None = None) -> tuple[Path, Card | None]:
    """The directory of a checkpoint, and its card where a name says which; of a name its files are fetched if they are
    not here yet. A repository that no card is of holds an AR model, or says by its files which it holds."""
    arguments.path("model", source)
    named = None if card is None else cards.find(card)
    if os.path.isdir(source) or is_packed(Path(source)):
        return Path(source), named
    if named is None and _is_repository(source):
        return _fetched(str(source), None), None
    found = named or cards.find(str(source))
    place = _fetched(found.repository, found.revision) if found.package is None else file_of(found.package, ".gguf")
    return place, found


def here(source: str | Path, card: str | None = None) -> tuple[Path | None, Card | None]:
    """The same, without fetching anything: None where its files are not here."""
    if os.path.isdir(source) or is_packed(Path(source)):
        return locate(source, card)
    if card is None and _is_repository(source):
        return _kept(str(source), None), None
    found = cards.find(str(source) if card is None else card)
    if found.package is not None:
        return file_of(found.package, ".gguf"), found
    return _kept(found.repository, found.revision), found


def _is_repository(source: str | Path) -> bool:
    """Whether this is the name of one that no card is of."""
    named = {card.repository.lower() for card in cards.known().values()}
    return isinstance(source, str) and bool(REPOSITORY.fullmatch(source)) and source.lower() not in named


def _kept(repository: str, revision: str | None) -> Path | None:
    """Its directory in the cache."""
    try:
        from huggingface_hub import try_to_load_from_cache
    except ImportError:
        return None

    kept = try_to_load_from_cache(repository, "config.json", revision=revision)
    return Path(kept).parent if isinstance(kept, str) else None


def _fetched(repository: str, revision: str | None) -> Path:
    by_hand = f"download https://huggingface.co/{repository} elsewhere, and name its directory: --model DIR"
    with needed("hub", f"{repository} is not a directory here; to fetch it", by_hand):
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(repository, revision=revision, allow_patterns=list(PATTERNS)))
    except LocalEntryNotFoundError as error:
        what = "is no directory here, nor in the cache of the hub, which cannot be reached"
        raise UnmaskError(f"{repository} {what}; {by_hand}") from error
    except HfHubHTTPError as error:
        why = str(error).strip().splitlines()[0]
        raise UnmaskError(f"the hub does not give {repository}: {why}; {by_hand}") from error
    except OSError as error:
        raise UnmaskError(f"cannot fetch {repository}: {error}; {by_hand}") from error
