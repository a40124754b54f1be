"""Where a response states its answer: its own place first, then the field's phrases."""

import re
from dataclasses import dataclass

from verifiers.formats import after_thought

BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
END_OF_TURN = re.compile(r"<\|(?:im_start|im_end|endoftext|eot_id)\|>|</s>")
JOINED = re.compile(r"(?:[\s,;$.&]|\\[()\[\],;! ]|\\quad|\\text\s*\{\s*(?:and|or)\s*\}|and|or)*")
HASHES = re.compile(r"####[ \t]*([^\n]+)")
PHRASE = re.compile(
    r"(?:final\s+answer|answer)(?:\s+is|\s*[:=])+\s*|^\s*A:\s*|\banswer\s+(?=\$|\\[(\[])",
    re.I | re.M,
)
ANSWER_TAG = re.compile(r"</?answer>")
MAX_ANSWER = 20_000


@dataclass(frozen=True)
class Extraction:
    """The text of the answer, or None with the reason why there is none."""

    text: str | None
    reason: str


def box_contents(text: str) -> list[tuple[int, int, str]]:
    """Every outermost `\\boxed{…}` as (start, end, content); one linear scan."""
    boxes = []
    position = 0
    while match := BOX.search(text, position):
        depth, index = 1, match.end()
        while index < len(text) and depth:
            if text[index] == "\\":
                index += 1
            elif text[index] == "{":
                depth += 1
            elif text[index] == "}":
                depth -= 1
            index += 1
        if depth:
            break
        boxes.append((match.start(), index, text[match.end() : index - 1]))
        position = index
    return boxes


def last_boxes(text: str) -> str | None:
    """The last box, together with the boxes that stand right before it."""
    boxes = box_contents(text)
    if not boxes:
        return None
    group = [boxes[-1]]
    for box in reversed(boxes[:-1]):
        if not JOINED.fullmatch(text[box[1] : group[0][0]]):
            break
        group.insert(0, box)
    return ", ".join(content for _, _, content in group)


def phrase(text: str) -> str | None:
    """What follows the last "the answer is", up to the end of its line or sentence."""
    matches = list(PHRASE.finditer(text))
    if not matches:
        return None
    last = matches[-1]
    rest = text[last.end() : last.end() + MAX_ANSWER].lstrip("*").strip()
    for opening, closing in (("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]")):
        if rest.startswith(opening):
            end = rest.find(closing, len(opening))
            if end > 0:
                return rest[len(opening) : end]
    return re.split(r"\n|\.\s|\.$", rest, maxsplit=1)[0].strip("* ")


def extract(response: str, *, think_open: bool = False) -> Extraction:
    """Find the answer that a response states last."""
    text = after_thought(response, think_open=think_open)
    if text is None:
        return Extraction(None, "thought never closed")
    text = END_OF_TURN.split(text, maxsplit=1)[0]
    tags = ANSWER_TAG.findall(text)
    if tags:
        if tags != ["<answer>", "</answer>"]:
            return Extraction(None, "malformed answer tags")
        text = text.partition("<answer>")[2].partition("</answer>")[0]
        found = last_boxes(text) or phrase(text) or text
    else:
        hashes = HASHES.findall(text)
        found = last_boxes(text) or (hashes and hashes[-1]) or phrase(text) or ""
    found = found.strip()
    if not found or len(found) > MAX_ANSWER:
        return Extraction(None, "no answer found")
    return Extraction(found, "found")
