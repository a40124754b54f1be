"""The think/answer format: `<think>…</think>` then `<answer>…</answer>`, once each."""

import re

TAG = re.compile(r"<(/?)(think|answer)>")
EXPECTED_TAGS = ["<think>", "</think>", "<answer>", "</answer>"]


def check_format(response: str, *, think_open: bool = False) -> bool:
    """Say whether the response is one thought and then one answer, and nothing else.

    The four tags must stand once each and in order, with only white space before, between and
    after the two blocks. With `think_open` the template wrote the first tag, so the response
    must not repeat it.
    """
    tags = list(TAG.finditer(response)) if "</answer>" in response else []
    expected = EXPECTED_TAGS[1:] if think_open else EXPECTED_TAGS
    if [tag.group() for tag in tags] != expected:
        return False
    think_close, answer_open, answer_close = tags[-3:]
    before = "" if think_open else response[: tags[0].start()]
    between = response[think_close.end() : answer_open.start()]
    after = response[answer_close.end() :]
    return not (before.strip() or between.strip() or after.strip())


def is_incomplete(response: str, *, think_open: bool = False) -> bool:
    """Say whether a response that was cut off could still have come to hold the format."""
    tags = [tag.group() for tag in TAG.finditer(response)]
    expected = EXPECTED_TAGS[1:] if think_open else EXPECTED_TAGS
    return len(tags) < len(expected) and tags == expected[: len(tags)]


def after_thought(response: str, *, think_open: bool = False) -> str | None:
    """Return the text that follows the last thought, or None while a thought is still open."""
    closed_at = response.rfind("</think>")
    if closed_at >= 0:
        rest = response[closed_at + len("</think>") :]
        return None if "<think>" in rest else rest
    if think_open or "<think>" in response:
        return None
    return response
