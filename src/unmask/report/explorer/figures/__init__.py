"""The figures of the explorer. The page shows each `FIGURES` of these modules."""
