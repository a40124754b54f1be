"""Find the marks of an answer: the answer block, boxes, "####", "the answer is"."""

import re
from typing import NamedTuple

TAG = re.compile(r"</?(?:think|answer)>")
FORMAT = ["<think>", "</think>", "<answer>", "</answer>"]
NEXT_PROBLEM = re.compile(
    r"\n[ \t]*(?:\*\*|#+ )?(?:Question|Problem|Exercise|Instruction|Human|User|Q)"
    r"\s?\d{0,3}\s?[:.\n]"
)
BOX = re.compile(r"\\(?:boxed|fbox)\s*(?:(\{)|(-?\d[\d.,]*\d|\d))")
BRACE = re.compile(r"\\.|[{}]", re.S)
# A line that begins with a word and is not the last one is a heading: #### Step 2, #### 1. Add.
HASHES = re.compile(
    r"####(?![ \t]*(?:\d{1,2}[.)][ \t]+)?[*_]{0,3}[A-Za-z]{2}[^\n]*\n\s*\S)[ \t]*([^\n]+)"
)

# What introduces a statement: "the final answer is", "Answer:", "**Answer**\n", and their like.
_ABROAD = r"respuesta|réponse|antwort|resposta|risposta|ответ"
_NOUN = (
    r"(?:(?:\b(?:the|our|my|final|correct|best|right)\s+|^\W{0,6})"
    r"(?:answer|ans|correct (?:option|choice))\b"
    rf"|\b(?:{_ABROAD})\b|答案|答え|정답|^\W{{0,6}}A(?=\s?[:：]))"
)
_VERB = (
    r"(?:\b(?:is|are|ist|es|est)\b|(?<=\s)[éè](?=\s)|(?<!不)[是为為]|は|은)(?:[\s*_]{0,9}[:：])?"
)
_BRACKETED = (
    r"[【\[［〔〖「]\s{0,3}(?:(?:the |final |correct )?answer|(?:正确|参考|最终)?答案?)"
    r"\s{0,3}[】\]］〕〗」]\s{0,3}[:：]?"
)
_HEADING = r"[*_]{0,3}[ \t]{0,9}\n(?:[-=]{3,})?"
STATEMENT = re.compile(
    rf"(?:{_BRACKETED}|{_NOUN}[^.:：=\n\d$\\]{{0,60}}?(?:{_VERB}|[:：]|=|{_HEADING}))[\s*_]*+",
    re.I | re.M,
)


class Span(NamedTuple):
    """Mark the start and the end of a value in a text, and hold the text of the value."""

    start: int
    end: int
    content: str


def check_format(response: str, *, think_open: bool = False) -> bool:
    """Return whether a response is one thought, then one answer block, and nothing else but white
    space. With `think_open` the prompt holds the first tag."""
    text = f"<think>{response}" if think_open else response
    if "</answer>" not in text or TAG.findall(text) != FORMAT:
        return False
    before, _, rest = text.partition("<think>")
    between, _, rest = rest.partition("</think>")[2].partition("<answer>")
    return not (before + between + rest.partition("</answer>")[2]).strip()


def is_incomplete(response: str, *, think_open: bool = False) -> bool:
    """Return whether the tags of a response that was cut off are the beginning of the format."""
    tags = TAG.findall(f"<think>{response}" if think_open else response)
    return len(tags) < len(FORMAT) and tags == FORMAT[: len(tags)]


def own_problem(text: str, mark: re.Pattern[str]) -> str:
    """Return a text up to the line that begins another problem after its first mark."""
    first = mark.search(text) if NEXT_PROBLEM.search(text) else None
    following = NEXT_PROBLEM.search(text, first.end()) if first else None
    return text[: following.start()] if following else text


def boxes(text: str) -> tuple[list[Span], bool]:
    """Return the outermost boxes that close, and whether the last one closes, in one pass over the
    braces. Without any brace after \\boxed, a number right after it is in the box."""
    if "box" not in text:  # the usual case, at a tenth of the time
        return [], True
    matches = list(BOX.finditer(text))
    starts = {match.end() - 1: match.start() for match in matches if match[1]}
    if not starts:  # \boxed 5
        return [Span(*match.span(), match[2]) for match in matches], True
    spans: list[Span] = []
    unclosed: list[int] = []
    last = max(starts)
    is_closed = False
    for brace in BRACE.finditer(text, min(starts)):
        if brace[0] == "{":
            unclosed.append(brace.start())
        elif brace[0] == "}" and unclosed:
            opening = unclosed.pop()
            if opening not in starts:
                continue
            is_closed = is_closed or opening <= last < brace.end()
            while spans and spans[-1].start > opening:  # boxes inside of this one
                spans.pop()
            content = text[opening + 1 : brace.start()]
            spans.append(Span(starts[opening], brace.end(), content))
    return spans, is_closed
