"""Find the files of a checkpoint: in a directory, in the cache of huggingface_hub, or by a download from the hub."""

from __future__ import annotations

import os
import re
from pathlib import Path

from unmask.core import arguments
from unmask.core.errors import UnmaskError, needed
from unmask.models.open import card as cards
from unmask.models.open.card import Card

REPOSITORY = re.compile(r"(?!.*(--|\.\.|\.git$))\b[\w.-]+\b/\b[\w.-]{1,96}\b")  # names of repositories in the hub
PATTERNS = ("*.safetensors", "*.safetensors.index.json", "*.json", "tokenizer.model", "merges.txt")


def locate(source: str | Path, card: str | None = None) -> tuple[Path, Card | None]:
    """The directory of a checkpoint, and its card if it is named; missing files are downloaded.

    A repository without a card contains an AR model, or identifies its model by its files.
    """
    arguments.path("model", source)
    named = None if card is None else cards.find(card)
    if os.path.isdir(source):
        return Path(source), named
    if named is None and _is_repository(source):
        return _fetched(str(source), None), None
    named = named or cards.find(str(source))
    return _fetched(named.repository, named.revision), named


def here(source: str | Path, card: str | None = None) -> tuple[Path | None, Card | None]:
    """The same without a download: None if the files are missing."""
    if os.path.isdir(source):
        return locate(source, card)
    if card is None and _is_repository(source):
        return _cached(str(source), None), None
    named = cards.find(str(source) if card is None else card)
    return _cached(named.repository, named.revision), named


def _is_repository(source: str | Path) -> bool:
    """Whether this is the name of a repository without a card."""
    with_cards = {card.repository.lower() for card in cards.known().values()}
    return isinstance(source, str) and bool(REPOSITORY.fullmatch(source)) and source.lower() not in with_cards


def _cached(repository: str, revision: str | None) -> Path | None:
    """The directory of a repository in the cache."""
    try:
        from huggingface_hub import try_to_load_from_cache
    except ImportError:
        return None

    path = try_to_load_from_cache(repository, "config.json", revision=revision)
    return Path(path).parent if isinstance(path, str) else None


def _fetched(repository: str, revision: str | None) -> Path:
    by_hand = f"download https://huggingface.co/{repository} elsewhere, and pass its directory: --model DIR"
    with needed("hub", f"{repository} is not a directory; its download", by_hand):
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(repository, revision=revision, allow_patterns=list(PATTERNS)))
    except LocalEntryNotFoundError as error:
        problem = "is neither a directory nor in the cache of the hub, and the hub cannot be reached"
        raise UnmaskError(f"{repository} {problem}. You can {by_hand}") from error
    except HfHubHTTPError as error:
        why = str(error).strip().splitlines()[0]
        raise UnmaskError(f"the hub refuses {repository}: {why}. You can {by_hand}") from error
    except OSError as error:
        raise UnmaskError(f"cannot download {repository}: {error}. You can {by_hand}") from error
