"""One module per family: the loading of its files, and a card for each checkpoint."""

from importlib import import_module
from pkgutil import iter_modules

for module in iter_modules(__path__):  # each registers a family and its cards
    import_module(f"{__name__}.{module.name}")
