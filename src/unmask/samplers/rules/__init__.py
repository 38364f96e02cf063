"""Rules that decide which positions are revealed; core/index.py has the module of each name."""
