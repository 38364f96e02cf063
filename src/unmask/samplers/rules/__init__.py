"""Rules that decide which positions are revealed; core/lazy.py finds the module of a name."""
