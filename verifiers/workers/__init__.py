"""Bound a comparison in time and memory, in worker processes that can be killed."""
