"""Open models: published checkpoints, loaded without their code, as denoisers for all samplers."""

from unmask.models.open import cards as cards  # each registers its cards or families
from unmask.models.open import dit as dit
from unmask.models.open import families as families
from unmask.models.open.card import CARDS, Card, Tokens, find, known
from unmask.models.open.loading import load_model
from unmask.models.open.model import OpenModel
from unmask.models.open.probing import probe

__all__ = ["CARDS", "Card", "OpenModel", "Tokens", "find", "known", "load_model", "probe"]
