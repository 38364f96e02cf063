"""Rules that decide which positions are revealed; core/lazy.py has the module of each name."""
