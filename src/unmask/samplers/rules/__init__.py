"""Rules that decide which positions are revealed; core/registry.py finds the module of a name."""
