"""One file per engine: NAME, and cases(checkouts) -> (version, cases). None has code of its engine."""
