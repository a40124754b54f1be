"""Rows in the layouts of published sets and of other programs, each read as its task or refused.

`cases/layouts.jsonl` has a layout a line: its rows, and what is `read` of them (text and gold
answer) or a part of the line by which they are `refused`. The layouts follow public sets, and the
contents are made up. `opening` is the beginning of the responses, `scored` an answer that the
verifier's rules accept, `unreadable` a gold answer that nothing can equal, and `fields` are the
user's.
"""

import json
from pathlib import Path

import pytest

from rlvr_cli.core.errors import UserError
from rlvr_cli.data.problems import load_problems
from verifiers import Verifier
from verifiers.gym import _score, place_of

LAYOUTS = [
    json.loads(line)
    for line in (Path(__file__).parent / "cases" / "layouts.jsonl").read_text().splitlines()
]


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout["name"])
def test_a_layout_is_read_as_its_task_or_refused(layout):
    if "refused" in layout:
        with pytest.raises(UserError) as error:
            load_problems("-", "train", rows=layout["rows"], fields=layout.get("fields"))
        assert layout["refused"] in str(error.value)
        return
    found = load_problems("-", "train", rows=layout["rows"], fields=layout.get("fields"))
    problems = found.problems
    assert [[problem.problem, problem.answer] for problem in problems] == layout["read"]
    assert problems[0].opening == layout.get("opening", "")
    place = place_of(problems[0].row)
    if "scored" in layout:
        assert [_score(place, answer) for answer in (layout["scored"], "98")] == [1, 0]
    else:
        assert place is None
    with Verifier() as verifier:
        readable = [verifier.check_gold(problem.answer) for problem in problems]
    assert readable == [not layout.get("unreadable", False)] * len(problems)
