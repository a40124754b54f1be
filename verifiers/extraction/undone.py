"""What stands where an answer is asked for and is none: a sum left to do, a refusal."""

import re

_NUMBER = r"[-+−]?\d[\d.]*"
_SIGN = r"(?:[-+−*×·÷]|\\times(?![a-z])|\\cdot(?![a-z])|\\div(?![a-z]))"
_UNDONE = re.compile(rf"{_NUMBER}(?:\s*{_SIGN}\s*\d[\d.]*)+")
_PLAIN = re.compile(_NUMBER)
BRACKETS = re.compile(r"\\left|\\right|[()]")
COUNTED = re.compile(r"(?<=\d)\s+[A-Za-z]{2,}(?:\s[A-Za-z]+)?$")
_REFUSAL = re.compile(
    r"(?:(?:sorry|hmm+|well)[,. ]+)?(?:(?:i|we)(?:['’]m|\s+am|\s+have|['’]ve(?:\s+got)?)?\s+)?"
    r"(?:(?:absolutely\s+|really\s+)?no\s+(?:idea|clue|answer)|idk|dunno|sorry|unknown|unclear|unsure"
    r"|hmm+|ok(?:ay)?|so|to\s?do|tbd|nan|null"
    r"|not\s+(?:so\s+|really\s+)?(?:sure|certain|known)|give\s+up|n/?a|\?+"
    r"|(?:do\s+not|don['’]?t|can\s?not|can['’]?t|could\s+not|couldn['’]?t)\s+"
    r"(?:know|say|tell|solve|answer|determine)(?:\s+(?:it|this|that))?|impossible\s+to\s+(?:say|tell))",
    re.IGNORECASE,
)
_TEXT = re.compile(r"\\(?:text|mathrm|textbf)\s*\{([^{}]*)\}")


def is_left_undone(answer: str, gold: str) -> bool:
    """Say whether plain numbers stand there with their signs between them, where one was asked for.

    `28 + 35` repeats the question that 63 answers. A fraction, a power, a root or a product with
    one is a value in a form of its own, and a gold in any other form is compared as it stands.
    """
    if answer == gold:
        return False
    stated = BRACKETS.sub("", answer.replace(")(", "*").strip().strip("$").strip().rstrip("."))
    stated = COUNTED.sub("", stated)
    return _PLAIN.fullmatch(gold.strip().strip("$")) is not None and (
        _UNDONE.fullmatch(stated) is not None
    )


def is_refusal(answer: str) -> bool:
    """Say whether the answer only says that there is none, or is a filler: `no idea`, `?`, `…`."""
    if any(map(str.isdigit, answer)):
        return False
    bare = _TEXT.sub(r"\1", answer).strip("$*_.…!,; \n")
    return not bare or _REFUSAL.fullmatch(bare) is not None
