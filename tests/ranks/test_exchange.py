"""Judged groups of all processes: their order, and what an error or a signal in one does to all."""

import os
import signal
from collections.abc import Iterator

import pytest
from side_by_side import side_by_side

from rlvr_cli.core.errors import EngineError, UserError
from rlvr_cli.core.signals import Interrupts
from rlvr_cli.core.types import Completion, Group, Problem, Prompt, Rollout
from rlvr_cli.ranks import exchange
from rlvr_cli.ranks.exchange import exchange_groups
from rlvr_cli.ranks.process import rank
from verifiers import Verdict, Verification

FIVE = [Prompt(Problem(str(n), "?", "1"), "?", (n, 7), False) for n in range(5)]


def judged(upto: int = 5) -> Iterator[tuple[int, Group]]:
    """This process's groups, the last prompt first."""
    for index in reversed(range(rank(), upto, 2)):
        verdict = Verification(Verdict.CORRECT, "1", True, "")
        completion = Completion([index, 1], [-0.1 * index, -1e-300], "stop")
        item = Rollout.of(FIVE[index], 0, completion, f"text {index}", verdict, 1.0)
        yield index, Group(FIVE[index], (item,), 3)


def exchange_all(every: float) -> None:
    exchange._EXCHANGE_EVERY_S = every
    actual = list(exchange_groups(FIVE, judged()))
    order = [4, 2, 0, 3, 1] if every else [4, 3, 2, 1, 0]
    assert [index for index, _ in actual] == order
    for index, group in actual:
        assert group.prompt is FIVE[index]
        assert group.rollouts[0].completion.logprobs == [-0.1 * index, -1e-300]
        assert (group.weight_version, group.rollouts[0].is_correct) == (3, True)


@pytest.mark.parametrize("every", [60.0, 0.0])
def test_all_get_all_groups_in_one_order(tmp_path, every):
    side_by_side(2, lambda: exchange_all(every), tmp_path)


def failing() -> None:
    def fails() -> Iterator[tuple[int, Group]]:
        yield from judged(2)
        if rank():
            raise UserError("the prompt is too long")

    expected = UserError if rank() else EngineError
    with pytest.raises(expected, match=r"^the prompt is too long$"):
        list(exchange_groups(FIVE, fails()))


def interrupted() -> None:
    def stops() -> Iterator[tuple[int, Group]]:
        yield from judged(2)
        if rank():
            os.kill(os.getpid(), signal.SIGTERM)
        yield from judged(2)

    with (
        Interrupts(alone=False) as interrupts,
        interrupts.interruptible(),
        pytest.raises(KeyboardInterrupt),
    ):
        list(exchange_groups(FIVE, stops()))


@pytest.mark.parametrize("work", [failing, interrupted])
def test_an_error_or_a_signal_in_one_ends_all(tmp_path, work):
    side_by_side(2, work, tmp_path)
