"""One spelling for answers that differ only in markup."""

import re

GOLD_MARK = "####"
DROPPED = re.compile(r"\\left|\\right|\\!|\\,|\\;|\\ |\\displaystyle|\$|\\\(|\\\)|\\\[|\\\]|\s")
WRAPPER = re.compile(r"\\(?:text|textbf|mathrm|mathbf|boxed)\{([^{}]*)\}")


def gold_text(gold: str) -> str:
    """The answer inside a gold field; GSM8K writes its solution first and then `#### answer`."""
    return gold.rpartition(GOLD_MARK)[2].strip()


def normalise(text: str) -> str:
    """Drop markup that does not change what is written."""
    text = WRAPPER.sub(r"\1", text)
    text = DROPPED.sub("", text)
    return text.replace(r"\dfrac", r"\frac").replace(r"\tfrac", r"\frac").rstrip(".")
