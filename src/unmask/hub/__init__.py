"""Open models: published checkpoints, loaded without their code, as denoisers for all samplers."""

from unmask.hub import cards as cards  # each registers its cards or families
from unmask.hub import dit as dit
from unmask.hub.card import CARDS, Card, Tokens, find, known
from unmask.hub.loading import load_model
from unmask.hub.model import OpenModel
from unmask.hub.probe import probe

__all__ = ["CARDS", "Card", "OpenModel", "Tokens", "find", "known", "load_model", "probe"]
