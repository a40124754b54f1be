"""Save and restore the state of a run, and check that it is of the same run."""

from rlvr_cli.core.errors import UserError
from rlvr_cli.core.text import shown
from rlvr_cli.runs.stored import computing_settings
from rlvr_cli.training.state import State
from rlvr_cli.training.trainer import Trainer


class OtherRunError(UserError):
    """A saved state is of a run with other problems, weights or settings."""


def state_of(trainer: Trainer) -> State:
    """Return the state at the end of a step, with what identifies its run."""
    identity = {
        "settings": computing_settings(trainer.config),
        "problems": trainer.problems_digest,
        "start": trainer.start_digest,
    }
    return State(identity, {}) | trainer.state_dict()


def restore(trainer: Trainer, state: State) -> None:
    """Restore a new trainer from `state_of`'s state, which does not include the weights. Raises
    OtherRunError if its problems, its reference policy or its settings are not those of the other,
    and whatever else a state that is none leads to."""
    values = state.values
    config, then = trainer.config, values["settings"]
    sources = ", ".join(config.data.sources)
    now = computing_settings(config)
    for key in dict.fromkeys([*now, *then]):
        if now.get(key) != then.get(key):
            raise OtherRunError(
                f"config.yaml was edited: {key} is {shown(now.get(key))} there, and the run "
                f"computes with {shown(then.get(key))}; put it back, or start a new run"
            )
    for name, own, changed in (
        ("problems", trainer.problems_digest, f"the problems of {sources}, or prompts"),
        ("start", trainer.start_digest, f"the weights of {config.model}, the reference policy,"),
    ):
        if values[name] != own:
            raise OtherRunError(
                f"{changed} are not those that the run began with; restore them, or start a new run"
            )
    trainer.load_state_dict(state)
