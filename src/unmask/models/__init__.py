"""Who learns: trained/ networks of our own, open/ models of others, text/ their texts and tokenizers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unmask.core.lazy import lazily

if TYPE_CHECKING:
    from unmask.models.open.own import masked as masked

__getattr__, __dir__ = lazily(__name__, __path__)
