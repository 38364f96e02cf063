"""The jobs of sweeps: a job measures a cell, and has a name."""
