"""Engines that sample: transformers and vLLM, with one interface."""
