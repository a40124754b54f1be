"""Supervised training (`--algo sft`): the responses of the data's rows, in the engine's place."""

from collections.abc import Sequence

from rlvr_cli.algorithm.samples import Samples
from rlvr_cli.core.types import Prompt
from rlvr_cli.data.problems import Draw
from rlvr_cli.data.prompts import prompts_digest
from rlvr_cli.data.responses import tokenize_responses
from rlvr_cli.ranks.group import share
from rlvr_cli.rollout.engines.base import CompletionStream
from rlvr_cli.setup.session import Session
from rlvr_cli.training.trainer import Trainer
from rlvr_cli.training.update import Updater


class ImitationUpdater(Updater):
    """Updates on responses whose log-probabilities no engine has computed."""

    @property
    def uses_engine_logprobs(self) -> bool:
        return False

    def measure_mismatch(self, samples: Samples, step: int) -> None:
        self.mismatch = 0.0


class ImitationTrainer(Trainer):
    """A trainer that reads the responses instead of sampling them."""

    responses_phase = "reading"
    updater_class = ImitationUpdater

    def __init__(self, session: Session, prompts: list[Prompt], held_out: list[Prompt]) -> None:
        super().__init__(session, prompts, held_out)
        self.responses = tokenize_responses(prompts, session.policy, self.params.max_tokens)
        """The response in each prompt's data row."""
        self.problems_digest = prompts_digest([*prompts, *held_out], self.responses)

    def _stream(self, prompts: Sequence[Prompt], draws: Sequence[Draw]) -> CompletionStream:
        for index, (_, problem) in enumerate(share(draws)):
            yield index, [self.responses[problem]]


TRAINERS: dict[str, type[Trainer]] = {"one": ImitationTrainer}
"""The trainers of advantages that need one of their own."""


def new_trainer(session: Session, prompts: list[Prompt], held_out: list[Prompt]) -> Trainer:
    """Make the trainer that the advantage in the algorithm's row needs."""
    advantage = session.plan.config.algorithm.advantage
    return TRAINERS.get(advantage.kind, Trainer)(session, prompts, held_out)
