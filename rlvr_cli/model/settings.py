"""The settings of what is trained: an adapter or all weights, in which type, from where."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from rlvr_cli.core.settings import Section, setting

Beta = Annotated[float, Field(ge=0, lt=1)]


class LoraConfig(Section):
    """Train an adapter (LoRA) beside frozen weights."""

    rank: int | None = setting(None, flag="--lora", kept=True, ge=1)
    """None: all weights are trained; else the learning rate is ten times that, unless given."""
    alpha: int = setting(32, kept=True, ge=1)
    """The adapter's output counts alpha / rank."""
    targets: str | tuple[str, ...] = setting("all-linear", kept=True)
    """Names of the layers that have one, such as [q_proj, v_proj]."""


class OptimConfig(Section):
    """AdamW and how a step's batch is cut."""

    lr: float = setting(1e-6, flag="--lr", kept=True, ge=0, le=1)
    """The learning rate."""
    warmup_steps: int = setting(10, kept=True, ge=0)
    """Steps over which the learning rate rises from 0."""
    weight_decay: float = setting(0.1, kept=True, ge=0)
    """AdamW's decoupled decay."""
    betas: tuple[Beta, Beta] = setting((0.9, 0.999), kept=True)
    """The decay rates of AdamW's first and second moment."""
    eps: float = setting(1e-8, kept=True, gt=0, le=1)
    """Added to the root of the second moment; PPO's reference implementation has 1e-5."""
    grad_clip: float = setting(1.0, kept=True, gt=0)
    """The largest norm of the gradient; a larger one is scaled down to it."""
    schedule: Literal["constant", "linear", "cosine"] = setting("constant", kept=True)
    """What the learning rate does after the warm-up: stay, or fall to 0 behind the last step."""
    critic_lr: float = setting(1e-5, kept=True, ge=0, le=1)
    """The learning rate of a critic."""
    precision: Literal["auto", "float32", "bfloat16"] = setting("auto")
    """Of what is computed, but sums and the softmax; auto is bfloat16 on a GPU."""
    weights: Literal["auto", "float32", "bfloat16"] = setting("auto")
    """Type of the weights that the trainer holds, and of AdamW's moments; bfloat16 is rounded at
    random, and computed in. auto is float32, but bfloat16 for the frozen weights beside an adapter
    on a GPU."""
    moments: Literal["full", "8bit"] = setting("full")
    """AdamW's moments in the weights' type, or in 8 bits (needs torchao)."""
    offload: Literal["none", "all"] = setting("none", on_resume="free")
    """What lies in the CPU's memory: weights, gradients and moments, or nothing."""
    checkpointing: Literal["auto", "on", "off"] = setting("auto", on_resume="free")
    """Compute layers again in the backward pass, not keep them; auto: where memory is short."""
    micro_tokens: int = setting(8192, kept=True, ge=1)
    """Tokens in one forward pass; changes memory and speed, never the result."""

    @model_validator(mode="after")
    def _takes_one_place(self) -> "OptimConfig":
        if self.moments == "8bit" and self.offload != "none":
            raise ValueError(
                "optim.moments 8bit with optim.offload: moments on the CPU need no room on the "
                "GPU; take one of the two"
            )
        if self.weights == "bfloat16" and self.precision == "float32":
            raise ValueError(
                "optim.precision float32 with optim.weights bfloat16: weights in bfloat16 are "
                "computed with in bfloat16; leave one of the two out"
            )
        return self
