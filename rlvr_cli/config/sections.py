"""Declare the configuration: each setting with its type, default, meaning and use."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from rlvr_cli.algorithm.choices import ALGORITHMS, Algorithm
from rlvr_cli.algorithm.filters import Mixed
from rlvr_cli.algorithm.reward import RewardConfig
from rlvr_cli.config.built_in import refused_template
from rlvr_cli.config.parsing import read_field_paths, read_sources, read_system
from rlvr_cli.core.settings import Choice, Command, Section, Use, setting
from rlvr_cli.core.types import FieldName
from rlvr_cli.model.settings import LoraConfig, OptimConfig, Precision
from verifiers import Format

SAMPLING: tuple[Command, ...] = ("train", "eval", "sample")
OUTPUT = "Input and output"
MEASURING: tuple[Command, ...] = ("eval", "sample")
JUDGING: tuple[Command, ...] = (*SAMPLING, "responses")
_ROUNDS = 8
"""Rounds of the longest response by default. Its keys are computed again in each: 4.5 times its
length in all, by passes of whole prompts, which cost a card little beside decoding."""
LONGEST_RESPONSE = 32_768
"""Tokens of a response at most, even if the context has room for more. Reasoning models are usually
run with this limit."""
SERVER_MISMATCH_LIMIT = 1e-3
"""Nats a token between a server and the trainer, both in float32, beyond which the server has other
weights. Rounding is 1e-5."""

Sources = str | Annotated[tuple[str, ...], Field(min_length=1)]
"""One source of problems, or several."""


class DataConfig(Section):
    """The problems, and how they become prompts."""

    use = Use(read_by=JUDGING)
    source: Sources = setting(
        "chains", read_by=("train", "eval"), flag="DATA", parse=read_sources, on_resume="moves"
    )
    """Problems: a name in datasets_cfg, a YAML, JSONL, JSON, Parquet, CSV or TSV file (gzipped or
    not), a hub id, `gym:` and a generator of reasoning-gym, or `-` for stdin. A list of them is
    trained on together."""
    fields: dict[FieldName, str] = setting(
        {},
        flag="--field",
        parse=read_field_paths,
        panel=OUTPUT,
        metavar="NAME=PATH",
        on_resume="moves",
    )
    """Path of `problem`, `answer`, `id` or `response` in a row. By default the usual names are
    tried."""
    answers: Literal["none"] | None = setting(None, read_by=("train",), flag="--answers")
    """Whether problems to train on may lack a gold answer (`none`). One that is there is then
    measured and does not train."""
    split: Literal["train", "test"] | None = None
    """Split to read. None means `train` for training, `test` for evaluation."""
    where: str | None = setting(None, read_by=("train", "eval"))
    """Filter FIELD=VALUE,…, such as level=1,2. It keeps problems whose field has one of the values,
    and applies to held-out problems of the same source as well."""
    holdout: float | None = setting(None, read_by=("train",), flag="--holdout", gt=0)
    """Problems to hold out of training and measure: a share below 1, or a whole number of them. A
    hash of the text chooses them, so they are the same for every seed, and a share of them stays
    held out when rows are added. None means the test split of the source."""
    holdout_seed: int = setting(0, read_by=("train",), on_resume="free", ge=0)
    """Number that seeds the choice of held-out problems."""
    limit: int | None = setting(None, flag="--limit", panel=OUTPUT, ge=1)
    """Number of problems to use, from the start of each source. None means all."""
    skip_bad: bool = setting(False, flag="--skip-bad", panel=OUTPUT)
    """Skip problems that cannot be read or do not fit the context."""
    prompt: str | None = setting(
        None,
        read_by=SAMPLING,
        flag="--prompt",
        with_model=True,
        refused_in_model=refused_template,
        resets="data.answer_format",
    )
    """Prompt template: think_answer, boxed, plain, or a text or file with {problem} in it. None
    means the template of the problem set."""
    system: str | None = setting(
        None,
        read_by=SAMPLING,
        flag="--system",
        parse=read_system,
        metavar="TEXT|FILE",
        with_model=True,
    )
    """System message, which replaces the chat template's default. None keeps that default."""
    chat: dict[str, bool | int | float | str] = setting({}, read_by=SAMPLING, with_model=True)
    """Arguments for the chat template, such as `enable_thinking: false`."""
    date: datetime | None = setting(None, read_by=SAMPLING, on_resume="free", inherited=False)
    """Date that a chat template writes, such as 2026-11-27. None means the date on which the run or
    the evaluation began."""
    answer_format: Format | None = setting(None, with_model=True)
    """Form in which an answer counts. None means that of the problem set, or else of the prompt."""
    rest: bool = setting(False, read_by=("train",))
    """Skip problems whose responses were all equal: for one pass over the data, then for two, four
    and so on. Ten percent of the skipped ones are drawn anyway."""
    root: str | None = setting(None, on_resume="moves")
    """Directory with local copies of the hub's problem sets, such as gsm8k_test.jsonl."""

    @field_validator("holdout")
    @classmethod
    def _is_share_or_number(cls, holdout: float | None) -> float | None:
        if holdout is not None and holdout > 1 and not holdout.is_integer():
            raise ValueError("give a share below 1, or a whole number of problems")
        return holdout

    @property
    def sources(self) -> tuple[str, ...]:
        """Return the sources as a tuple."""
        return (self.source,) if isinstance(self.source, str) else self.source


class PartialRollouts(Choice):
    """Rounds of sampling that end before the longest response does. Unfinished responses go on
    after the update, and each token keeps the version of the weights that sampled it."""

    kind: Literal["on"] = "on"
    tokens: int | None = Field(None, ge=1)
    """Most tokens that a response gets in a round. None means an eighth of rollout.max_tokens."""
    age: int = Field(8, ge=1)
    """Most updates during which a response goes on."""
    too_old: Literal["cut", "drop"] = "cut"
    """What ends an older response: it counts as cut off, or is dropped from its group."""


class RolloutConfig(Section):
    """The sampling of one step."""

    use = Use(with_model=True)
    prompts: int = setting(32, flag="--prompts", ge=1)
    """Number of problems in a step."""
    samples: int = setting(8, flag="--samples", panel="Sampling", ge=1)
    """Number of responses per problem, which is the group size."""
    max_tokens: int = setting(
        1024,
        read_by=SAMPLING,
        flag="--max-tokens",
        default_in={"eval": f"all that the context leaves, up to {LONGEST_RESPONSE}; a run's own"},
        ge=1,
    )
    """Length limit of a response, in tokens."""
    ends: tuple[str, ...] | None = setting(None, read_by=SAMPLING, in_old_runs=[])
    """Tokens that end a response, in addition to those that the model names. None means the token
    with which its chat template ends a turn."""
    temperature: float = setting(1.0, flag="--temperature", panel="Sampling", gt=0, le=100)
    """Sampling temperature, above 0."""
    top_p: float = setting(1.0, flag="--top-p", panel="Sampling", gt=0, le=1)
    """Nucleus sampling: the share of the probability to sample from. Training needs 1."""
    partial: PartialRollouts | None = setting(None, with_model=False)
    """Whether unfinished responses go on after the update (`on`). None means that a step waits for
    its longest response."""
    ahead: int = setting(0, flag="--ahead", with_model=False, in_old_runs=0, ge=0, le=1)
    """Steps by which sampling is ahead of training. With 1 the batch of step k + 1 is sampled while
    step k trains, with the weights from before that update. Servers then sample during the update.
    An engine of this machine takes turns with it and gains nothing."""
    kv_budget_mb: int | None = setting(None, read_by=SAMPLING, with_model=False, ge=1)
    """Memory for keys and values of a batch, in MiB. None means 1024 on a CPU, and on a GPU what
    `gpu_share` and the rest of the run leave. vLLM on a GPU uses `gpu_share` instead."""
    gpu_share: float = setting(0.5, read_by=SAMPLING, with_model=False, gt=0, lt=1)
    """Share of a GPU's memory for sampling. Training lowers it if the trained models leave less.
    Evaluation uses 0.9 unless it is set. vLLM has what its weights and a response need at least."""
    precision: Precision = setting("auto", read_by=SAMPLING, with_model=False)
    """Compute dtype of the engine. Auto means float32 on a CPU, and on a GPU 16 bits, as
    optim.precision says. With transformers it is float32 if optim.precision is float32, and on a
    CPU the dtype of the weights."""
    mismatch_limit: float = setting(0.1, with_model=False, gt=0)
    """Largest difference between engine and trainer in a step's mean log-probability, in nats per
    token. A larger one stops the run. With servers in float32 it is 0.001 at most, for each."""

    @property
    def trains_on_older(self) -> bool:
        """Return whether older weights than those at its start sample for a step."""
        return self.partial is not None or self.ahead > 0

    @property
    def round_tokens(self) -> int:
        """Return the most tokens that a response gets in a round. Without partial rollouts a round
        has all of them."""
        if self.partial is None:
            return self.max_tokens
        return self.partial.tokens or -(-self.max_tokens // _ROUNDS)


class EvalConfig(Section):
    """The measurement of pass@1, by `rlvr eval` and before and after training."""

    use = Use(read_by=SAMPLING, flag_of=MEASURING, with_model=True)
    source: Sources | None = setting(None, read_by=("train",), with_model=False, on_resume="moves")
    """Held-out problem sets to measure before and after training. None means the `test` split of
    data.source. Each set has its own figures, and the first decides which checkpoint is best."""
    limit: int = setting(320, read_by=("train",), with_model=False, ge=0)
    """Number of held-out problems per set in training. 0 means no measurement."""
    every: int = setting(
        0, read_by=("train",), flag="--eval-every", flag_of=("train",), with_model=False, ge=0
    )
    """Steps between measurements in training, which choose the best checkpoint. 0 means never."""
    samples: int = setting(4, flag="--samples", default_in={"sample": "1"}, ge=1)
    """Number of responses per problem."""
    temperature: float = setting(0.6, flag="--temperature", ge=0, le=100)
    """Sampling temperature. 0 means greedy."""
    top_p: float = setting(0.95, flag="--top-p", gt=0, le=1)
    """Nucleus sampling: the share of the probability to sample from."""

    @property
    def sources(self) -> tuple[str, ...]:
        """Return the held-out sets as a tuple, which is empty if none is named."""
        return (self.source,) if isinstance(self.source, str) else self.source or ()


class ServerConfig(Section):
    """A server that samples instead of an engine of this command."""

    use = Use(read_by=MEASURING, on_resume="free")
    endpoint: str | None = setting(
        None, flag="--endpoint", metavar="URL", panel="Options", replaces_model=True
    )
    """URL of a server that speaks OpenAI's chat completions, such as http://localhost:8000/v1. The
    model is then named as the server names it."""
    key_env: str = setting("RLVR_API_KEY", flag="--key-env", metavar="NAME", panel="Options")
    """Environment variable that holds the server's key."""
    in_flight: int = Field(64, ge=1, le=4096)
    """Number of requests that wait for the server at a time."""
    timeout: float = Field(600.0, gt=0)
    """Longest time that the server may take for a whole reply, in seconds."""
    tries: int = Field(4, ge=1, le=100)
    """Number of times that a request is sent if the server is busy, fails, or gives no reply that
    can be read. While the server answers nobody, they are spread over a minute."""


class ServersConfig(Section):
    """The vLLM servers that sample for training instead of an engine of this machine."""

    use = Use(on_resume="free")
    urls: tuple[str, ...] | None = setting(
        None, flag="--rollout-server", metavar="URL", panel="Options"
    )
    """URL of a vLLM server that samples (`rlvr serve`), such as http://127.0.0.1:8000. Repeat it
    for several, which divide the problems. None means that this machine samples."""
    weights_dir: str | None = setting(
        None, flag="--weights-dir", metavar="HERE[:THERE]", panel="Options"
    )
    """Directory in which servers read the weights of each step, and its path on their machine if
    that differs. None means a temporary one, for servers of this machine."""
    key_env: str = "RLVR_API_KEY"
    """Environment variable that holds the servers' key."""
    in_flight: int = Field(256, ge=1, le=4096)
    """Number of groups that wait for the servers at a time."""
    timeout: float = Field(600.0, gt=0)
    """Longest time that a server may take for a group or for new weights, in seconds."""
    tries: int = Field(3, ge=1, le=100)
    """Number of times that all servers are asked for a group before the run ends."""


class CheckpointConfig(Section):
    """How often checkpoints are written, and how many are kept."""

    use = Use(on_resume="free")
    every: int | None = Field(None, ge=1)
    """Steps between two checkpoints. None means as often as 5 % of the run's time allows."""
    minutes: float = Field(10.0, gt=0)
    """Longest time between two checkpoints, in minutes."""
    keep: int = Field(2, ge=1)
    """Number of newest checkpoints to keep, in addition to the best one by held-out pass@1."""


class GuardsConfig(Section):
    """The limits at which a run warns or stops. Averages are over the last three measured steps."""

    use = Use(on_resume="free")
    no_signal_steps: int = Field(10, ge=1)
    """Stop the run after this many steps in a row without a signal."""
    not_finite_steps: int = Field(3, ge=1)
    """Stop the run after this many steps in a row with a loss or gradient that is not finite."""
    cut_off_share: float = Field(0.5, gt=0, le=1)
    """Warn above this share of cut-off responses, from step 3 on."""
    rejected_share: float = Field(0.1, gt=0, le=1)
    """Warn in a step in which `importance_correction` rejects more than this share of responses."""
    gap_growth: float = Field(1.3, gt=1)
    """Warn in a step whose `mismatch` is more than this multiple of the median of the five before,
    plus three standard errors."""
    min_entropy: float = Field(0.005, ge=0)
    """Warn below this entropy of all sampled tokens, in nats per token, while less than 90 % of
    the answers are right."""
    max_kl: float = Field(0.5, gt=0)
    """Warn above this KL to the sampling policy or the reference, in nats per token."""
    majority_share: float = Field(0.95, ge=0, le=1)
    """Warn above this share of a group's majority, unless as many majorities are right as at
    first."""
    timeout_share: float = Field(0.05, gt=0, le=1)
    """Warn above this share of responses with a verifier timeout."""


class Config(Section):
    """All settings of a run, as they are saved."""

    algo: str = setting("dapo", flag="--algo", metavar="NAME|FILE.yaml", resets="algorithm")
    """Algorithm: a preset of `rlvr train --list`, or a custom YAML file."""
    steps: int = setting(100, flag="--steps", on_resume="free", ge=1)
    """Number of training steps."""
    seed: int = setting(
        0, read_by=SAMPLING, flag="--seed", panel="Settings", with_model=True, ge=-(2**63), lt=2**63
    )
    """Random seed of the whole run."""
    threads: int | None = setting(None, read_by=SAMPLING, ge=1, le=1024)
    """Number of torch threads on a CPU. None means a number that suits the size of the model."""
    model: str = setting(
        "tiny", read_by=SAMPLING, flag="--model", panel="Options", on_resume="moves"
    )
    """Model: a hub id, a model directory, a run, or tiny, the built-in policy."""
    teacher: str | None = setting(None, flag="--teacher", metavar="MODEL", on_resume="moves")
    """Model that --algo opd learns from, named like --model and with the same tokenizer. None means
    no teacher."""
    parent: str | None = setting(None, on_resume="moves")
    """Checkpoint whose weights and optimizer the run begins with. --from sets it."""
    engine: Literal["auto", "vllm", "transformers", "server"] = setting(
        "auto", read_by=SAMPLING, flag="--engine", panel="Options"
    )
    """Sampling engine. Auto means server with --rollout-server, else vllm if it is installed and
    there is a GPU."""
    data: DataConfig = DataConfig.model_construct()
    rollout: RolloutConfig = RolloutConfig.model_construct()
    reward: RewardConfig = RewardConfig.model_construct()
    algorithm: Algorithm = setting(ALGORITHMS["dapo"])
    optim: OptimConfig = OptimConfig.model_construct()
    lora: LoraConfig = LoraConfig.model_construct()
    eval: EvalConfig = EvalConfig.model_construct()
    server: ServerConfig = ServerConfig.model_construct()
    servers: ServersConfig = ServersConfig.model_construct()
    checkpoint: CheckpointConfig = CheckpointConfig.model_construct()
    guards: GuardsConfig = GuardsConfig.model_construct()

    @property
    def computes_alike(self) -> bool:
        """Return whether engine and trainer both compute in float32."""
        return self.rollout.precision == self.optim.precision == "float32"

    @property
    def scores_alike(self) -> bool:
        """Return whether the engine's log-probabilities are the trainer's, up to rounding: both
        compute in float32, and no token of a batch is older than the step."""
        return self.computes_alike and not self.rollout.trains_on_older

    @property
    def samples_beside(self) -> bool:
        """Return whether servers sample the next batch while a step trains."""
        return self.rollout.ahead > 0 and self.engine == "server"

    @property
    def weighs_older(self) -> bool:
        """Return whether a correction weighs the tokens that older weights sampled."""
        return self.rollout.trains_on_older and self.algorithm.correction is not None

    @property
    def mismatch_limit(self) -> float:
        """Return the largest gap between engine and trainer, which is small for float32 servers."""
        limit = self.rollout.mismatch_limit
        is_proof = self.engine == "server" and self.computes_alike
        return min(limit, SERVER_MISMATCH_LIMIT) if is_proof else limit

    @property
    def reference_is_base(self) -> bool:
        """Return whether the reference policy is the model without its adapter."""
        return self.lora.rank is not None and not (self.algorithm.renewal or self.parent)

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
        if self.reward.has_majority and (self.rollout.samples < 2 or algo.critic is not None):
            raise ValueError(
                f"--reward majority with rollout.samples {self.rollout.samples} and "
                f"algorithm.advantage {algo.advantage.kind}: it compares the responses of a group; "
                "sample 2 or more, with a group advantage"
            )
        older = "rollout.partial" if self.rollout.partial is not None else "rollout.ahead"
        if self.rollout.trains_on_older and algo.reads_responses:
            raise ValueError(
                f"{older} with --algo {self.algo}, which samples no responses but reads them from "
                f"the data: leave {older} out"
            )
        if self.rollout.partial is not None and self.servers.urls:
            raise ValueError(
                "rollout.partial with --rollout-server: a server's responses end in the round in "
                "which they began; leave one of the two out"
            )
        if self.rollout.trains_on_older and algo.surrogate.kind == "policy_gradient":
            raise ValueError(
                f"{older} with algorithm.surrogate policy_gradient: tokens of earlier weights are "
                "another policy's samples; use ratio or clip"
            )
        learns_right = algo.advantage.is_likelihood or algo.positive_nll > 0
        if isinstance(algo.filter, Mixed) and algo.filter.metric in ("accuracy", "math", "format"):
            learns_right = True
        if self.data.answers == "none" and (self.reward.needs_gold or learns_right):
            raise ValueError(
                "--answers none with a reward or an algorithm that compares with a gold answer "
                "(math, format, likelihoods of right responses): take --reward majority or a "
                "custom function"
            )
        if self.lora.rank is None and self.optim.weights == "float16":
            raise ValueError(
                "optim.weights float16 without lora.rank: AdamW would lose its updates in float16; "
                "take --set optim.precision=float16, which keeps weights in float32, or --lora"
            )
        if self.lora.rank is None and self.lora.base == "nf4":
            raise ValueError(
                "lora.base nf4 without lora.rank: weights of 4 bits do not train, an adapter on "
                "them does; take --lora 32, or leave lora.base out"
            )
        is_exact = self.lora.rank is None and self.optim.weights != "bfloat16"
        if algo.renewal is not None and algo.renewal.mix < 1 and not is_exact:
            raise ValueError(
                "algorithm.kl.reference.mix below 1 with lora.rank or optim.weights bfloat16: the "
                "factors of a product, or rounded weights, do not mix; use mix 1"
            )
        rounds = algo.filter
        if rounds is not None and rounds.gen_batch_size and rounds.max_gen_batches:
            most_prompts = rounds.gen_batch_size * rounds.max_gen_batches
            if most_prompts < self.rollout.prompts:
                raise ValueError(
                    f"algorithm.filter.gen_batch_size {rounds.gen_batch_size} in "
                    f"{rounds.max_gen_batches} rounds never fills a batch of rollout.prompts "
                    f"{self.rollout.prompts}; raise it, or algorithm.filter.max_gen_batches"
                )
        metrics = ["auto", "accuracy", "reward", *(term.name for term in self.reward.terms)]
        if isinstance(algo.filter, Mixed) and algo.filter.metric not in metrics:
            raise ValueError(
                f"algorithm.filter.metric {algo.filter.metric}: no such reward; choose from "
                f"{', '.join(metrics)}"
            )
        if self.data.rest and "-" in self.data.sources:
            raise ValueError(
                "data.rest with problems from stdin: the history of the problems is for a resume, "
                "which needs them again; put them in a file"
            )
        if self.data.rest and not (algo.advantage.needs_group or algo.filter):
            raise ValueError(
                f"data.rest with algorithm.advantage {algo.advantage.kind}: groups that are all "
                "alike train there as well; take an algorithm with a group, or leave data.rest out"
            )
        if not algo.advantage.reads_rewards and self.reward != RewardConfig():
            raise ValueError(
                f"--reward with algorithm.advantage {algo.advantage.kind}, which reads no rewards: "
                "leave one of the two out"
            )
        if algo.has_teacher and self.teacher is None:
            raise ValueError(
                "algorithm.kl.reference teacher: no teacher is given; name it with --teacher MODEL"
            )
        if self.teacher is not None and not algo.has_teacher:
            raise ValueError(
                f"--teacher {self.teacher} with --algo {self.algo}, which has no teacher; take "
                "--algo opd, or leave the teacher out (teacher=none)"
            )
        return self
