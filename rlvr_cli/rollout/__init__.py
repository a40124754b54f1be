"""Sampling: the sampler and the engines behind one protocol."""
