"""Read the gold answer in a field: a value, the last box, what follows `####`, or a statement."""

import json
import math
import re
from decimal import Decimal
from typing import Literal

from rlvr_cli.core.text import LONGEST_ANSWER, shortened
from rlvr_cli.data.paths import BadRowError, parsed_json

GoldPlace = Literal["text", "hashes", "boxed"]
"""The place of a set's gold answer in its field: the whole text, after `####`, in the last box."""
GoldRule = GoldPlace | Literal["value", "long"]
"""The rule that finds a gold answer. `value` takes a value or a few words, and of a sentence the
value in it. `long` takes the answer that a derivation states: after `####`, in a box, in words, or
a short line that is a value."""
HASHES = "####"
PROOF = "proof"
_LONGEST_LINE = 64
"""Characters of a line that is a gold answer as a whole, by the rule `long`."""
_NO_ANSWERS = ("", "notfound", PROOF)
"""The texts that sets such as NuminaMath-1.5 have in place of an answer."""
_NULLS = ("none", "null", "n/a", "nan", "<na>", "#n/a")
"""What programs write for a value that is missing, in any case."""
_ITEM = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[-+]?\d+(?:\.\d+)?"""
_PYTHON_LIST = re.compile(rf"\[\s*(?:{_ITEM})(?:(?:\s*,\s*|\s+)(?:{_ITEM}))*\s*,?\s*\]")
"""A list as Python or numpy print it."""
_PYTHON_ITEM = re.compile(_ITEM)
_ESCAPED_QUOTE = re.compile(r"\\(['\"\\])")
_SHOWN_OBJECT = 60
"""Characters of an object in a message."""


def no_answer(value: object, rule: GoldRule = "value") -> str | None:
    """Return in words what replaces an answer: `notfound`, `None`, NaN, nothing. Return None for an
    answer, which a word such as None is by the rule `text`."""
    if isinstance(value, float) and math.isnan(value):
        return "not a finite number"
    if isinstance(value, list | tuple) and value:
        reasons = [no_answer(part, rule) if part is not None else "null" for part in value]
        return reasons[0] if all(reasons) else None
    if not isinstance(value, str):
        return None
    text = value.strip()
    if text in _NO_ANSWERS or (rule != "text" and text.lower() in _NULLS):
        return text or "empty"
    return None


def gold_and_place(
    value: object, rule: GoldRule = "value", field: str = "answer"
) -> tuple[str, str]:
    """Return the gold answer as text, and its place in the field, in words.

    Numbers are written plainly (27.0 is 27), and a list is joined by commas. The part after `####`,
    or in the last box, goes before the rest. The rules `hashes` and `boxed` require that mark, and
    `long` requires a text that states an answer. Raises BadRowError without a gold answer.
    """
    if isinstance(value, str):
        value = listed(value)
    if isinstance(value, list) and _is_matrix(value):
        return json.dumps(value), ""
    if isinstance(value, list | tuple) and value and rule not in ("hashes", "boxed"):
        return ", ".join(gold_and_place(part, rule, field)[0] for part in value), ""
    if isinstance(value, Decimal):
        value = f"{value:f}"
        if "." in value:
            value = value.rstrip("0").rstrip(".")
    refuse_object(value, field)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise BadRowError(f"field {field} is neither a text nor a number")
    if isinstance(value, float):
        if not math.isfinite(value):
            raise BadRowError(f"field {field} is not a finite number")
        return plain_number(value), ""
    text, place = _text_and_place(str(value), rule, field)
    if not text:
        raise BadRowError(f"field {field} is empty")
    if len(text) > LONGEST_ANSWER:
        raise BadRowError(f"field {field} is longer than {LONGEST_ANSWER} characters")
    return text, place


def _is_matrix(value: list[object]) -> bool:
    """Return whether a list has rows of several numbers."""
    return bool(value) and all(
        isinstance(row, list)
        and len(row) > 1
        and all(isinstance(part, int | float) and math.isfinite(part) for part in row)
        for row in value
    )


def _text_and_place(field_text: str, rule: GoldRule, field: str) -> tuple[str, str]:
    """Return the gold answer in the text of a field, and its place in words."""
    # The grammar takes a third of a second to load, and not every command reads a gold answer.
    from verifiers import boxed_answer, gold_value, restored_commands, stated_value

    text = restored_commands(field_text).strip()
    _, hashes, end = text.rpartition("\n")[2].partition(HASHES)
    if hashes and rule != "boxed":
        return end.strip(), f" behind {HASHES}"
    if rule == "hashes":
        raise BadRowError(f"field {field} has no {HASHES} before the gold answer")
    boxed = boxed_answer(text) if "boxed" in text else None
    if boxed is not None:
        return boxed, "'s last box"
    if rule == "boxed":
        raise BadRowError(f"field {field} has no box around the gold answer")
    if len(text) > LONGEST_ANSWER:
        return text, ""
    if rule == "long":
        answer = stated_value(text)
        if answer is None or (answer == text and len(text) > _LONGEST_LINE):
            raise BadRowError(
                f"field {field} has no box and no {HASHES} before the gold answer, nor states one"
            )
        return answer, "" if answer == text else "'s statement"
    if rule == "value":
        answer = gold_value(text)
        if answer is not None and answer != text:
            return answer, "'s statement"
    return text, ""


def listed(text: str, is_list: bool = False) -> object:
    """Return the list that a text holds, as JSON (Skywork-OR1) or as Python prints it.

    Return any other text unchanged. `[1, 2]` without quotes is an interval, unless `is_list`.
    """
    stripped = text.strip()
    if stripped[:1] != "[" or not (is_list or '"' in stripped or "'" in stripped):
        return text
    if stripped.startswith('["'):
        values = parsed_json(stripped)
        if values is not None:
            return values
    if len(stripped) > LONGEST_ANSWER or not _PYTHON_LIST.fullmatch(stripped):
        return text
    items = _PYTHON_ITEM.findall(stripped)
    return [_ESCAPED_QUOTE.sub(r"\1", item[1:-1]) if item[0] in "'\"" else item for item in items]


def refuse_object(value: object, field: str) -> None:
    """Raise BadRowError for a gold answer that is an object, or the text of one."""
    if isinstance(value, str):
        value = parsed_json(value) if value.lstrip().startswith("{") else None
    if isinstance(value, dict) and value:
        text = shortened(repr(value)[:_SHOWN_OBJECT])
        keys = [key for key, part in value.items() if isinstance(part, str | int | float)]
        name = shortened(str(keys[0])) if len(keys) == 1 else "NAME"
        raise BadRowError(
            f"field {field} is an object, {text}: name the value in it that is the gold answer, "
            f"--field answer={field}.{name}, or give a custom --reward with --answers none"
        )


def plain_number(value: float) -> str:
    """Write 27.0 as 27: a column with a null in it turns whole numbers into floats."""
    return str(int(value)) if value.is_integer() else repr(value)
