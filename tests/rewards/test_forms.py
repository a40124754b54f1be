"""Every form of a reward function (`cases/forms.jsonl`): what it earns as file and as object, on
a text and on a chat, or the line that refuses it."""

import json
import sys
from pathlib import Path

import pytest

from rlvr_cli.core.code import find_function
from rlvr_cli.rewards.forms import Question
from rlvr_cli.rewards.functions import FunctionsHere, Rewards, answering

CASES = [
    json.loads(line)
    for line in (Path(__file__).parent / "cases" / "forms.jsonl").read_text().splitlines()
]
PROBLEM = "What is 7 times 8?"
ROW = {"id": "p", "problem": PROBLEM, "answer": "56", "level": 3}
RESPONSES = ["<think>7 times 8</think>\n\\boxed{56}", "It is 15."]
CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": PROBLEM}]


@pytest.fixture
def file(tmp_path, monkeypatch):
    """Write a file of rewards, which no other test's modules are beside."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in [name for name in sys.modules if name.startswith("user_")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.chdir(tmp_path)

    def write(code: str) -> Path:
        (tmp_path / "own.py").write_text(code + "\n")
        return tmp_path / "own.py"

    return write


def asked(answer, chat) -> Rewards:
    """The reply to a question on the two responses, or to one each where a call has one."""
    loaded = answer({})
    if loaded["error"]:
        return Rewards(error=loaded["error"])
    calls = [RESPONSES] if loaded["functions"][0]["takes_group"] else [[r] for r in RESPONSES]
    replies = []
    for call in calls:
        question = Question(0, [ROW] * len(call), call, chat=chat)
        replies.append(Rewards.model_validate(answer(vars(question))))
    errors = [reply.error for reply in replies if reply.error]
    rewards = [reward for reply in replies for reward in reply.by_response]
    return Rewards(error=errors[0] if errors else None, by_response=rewards)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["form"])
@pytest.mark.parametrize("chat", [None, CHAT], ids=["text", "chat"])
def test_a_form_earns_what_the_table_says_as_file_and_as_object(file, case, chat):
    path = file(case["code"])
    spec = f"own.py:{case['name']}" if "name" in case else "own.py"
    as_file = asked(answering(str(path.parent), [spec]), chat)
    names = ("reward", "compute_score", "reward_func")
    function = find_function(spec, str(path.parent), "rlvr.rewards", names).call
    as_object = asked(FunctionsHere({"own": function}), chat)
    for reply in (as_file, as_object):
        if case["earns"] is None:
            assert case["says"] in reply.error
            assert "\n" not in reply.error
            continue
        assert reply.error is None
        for reward, expected in zip(reply.by_response, case["earns"], strict=True):
            if isinstance(expected, dict):
                actual = {"score": reward.score, **reward.figures}
                assert actual == pytest.approx(expected)
            else:
                assert reward.score == pytest.approx(expected, abs=1e-3)
