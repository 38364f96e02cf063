"""Plumbing that knows no language: errors, chance, the registry, estimates, files, progress, threads."""
