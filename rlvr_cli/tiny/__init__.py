"""The built-in policy: its weights, which `make tiny` makes."""
