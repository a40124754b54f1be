"""The policy: loading, attention, packing, log-probabilities."""
