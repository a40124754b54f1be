"""Engines that sample: one protocol, transformers and vLLM behind it."""
