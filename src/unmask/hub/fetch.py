"""Where the files of a checkpoint are: a directory, the cache of huggingface_hub, or, where it may, the hub itself."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

from unmask.core.errors import UnmaskError
from unmask.hub import card as cards
from unmask.hub.card import Card
from unmask.hub.weights import is_packed
from unmask.text.packages import file_of

PATTERNS = ("*.safetensors", "*.safetensors.index.json", "*.json", "tokenizer.model", "merges.txt")


def locate(source: str | Path, card: str | None = None) -> tuple[Path, Card | None]:
    """The directory of a checkpoint, and its card where a name says which; of a name its files are fetched if they are
    not here yet."""
    named = None if card is None else cards.find(card)
    if os.path.isdir(source) or is_packed(Path(source)):
        return Path(source), named
    found = named or cards.find(str(source))
    return _fetched(found) if found.package is None else file_of(found.package, ".gguf"), found


def here(source: str | Path, card: str | None = None) -> tuple[Path | None, Card | None]:
    """The same, without fetching anything: None where its files are not here."""
    if os.path.isdir(source) or is_packed(Path(source)):
        return locate(source, card)
    found = cards.find(str(source) if card is None else card)
    if found.package is not None:
        return file_of(found.package, ".gguf"), found
    if find_spec("huggingface_hub") is None:
        return None, found
    from huggingface_hub import try_to_load_from_cache

    kept = try_to_load_from_cache(found.repository, "config.json", revision=found.revision)
    return (Path(kept).parent if isinstance(kept, str) else None), found


def _fetched(card: Card) -> Path:
    by_hand = f"download https://huggingface.co/{card.repository} elsewhere, and name its directory: --model DIR"
    if find_spec("huggingface_hub") is None:
        what = "fetching it needs the package huggingface_hub; pip install 'unmask[hub]'"
        raise UnmaskError(f"{card.repository} is not a directory here, and {what}, or {by_hand}")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(card.repository, revision=card.revision, allow_patterns=list(PATTERNS)))
    except LocalEntryNotFoundError as error:
        raise UnmaskError(f"cannot reach the hub, and {card.repository} is not in its cache; {by_hand}") from error
    except HfHubHTTPError as error:
        why = str(error).strip().splitlines()[0]
        raise UnmaskError(f"the hub does not give {card.repository}: {why}; {by_hand}") from error
    except OSError as error:
        raise UnmaskError(f"cannot fetch {card.repository}: {error}; {by_hand}") from error
