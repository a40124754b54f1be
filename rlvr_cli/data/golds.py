"""Read a gold answer out of its field."""

import math
from typing import Any, Literal

from rlvr_cli.core.text import LONGEST_ANSWER
from rlvr_cli.data.files import BadRowError
from verifiers import boxed_answer

HASHES = "####"
Gold = Literal["text", "hashes", "boxed"]
"""Where a set's golds stand: in the whole field but for marks, behind `####`, in a box."""
Rule = Gold | Literal["long"]
_BARE = 64
"""Characters of a gold answer without a mark in a field of derivations."""


def gold_and_place(value: Any, rule: Rule = "text", field: str = "answer") -> tuple[str, str]:
    """Return the gold answer as text, and where in its field it stood, in words.

    Numbers are written plainly (27.0 is 27), several joined by commas, GSM8K's reasoning cut at
    `####`, a solution's at its last box. By the rule `hashes` or `boxed` that mark must be there,
    by `long` either in a long text. Raises BadRowError if there is none.
    """
    if isinstance(value, list | tuple) and value and rule in ("text", "long"):
        return ", ".join(gold_and_place(part, field=field)[0] for part in value), ""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise BadRowError(f"field {field} is neither a text nor a number")
    if isinstance(value, float):
        if not math.isfinite(value):
            raise BadRowError(f"field {field} is not a finite number")
        return (str(int(value)) if value.is_integer() else repr(value)), ""
    text, place = str(value).strip(), ""
    _, hashes, behind = text.rpartition("\n")[2].partition(HASHES)
    if hashes and rule != "boxed":
        text, place = behind.strip(), f" behind {HASHES}"
    elif rule == "hashes":
        raise BadRowError(f"field {field} has no {HASHES} before the gold answer")
    elif "boxed" in text and (boxed := boxed_answer(text)) is not None:
        return boxed, "'s last box"
    elif rule == "boxed":
        raise BadRowError(f"field {field} has no box around the gold answer")
    elif rule == "long" and (len(text) > _BARE or "\n" in text):
        raise BadRowError(f"field {field} has no box and no {HASHES} before the gold answer")
    if not text:
        raise BadRowError(f"field {field} is empty")
    if len(text) > LONGEST_ANSWER:
        raise BadRowError(f"field {field} is longer than {LONGEST_ANSWER} characters")
    return text, place
