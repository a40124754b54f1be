"""Decide when two answers are equal."""
