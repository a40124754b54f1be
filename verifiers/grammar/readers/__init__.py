"""Readers: plain functions that receive the parser and read one kind of atom each."""
