"""Small random models of every family that the table in docs/models.md names."""

from transformers import (
    Cohere2Config,
    CohereConfig,
    DeepseekV3Config,
    FalconH1Config,
    Gemma2Config,
    Gemma3TextConfig,
    Glm4Config,
    GPT2Config,
    GPTNeoXConfig,
    GptOssConfig,
    GraniteConfig,
    Lfm2Config,
    LlamaConfig,
    MambaConfig,
    MiniCPM3Config,
    MistralConfig,
    MixtralConfig,
    NemotronConfig,
    Olmo2Config,
    Olmo3Config,
    Phi3Config,
    PreTrainedConfig,
    Qwen2Config,
    Qwen2MoeConfig,
    Qwen3Config,
    Qwen3MoeConfig,
    Qwen3NextConfig,
    SmolLM3Config,
    StableLmConfig,
)

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
    "llama": lambda: LlamaConfig(**SIZES, num_key_value_heads=4),
    "qwen2-tied": lambda: Qwen2Config(**GROUPED, tie_word_embeddings=True),
    "qwen2-untied": lambda: Qwen2Config(**GROUPED, tie_word_embeddings=False),
    "qwen3": lambda: Qwen3Config(**SIZES, num_key_value_heads=1, head_dim=8),
    "qwen2-moe": lambda: Qwen2MoeConfig(
        **GROUPED, **EXPERTS, shared_expert_intermediate_size=16, decoder_sparse_step=1
    ),
    "qwen3-moe": lambda: Qwen3MoeConfig(**GROUPED, **EXPERTS, head_dim=8),
    "qwen3-next": lambda: Qwen3NextConfig(
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
    "mistral-sliding": lambda: MistralConfig(**SLIDING),
    "mixtral": lambda: MixtralConfig(**GROUPED, num_local_experts=4),
    "gemma2": lambda: Gemma2Config(**SLIDING, **BOTH, query_pre_attn_scalar=8),
    "gemma3": lambda: Gemma3TextConfig(**SLIDING, **BOTH, query_pre_attn_scalar=8),
    "phi3": lambda: Phi3Config(**GROUPED),
    "olmo2": lambda: Olmo2Config(**GROUPED),
    "olmo3": lambda: Olmo3Config(**GROUPED, sliding_window=WINDOW, **BOTH),
    "smollm3": lambda: SmolLM3Config(**GROUPED, no_rope_layers=[1, 0]),
    "granite": lambda: GraniteConfig(
        **GROUPED, logits_scaling=4.0, residual_multiplier=0.5, embedding_multiplier=3.0
    ),
    "glm4": lambda: Glm4Config(**GROUPED, head_dim=8),
    "gpt-oss": lambda: GptOssConfig(**SLIDING, **BOTH, num_local_experts=4, num_experts_per_tok=2),
    "deepseek-v3": lambda: DeepseekV3Config(
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
    "minicpm3": lambda: MiniCPM3Config(**SIZES, **LATENT),
    "cohere": lambda: CohereConfig(**GROUPED, logit_scale=0.25),
    "cohere2": lambda: Cohere2Config(**SLIDING, **BOTH, logit_scale=0.25),
    "stablelm": lambda: StableLmConfig(**GROUPED),
    "nemotron": lambda: NemotronConfig(**GROUPED),
    "falcon-h1": lambda: FalconH1Config(
        **GROUPED,
        mamba_d_ssm=32,
        mamba_n_heads=4,
        mamba_d_head=8,
        mamba_d_state=8,
        mamba_n_groups=1,
        mamba_chunk_size=8,
    ),
    "lfm2": lambda: Lfm2Config(**GROUPED, layer_types=["conv", "full_attention"]),
    "mamba": lambda: MambaConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        state_size=8,
        num_hidden_layers=2,
        bos_token_id=None,
        eos_token_id=1,
        pad_token_id=0,
    ),
    "gpt2": lambda: GPT2Config(
        vocab_size=VOCAB,
        n_embd=32,
        n_layer=2,
        n_head=4,
        n_positions=128,
        bos_token_id=None,
        eos_token_id=1,
    ),
    "gpt-neox": lambda: GPTNeoXConfig(**SIZES),
}


def family_config(family: str) -> PreTrainedConfig:
    """Make the configuration of a family's small model."""
    return FAMILIES[family]()
