"""Random models of a few thousand parameters, made on the spot."""

from pathlib import Path

import torch
from families import family_config
from transformers import AutoModelForCausalLM, PreTrainedModel, Qwen2Config, Qwen2ForCausalLM

from rlvr_cli.model.loading import load_model
from rlvr_cli.model.packing import ATTENTION


def random_model(family: str = "qwen2-tied", seed: int = 0) -> PreTrainedModel:
    """A model of a few thousand parameters whose next token is far from uniform."""
    torch.manual_seed(seed)
    config = family_config(family)
    try:
        model = AutoModelForCausalLM.from_config(config, attn_implementation=ATTENTION)
    except ValueError:  # it has attention of its own
        model = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(8)
    return model.eval()


def double_model(seed: int = 0) -> PreTrainedModel:
    """A Qwen2 model in float64 throughout (transformers' own norm computes in float32)."""
    model = random_model(seed=seed).double()
    for name, module in list(model.named_modules()):
        if type(module).__name__ == "Qwen2RMSNorm":
            norm = torch.nn.RMSNorm(len(module.weight), module.variance_epsilon).double()
            norm.weight = module.weight
            model.set_submodule(name, norm)
    return model


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
