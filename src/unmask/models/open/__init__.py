"""Open models: published checkpoints, loaded without their code, as denoisers for all samplers."""

from unmask.models.open import dit as dit  # each registers its families
from unmask.models.open import families as families
from unmask.models.open.card import CARDS, Card, Tokens, find
from unmask.models.open.loading import described, load_model
from unmask.models.open.model import OpenModel
from unmask.models.open.probing import probe

__all__ = ["CARDS", "Card", "OpenModel", "Tokens", "described", "find", "load_model", "probe"]
