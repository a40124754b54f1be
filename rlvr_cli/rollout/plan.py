"""What a command is going to do: its configuration with every `auto` and None answered, once."""

from dataclasses import dataclass, replace
from typing import Literal

from rlvr_cli.config import LONGEST_RESPONSE, Config, DataConfig
from rlvr_cli.core.cores import thread_limit
from rlvr_cli.core.types import SamplingParams
from rlvr_cli.data.problems import ProblemSet
from rlvr_cli.data.prompts import FORMATS, kept_template
from rlvr_cli.model.loading import default_device
from rlvr_cli.rollout.engines.selection import Choice, choose_engine
from verifiers import Format

_SMALL_MODEL = 20_000_000


@dataclass(frozen=True)
class Plan:
    """A configuration in which nothing is left open, so that a run goes on like that wherever it is
    resumed. `threads` alone hang on the size of the model: a session's plan has them too."""

    config: Config
    engine: Choice
    answer_format: Format
    """How answers are judged."""

    @property
    def training(self) -> SamplingParams:
        """How training draws responses."""
        one = self.config.rollout
        return SamplingParams(one.samples, one.max_tokens, one.temperature, one.top_p)

    @property
    def evaluation(self) -> SamplingParams:
        """How an evaluation draws responses, within a run too."""
        one = self.config.eval
        return SamplingParams(
            one.samples, self.config.rollout.max_tokens, one.temperature, one.top_p
        )

    def evaluation_within(self, room: int) -> SamplingParams:
        """How an evaluation draws responses where no length was asked for, and the context has so
        many tokens left."""
        return replace(self.evaluation, max_tokens=min(room, LONGEST_RESPONSE))

    @property
    def threads(self) -> int:
        """Torch threads; 1 before the model is loaded."""
        return self.config.threads or 1

    def with_threads(self, parameters: int) -> "Plan":
        """Answer how many threads a model of this size is computed with."""
        threads = self.config.threads or choose_threads(parameters)
        return replace(self, config=self.config.model_copy(update={"threads": threads}))


def plan_for(config: Config, problems: ProblemSet) -> Plan:
    """Answer what the configuration leaves to the problems and to this machine, before anything is
    loaded. Raises UserError for a template that is none, and for an engine that is not there."""
    template = kept_template(config.data.prompt or problems.prompt)
    answer_format = choose_format(problems, config.data)
    engine = choose_engine(config.engine)
    data = {"prompt": template, "answer_format": answer_format}
    optim = {"precision": precision_on(default_device(), config.optim.precision)}
    sections = {
        "engine": engine.name,
        "data": config.data.model_copy(update=data),
        "optim": config.optim.model_copy(update=optim),
    }
    return Plan(config.model_copy(update=sections), engine, answer_format)


def choose_format(problems: ProblemSet, data: DataConfig) -> Format:
    """How answers are judged: as asked, else as the set says, else as the prompt asks for them."""
    if data.answer_format is not None:
        return data.answer_format
    if problems.answer_format is not None and data.prompt in (None, problems.prompt):
        return problems.answer_format
    return FORMATS.get(data.prompt or problems.prompt, "any")


def choose_threads(parameters: int) -> int:
    """Torch threads on a CPU: one for a small model, whose operations are too short to share out
    (several threads collapse when another process competes), else one a core that is ours."""
    return 1 if parameters < _SMALL_MODEL else thread_limit()


def precision_on(device: str, asked: Literal["auto", "float32", "bfloat16"]) -> str:
    """How the trainer multiplies matrices on a device: as asked, else bfloat16 on a GPU."""
    if asked != "auto":
        return asked
    return "bfloat16" if device == "cuda" else "float32"
