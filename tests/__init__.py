"""A package, so that none that an installed distribution calls `tests` is found in its place."""
