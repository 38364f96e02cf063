"""Open models: published checkpoints, loaded without their code, behind the contract that all samplers speak."""

from unmask.hub import cards as cards  # each of which registers itself
from unmask.hub.card import CARDS, Card, Tokens, find, known
from unmask.hub.loading import load_model
from unmask.hub.model import OpenModel
from unmask.hub.probe import probe

__all__ = ["CARDS", "Card", "OpenModel", "Tokens", "find", "known", "load_model", "probe"]
