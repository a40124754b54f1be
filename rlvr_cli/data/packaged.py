"""Read the ids and gold answers that come with the package, for a set that the hub does not give.

A table has no text of a problem: a row has the set's `id`, the `answer`, the `contest` with the
number there, and the first digits of the SHA-256 of the `text`, by which a row with this text is
found.
"""

import csv
import hashlib
from importlib import resources

from rlvr_cli.core.types import Problem
from rlvr_cli.data.problems import ProblemSet
from rlvr_cli.data.sources import find_spec

_DIGITS = 12
"""Digits of a SHA-256: two of a hundred texts share 48 bits in one of 10^10 cases."""


def packaged_golds(source: str) -> ProblemSet | None:
    """Return the problems of a named set without their texts. Return None if the package has no
    table of it."""
    spec = find_spec(source)
    if spec is None or spec.golds is None:
        return None
    table = (resources.files("datasets_cfg") / spec.golds).read_text(encoding="utf-8")
    problems = []
    other_ids = {}
    for row in csv.DictReader(table.splitlines()):
        problems.append(Problem(id=row["id"], problem="", answer=row["answer"]))
        other_ids[row["contest"]] = row["id"]
        other_ids[row["text"]] = row["id"]
    return ProblemSet(
        name=source,
        problems=tuple(problems),
        prompt=spec.prompt,
        answer_format=spec.answer_format,
        other_ids=other_ids,
    )


def text_digest(text: str) -> str:
    """Return the first digits of the SHA-256 of a text, whose white space does not matter."""
    return hashlib.sha256(" ".join(text.split()).encode()).hexdigest()[:_DIGITS]
