"""Killable worker processes that bound a check in time and memory."""
