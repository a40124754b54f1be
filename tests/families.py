"""Small random models of every family that the table in docs/models.md names."""

import transformers

VOCAB = 50
WINDOW = 6
"""Tokens that a layer with a sliding window sees: fewer than a prompt of the tests has."""

SIZES = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 128,
    "bos_token_id": None,
    "eos_token_id": 1,
    "pad_token_id": 0,
}
GROUPED = {**SIZES, "num_key_value_heads": 2}
SLIDING = {**GROUPED, "sliding_window": WINDOW, "head_dim": 8}
BOTH = {"layer_types": ["sliding_attention", "full_attention"]}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
LATENT = {
    "num_key_value_heads": 4,
    "kv_lora_rank": 16,
    "q_lora_rank": 24,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 4,
    "v_head_dim": 6,
}

FAMILIES = {
    "llama": lambda: transformers.LlamaConfig(**SIZES, num_key_value_heads=4),
    "qwen2-tied": lambda: transformers.Qwen2Config(**GROUPED, tie_word_embeddings=True),
    "qwen2-untied": lambda: transformers.Qwen2Config(**GROUPED, tie_word_embeddings=False),
    "qwen3": lambda: transformers.Qwen3Config(**SIZES, num_key_value_heads=1, head_dim=8),
    "qwen2-moe": lambda: transformers.Qwen2MoeConfig(
        **GROUPED, **EXPERTS, shared_expert_intermediate_size=16, decoder_sparse_step=1
    ),
    "qwen3-moe": lambda: transformers.Qwen3MoeConfig(**GROUPED, **EXPERTS, head_dim=8),
    "qwen3-next": lambda: transformers.Qwen3NextConfig(
        **GROUPED,
        **EXPERTS,
        head_dim=8,
        shared_expert_intermediate_size=16,
        linear_num_key_heads=2,
        linear_num_value_heads=4,
        linear_key_head_dim=8,
        linear_value_head_dim=8,
        layer_types=["linear_attention", "full_attention"],
    ),
    "mistral-sliding": lambda: transformers.MistralConfig(**SLIDING),
    "mixtral": lambda: transformers.MixtralConfig(**GROUPED, num_local_experts=4),
    "gemma2": lambda: transformers.Gemma2Config(**SLIDING, **BOTH, query_pre_attn_scalar=8),
    "gemma3": lambda: transformers.Gemma3TextConfig(**SLIDING, **BOTH, query_pre_attn_scalar=8),
    "phi3": lambda: transformers.Phi3Config(**GROUPED),
    "olmo2": lambda: transformers.Olmo2Config(**GROUPED),
    "olmo3": lambda: transformers.Olmo3Config(**GROUPED, sliding_window=WINDOW, **BOTH),
    "smollm3": lambda: transformers.SmolLM3Config(**GROUPED, no_rope_layers=[1, 0]),
    "granite": lambda: transformers.GraniteConfig(
        **GROUPED, logits_scaling=4.0, residual_multiplier=0.5, embedding_multiplier=3.0
    ),
    "glm4": lambda: transformers.Glm4Config(**GROUPED, head_dim=8),
    "gpt-oss": lambda: transformers.GptOssConfig(
        **SLIDING, **BOTH, num_local_experts=4, num_experts_per_tok=2
    ),
    "deepseek-v3": lambda: transformers.DeepseekV3Config(
        **SIZES,
        **LATENT,
        n_routed_experts=4,
        num_experts_per_tok=2,
        n_group=1,
        topk_group=1,
        n_shared_experts=1,
        moe_intermediate_size=16,
        first_k_dense_replace=1,
    ),
    "minicpm3": lambda: transformers.MiniCPM3Config(**SIZES, **LATENT),
    "cohere": lambda: transformers.CohereConfig(**GROUPED, logit_scale=0.25),
    "cohere2": lambda: transformers.Cohere2Config(**SLIDING, **BOTH, logit_scale=0.25),
    "stablelm": lambda: transformers.StableLmConfig(**GROUPED),
    "nemotron": lambda: transformers.NemotronConfig(**GROUPED),
    "falcon-h1": lambda: transformers.FalconH1Config(
        **GROUPED,
        mamba_d_ssm=32,
        mamba_n_heads=4,
        mamba_d_head=8,
        mamba_d_state=8,
        mamba_n_groups=1,
        mamba_chunk_size=8,
    ),
    "lfm2": lambda: transformers.Lfm2Config(**GROUPED, layer_types=["conv", "full_attention"]),
    "mamba": lambda: transformers.MambaConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        state_size=8,
        num_hidden_layers=2,
        bos_token_id=None,
        eos_token_id=1,
        pad_token_id=0,
    ),
    "gpt2": lambda: transformers.GPT2Config(
        vocab_size=VOCAB,
        n_embd=32,
        n_layer=2,
        n_head=4,
        n_positions=128,
        bos_token_id=None,
        eos_token_id=1,
    ),
    "gpt-neox": lambda: transformers.GPTNeoXConfig(**SIZES),
}


def family_config(family: str) -> transformers.PreTrainedConfig:
    """Make the configuration of a family's small model."""
    return FAMILIES[family]()
