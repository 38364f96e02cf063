"""One file a family: how its files become a body, and a card for each of its checkpoints."""

from importlib import import_module
from pkgutil import iter_modules

for module in iter_modules(__path__):  # each registers its family and its cards
    import_module(f"{__name__}.{module.name}")
