"""Exact and numeric values of expressions."""
