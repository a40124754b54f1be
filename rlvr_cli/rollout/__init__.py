"""Sampling: responses from an engine, judged as they come."""
