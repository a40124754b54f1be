"""A random model of two layers as a directory, for commands whose subject is not what it says."""

from pathlib import Path

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from rlvr_cli.model.loading import load_model


def save_small_model(directory: Path, seed: int = 0, deviation: float = 0.02) -> Path:
    """Save a random model with the built-in policy's tokenizer, and weights of this deviation.
    Return the directory."""
    tokenizer = load_model("tiny").tokenizer
    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        initializer_range=deviation,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    Qwen2ForCausalLM(config).save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return directory
