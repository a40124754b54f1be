"""The settings of the optimizer and of a LoRA adapter."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from rlvr_cli.core.settings import Section, setting

Beta = Annotated[float, Field(ge=0, lt=1)]
Precision = Literal["auto", "float32", "bfloat16", "float16"]
SIXTEEN_BITS = ("bfloat16", "float16")

MOMENT_BLOCK = 256
"""Numbers of a row that share a scale, if moments have 8 bits: as in bitsandbytes' AdamW8bit."""


class LoraConfig(Section):
    """Train an adapter (LoRA) on frozen weights."""

    rank: int | None = setting(None, flag="--lora", with_model=True, ge=1)
    """Rank of a LoRA adapter, whose default learning rate is ten times higher. none means that
    all weights are trained."""
    alpha: int = setting(32, with_model=True, ge=1)
    """Scale of the adapter: its output is multiplied by alpha / rank."""
    base: Literal["full", "nf4"] = setting("full", with_model=True, in_old_runs="full")
    """Numbers of the frozen weights. nf4 quantizes linear layers to 4 bits (QLoRA), by bitsandbytes
    (pip install bitsandbytes). full means the dtype of optim.weights."""
    targets: str | tuple[str, ...] = setting("all-linear", with_model=True)
    """Layers that get an adapter, such as [q_proj, v_proj]."""


class OptimConfig(Section):
    """AdamW, and the micro-batches of a step."""

    lr: float = setting(1e-6, flag="--lr", with_model=True, ge=0, le=1)
    """Learning rate."""
    warmup_steps: int = setting(10, with_model=True, ge=0)
    """Number of steps over which the learning rate rises from 0."""
    weight_decay: float = setting(0.1, with_model=True, ge=0)
    """Weight decay of AdamW, decoupled from the gradient."""
    betas: tuple[Beta, Beta] = setting((0.9, 0.999), with_model=True)
    """Decay rates of AdamW's first and second moment."""
    eps: float = setting(1e-8, with_model=True, gt=0, le=1)
    """Epsilon of AdamW, added to the root of the second moment (PPO's own code has 1e-5)."""
    grad_clip: float = setting(1.0, with_model=True, gt=0)
    """Largest gradient norm, to which a larger gradient is scaled down."""
    schedule: Literal["constant", "linear", "cosine"] = setting("constant", with_model=True)
    """Course of the learning rate after the warm-up. linear and cosine fall to 0."""
    critic_lr: float = setting(1e-5, with_model=True, ge=0, le=1)
    """Learning rate of a critic."""
    precision: Precision = setting("auto")
    """Compute dtype. Reductions and log-softmax stay in float32. With float16 the loss is scaled.
    auto means float32 on a CPU, bfloat16 on a GPU, and float16 on one that has no bfloat16 (compute
    capability below 8.0)."""
    weights: Precision = setting("auto")
    """Dtype of the trainer's weights, and of AdamW's moments unless optim.moments sets another.
    With bfloat16, weights are rounded stochastically. 16 bits are also what passes compute in.
    float16 needs an adapter, under which the weights are frozen. auto means float32, and
    optim.precision for the frozen weights under an adapter on a GPU."""
    moments: Literal["full", "8bit"] = setting("full", in_old_runs="full")
    """Numbers of AdamW's moments. full means the dtype of the trained weights. 8bit quantizes those
    of matrices in blocks, by bitsandbytes (pip install bitsandbytes)."""
    offload: Literal["none", "all"] = setting("none", on_resume="free")
    """Offload to the CPU's memory. all means weights, gradients and moments."""
    checkpointing: Literal["auto", "on", "off"] = setting("auto", on_resume="free")
    """Recomputation of layers in the backward pass. auto means on if memory is short."""
    compile: Literal["auto", "on", "off"] = setting("auto", on_resume="free")
    """Compilation of decoder layers and output layer by torch.compile. auto means on with a GPU and
    off on a CPU."""
    micro_tokens: int = setting(8192, with_model=True, ge=1)
    """Number of tokens in one forward pass. It changes memory and speed, never the result."""

    @property
    def why_steps_stay(self) -> str | None:
        """Say what keeps the number of steps of a run as it is, if anything does."""
        if self.schedule == "constant":
            return None
        return (
            f"optim.schedule {self.schedule}, which sets the learning rate by the share of all "
            "steps"
        )

    @model_validator(mode="after")
    def _makes_sense(self) -> "OptimConfig":
        weights = self.weights
        if weights in SIXTEEN_BITS and self.precision not in ("auto", weights):
            raise ValueError(
                f"optim.precision {self.precision} with optim.weights {weights}: weights in "
                f"{weights} are computed with in {weights}; leave one of the two out"
            )
        return self
