"""Rollout engines behind one protocol."""
