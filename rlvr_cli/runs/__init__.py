"""One run from start to end: lifecycle, preflight, guards, run directory, checkpoints, state."""
