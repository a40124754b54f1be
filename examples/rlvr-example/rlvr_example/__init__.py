"""A custom reward, problem set and algorithm for rlvr."""
