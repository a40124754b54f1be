"""A computation that the response leaves to its reader."""

import re

_NUMBER = r"[-+−]?\d[\d.]*"
_SIGN = r"(?:[-+−*×·÷]|\\times(?![a-z])|\\cdot(?![a-z])|\\div(?![a-z]))"
_UNDONE = re.compile(rf"{_NUMBER}(?:\s*{_SIGN}\s*\d[\d.]*)+")
_PLAIN = re.compile(_NUMBER)


def is_left_undone(answer: str, gold: str) -> bool:
    """Say whether plain numbers stand there with their signs between them, where one was asked for.

    `28 + 35` repeats the question that 63 answers. A fraction, a power, a root or a product with
    one is a value in a form of its own, and a gold in any other form is compared as it stands.
    """
    if answer == gold:
        return False
    stated = answer.strip().strip("$").strip().rstrip(".")
    return _PLAIN.fullmatch(gold.strip().strip("$")) is not None and (
        _UNDONE.fullmatch(stated) is not None
    )
