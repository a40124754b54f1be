"""The sections of the configuration: each setting with its type, default, meaning and use."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from rlvr_cli.algorithm.choices import ALGORITHMS, Algorithm
from rlvr_cli.algorithm.reward import RewardConfig
from rlvr_cli.core.settings import Command, Section, Use, setting
from rlvr_cli.core.types import FieldName
from rlvr_cli.model.settings import LoraConfig, OptimConfig
from verifiers import Format

SAMPLING: tuple[Command, ...] = ("train", "eval", "sample")
OUTPUT = "Input and output"
MEASURING: tuple[Command, ...] = ("eval", "sample")
JUDGING: tuple[Command, ...] = (*SAMPLING, "responses")
LONGEST_RESPONSE = 32_768
"""Tokens of a response at most, where the context leaves more: as reasoning models have it."""


class DataConfig(Section):
    """Which problems, and how they are put to the policy."""

    use = Use(read_by=JUDGING)
    source: str | Annotated[tuple[str, ...], Field(min_length=1)] = setting(
        "chains", read_by=("train", "eval"), flag="DATA", on_resume="moves"
    )
    """A name in datasets_cfg, a YAML, JSONL, JSON, Parquet, CSV or TSV file (gzipped or not), a hub
    id, or `-` for stdin; or a list of them, to train on together."""
    fields: dict[FieldName, str] = setting(
        {}, flag="--field", panel=OUTPUT, metavar="NAME=PATH", on_resume="moves"
    )
    """Paths of `problem`, `answer` and `id` in a row, such as `a.b[0].c`; others are looked for."""
    split: Literal["train", "test"] | None = None
    """None means `train` to train on and `test` to evaluate."""
    where: str | None = setting(None, read_by=("train", "eval"))
    """FIELD=VALUE,…: only the problems whose field has one of the values, such as level=1,2; in
    training of the held-out ones of the same source, too."""
    limit: int | None = setting(None, flag="--limit", panel=OUTPUT, ge=1)
    """First problems of each source only."""
    skip_bad: bool = setting(False, flag="--skip-bad", panel=OUTPUT)
    """Go on without the problems that cannot be read or do not fit the context."""
    prompt: str | None = setting(
        None, read_by=SAMPLING, flag="--prompt", kept=True, resets="data.answer_format"
    )
    """think_answer, boxed, plain, a text or a file with {problem} in it; none: the set's own."""
    system: str | None = setting(
        None, read_by=SAMPLING, flag="--system", metavar="TEXT|FILE", kept=True
    )
    """The system turn before every problem, in place of a chat's own; none means none but that."""
    chat: dict[str, bool | int | float | str] = setting({}, read_by=SAMPLING, kept=True)
    """Arguments of the chat template, such as `enable_thinking: false`."""
    answer_format: Format | None = setting(None, kept=True)
    """How answers are judged; none means as the problem set says, or as the prompt asks for."""
    root: str | None = setting(None, on_resume="moves")
    """A directory of local copies of the hub's problem sets, such as gsm8k_test.jsonl."""

    @property
    def sources(self) -> tuple[str, ...]:
        """Return the sources, of which there is one or several."""
        return (self.source,) if isinstance(self.source, str) else self.source


class RolloutConfig(Section):
    """How one step samples."""

    use = Use(kept=True)
    prompts: int = setting(32, flag="--prompts", ge=1)
    """Problems a step."""
    samples: int = setting(8, flag="--samples", panel="Sampling", ge=1)
    """Responses a problem, the size of a group."""
    max_tokens: int = setting(
        1024,
        read_by=SAMPLING,
        flag="--max-tokens",
        default_in={"eval": f"all that the context leaves, up to {LONGEST_RESPONSE}; a run's own"},
        ge=1,
    )
    """The longest response in tokens."""
    temperature: float = setting(1.0, flag="--temperature", panel="Sampling", gt=0, le=100)
    """Of the sampling."""
    top_p: float = setting(1.0, flag="--top-p", panel="Sampling", gt=0, le=1)
    """The share of the probability that is sampled from; all of it in training."""
    kv_budget_mb: int = setting(1024, read_by=SAMPLING, kept=False, ge=1)
    """Memory for keys and values of a batch, but for vLLM on a GPU, which has `gpu_share`."""
    gpu_share: float = setting(0.5, read_by=SAMPLING, kept=False, gt=0, lt=1)
    """The part of a GPU that vLLM takes while it samples: weights, keys and values."""
    mismatch_limit: float = setting(0.1, kept=False, gt=0)
    """The run stops where engine and trainer differ by more in a step's mean log-probability."""


class EvalConfig(Section):
    """How pass@1 is measured, by `rlvr eval` and before and after training alike."""

    use = Use(read_by=SAMPLING, flag_of=MEASURING, kept=True)
    source: str | Annotated[tuple[str, ...], Field(min_length=1)] | None = setting(
        None, read_by=("train",), kept=False, on_resume="moves"
    )
    """Measured before and after training; none means the `test` split of data.source, a list
    several sets, each with figures of its own (the best checkpoint is the first one's)."""
    limit: int = setting(320, read_by=("train",), kept=False, ge=0)
    """How many of each set, in training; 0 leaves the measurement out."""
    every: int = setting(
        0, read_by=("train",), flag="--eval-every", flag_of=("train",), kept=False, ge=0
    )
    """Measured every so many steps as well, so that the best checkpoint is kept; 0 means never."""
    samples: int = setting(4, flag="--samples", default_in={"sample": "1"}, ge=1)
    """Responses a problem."""
    temperature: float = setting(0.6, flag="--temperature", ge=0, le=100)
    """Of the sampling; 0 is greedy."""
    top_p: float = setting(0.95, flag="--top-p", gt=0, le=1)
    """The share of the probability that is sampled from."""
    votes: Literal["valid", "all"] = setting("valid", read_by=("eval", "responses"), kept=False)
    """What votes in cons@k: answers in the form that was asked for, of whole responses, or `all`
    that can be extracted in any form, also of responses that were cut off."""

    @property
    def sources(self) -> tuple[str, ...]:
        """Return the held-out sets that are named."""
        return (self.source,) if isinstance(self.source, str) else self.source or ()


class CheckpointConfig(Section):
    """What a crash may cost, and what is kept."""

    use = Use(on_resume="free")
    every: int | None = Field(None, ge=1)
    """Steps from one checkpoint to the next; none: as often as takes 5 % of the time at most."""
    minutes: float = Field(10.0, gt=0)
    """A crash loses at most so many, and the step under way."""
    keep: int = Field(2, ge=1)
    """The newest ones; the best by held-out pass@1 is kept as well."""


class GuardsConfig(Section):
    """When a run is warned about or stopped; averages are over the last three measured steps."""

    use = Use(on_resume="free")
    no_signal_steps: int = Field(10, ge=1)
    """So many steps in a row without a signal stop the run."""
    not_finite_steps: int = Field(3, ge=1)
    """So many steps in a row with a loss or gradient that is not finite stop the run."""
    cut_off_share: float = Field(0.5, gt=0, le=1)
    """Warn when more of the responses reach --max-tokens, from the third step on."""
    min_entropy: float = Field(0.005, ge=0)
    """Warn when the policy's entropy, in nats a token, is lower, with less than 90 % right."""
    max_kl: float = Field(0.5, gt=0)
    """Warn when the policy is further from the one that sampled, or the reference; nats a token."""
    timeout_share: float = Field(0.05, gt=0, le=1)
    """Warn when the verifier runs out of time on more of the responses."""


class Config(Section):
    """Everything that decides a run; saved as it was resolved."""

    algo: str = setting("dapo", flag="--algo", metavar="NAME|FILE.yaml", resets="algorithm")
    """The preset of the algorithm, a row of `rlvr train --list`."""
    steps: int = setting(100, flag="--steps", on_resume="free", ge=1)
    """Steps of training."""
    seed: int = setting(
        0, read_by=SAMPLING, flag="--seed", panel="Settings", kept=True, ge=-(2**63), lt=2**63
    )
    """The seed of everything that is drawn."""
    threads: int | None = setting(None, read_by=SAMPLING, ge=1, le=1024)
    """Torch threads on a CPU; none means chosen by the size of the model."""
    model: str = setting(
        "tiny", read_by=SAMPLING, flag="--model", panel="Options", on_resume="moves"
    )
    """A hub id, a model directory, a run, or tiny, the built-in one."""
    parent: str | None = setting(None, on_resume="moves")
    """The checkpoint whose weights and optimizer the run begins with; --from sets it."""
    engine: Literal["auto", "vllm", "transformers"] = setting(
        "auto", read_by=SAMPLING, flag="--engine", panel="Options"
    )
    """What samples; auto is vllm where a tested version and a GPU are there."""
    data: DataConfig = DataConfig()
    rollout: RolloutConfig = RolloutConfig()
    reward: RewardConfig = RewardConfig()
    algorithm: Algorithm = setting(ALGORITHMS["dapo"])
    optim: OptimConfig = OptimConfig()
    lora: LoraConfig = LoraConfig()
    eval: EvalConfig = EvalConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    guards: GuardsConfig = GuardsConfig()

    @model_validator(mode="after")
    def _makes_sense(self) -> "Config":
        if self.rollout.top_p != 1:
            raise ValueError(
                "rollout.top_p must be 1 in training: the objective's log-probabilities are "
                "those of the whole distribution"
            )
        algo = self.algorithm
        if self.rollout.samples < 2 and algo.advantage.needs_group:
            raise ValueError(
                f"rollout.samples {self.rollout.samples} with algorithm.advantage "
                f"{algo.advantage.kind}: a group of one has no advantage; sample 2 or more"
            )
        if self.rollout.samples < 2 and algo.filter is not None:
            raise ValueError(
                f"rollout.samples {self.rollout.samples} with algorithm.filter {algo.filter.kind}: "
                "a group of one is never mixed; sample 2 or more"
            )
        names = [one.name for one in self.reward.terms]
        if algo.filter is not None and algo.filter.metric not in ("accuracy", "reward", *names):
            raise ValueError(
                f"algorithm.filter.metric {algo.filter.metric}: no such reward; choose from "
                f"accuracy, reward, {', '.join(names)}"
            )
        if algo.advantage.is_likelihood and self.reward != RewardConfig():
            raise ValueError(
                f"--reward with algorithm.advantage {algo.advantage.kind}, which reads no rewards: "
                "leave one of the two out"
            )
        return self
