"""Cutting a response into the passages where an answer may stand; every scan is linear."""

import re
from functools import lru_cache
from itertools import pairwise

from verifiers.extraction.response.written import own_words
from verifiers.grammar.tables import pattern, table
from verifiers.grammar.vocabulary import words

BOX = re.compile(r"\\(?:boxed|fbox)\s*(?=\{)")
BRACE = re.compile(r"\\.|[{}]", re.S)
BARE_BOX = re.compile(r"\\(?:boxed|fbox)\s+([-+]?\d[\d.,]*|[A-Za-z](?![A-Za-z]))")
END_OF_TURN = re.compile(
    r"<\|(?:im_start|im_end|endoftext|eot_id|end_of_text|end|user|assistant)\|>|</s>|<｜end▁of▁sentence｜>"
)
CALCULATOR = re.compile(r"<<[^<>\n]{0,200}>>")
GAP = re.compile(r"\s{30,}")
# Signs of such a gap: it is of spaces alone, or begins or goes on with one of the others.
GAPES = (" " * 30, "\n\n\n", " \n", "\t", "\r", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x1f")
LONG = 400
BOILERPLATE = pattern("passages", "boilerplate")
LONGEST_CLOSING = 600
POLITE = words(table("passages")["polite"])
CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.S)
# A block of code that the text goes on after.
FENCED = re.compile(r"```[^`]*```(?=[^`]*\w)")
PROGRAM = pattern("passages", "program", flags=re.I | re.M)
BLOCK = re.compile(r"```[^`]*(?:```|\Z)")
COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.S)
DRAWING = re.compile(r"\[asy\].*?(?:\[/asy\]|\Z)", re.S)
BOLD = re.compile(
    r"\*\*(?<![A-Za-z0-9_)*]\*\*)(?=[^\s*])([^*\n]{1,300}(?:\*[^*\n]{1,300}){0,9})(?<=[^\s*])\*\*(?![A-Za-z0-9_(*])"
)
# "**Answer: 35** For an n-gon …": what is bold ends its sentence.
BOLD_STATEMENT = re.compile(
    r"(\*\*[^*\n]{0,40}(?:\b(?i:answer|result|solution)\s+is\b|[:：])[^*\n]{0,80}[^*\n.:!?,;：。！？\s])"
    r"(?=\*\*\s+[^\sa-z.,;:!?)\]*+=/×·^%—–-])"
)
ITALIC = re.compile(
    r"(?<![\w*\\)}\]])(?<!\d\s)\*(?=[^\s*])([^*\n$]{1,100})(?<=[^\s*])\*(?=[\s.,;:!?]|$)(?!\s\d)"
)
SLANTED = re.compile(r"(?<![\w\\$}_^])_([A-Za-z][A-Za-z ]{1,30}:?)_(?!\w)")
UNDERLINED = re.compile(r"(?<![\w\\_])__(?=[^\s_])([^_\n]{1,200})(?<=[^\s_])__(?!\w)")
TAGGED = re.compile(r"(?<![\w^/)])<(b|strong|i|em|u|mark)>([^<>\n]{1,200})</\1>(?![\w^/(])")
STRUCK = pattern("passages", "struck", flags=re.S | re.M)
HIDDEN = re.compile(r"\\[hv]?phantom\s*(?=\{)")
QUOTED = re.compile(
    r'"(?<![\w\\]")[^"\n]{0,300}"|“[^”\n]{0,300}”|«[^»\n]{0,300}»|\'(?<!\w\')[^\'\n]{0,300}\'(?!\w)'
)
MARKED = re.compile(r"\\(?:boxed|fbox)|</?answer>|####")
SENTENCE_END = re.compile(
    r"[.?!\n。！？](?:(?<=[。！？])(?=[^」』）)”\"'*_\s])|(?<=\n)\n*|(?:(?<=[.?])(?<!\\[.?])(?<!e\.g\.)(?<!i\.e\.)(?<!\.\.\.)|(?<=[a-z]{3}!))[*_\"”')]*(?=\s|$))"
)
LIST_ITEM = re.compile(r"\s*(?:[-*•]|\d{1,2}[.)])(?:\s|$)")
MATH_OPENINGS = {"$$": "$$", "$": "$", r"\(": r"\)", r"\[": r"\]"}
DISPLAY = re.compile(r"\\\[.{0,3000}?\\\]|\$\$.{0,3000}?\$\$", re.S)
ALIGNED = pattern("passages", "aligned", flags=re.S)
STOP_AT_END = re.compile(r"\.\s+(?=(?:\\\]|\$\$)$)")
OPENING = re.compile(r"[$\\](?:(?<=\$)\$|(?<=\$)(?<!\\\$)|(?<=\\)[(\[])")
LONGEST_SPAN = 20_000
PROSE = re.compile(r"[A-Za-z]{2,}\s+[A-Za-z]{2,}")
MOST_UNCLOSED = 20
WINDOW = 100_000
BEFORE_MARK = 1_000
RUNAWAY = pattern("passages", "runaway", flags=re.I | re.M)
NEXT_LINE = re.compile("\n" + RUNAWAY.pattern.removeprefix("^"), re.I)
UNKNOWN = re.compile(
    r"(?<=[.!])\s*\n[ \t]*\n(?=Human:|User:|Question:|Q:)"
    r"|\bI (?:don['’]t|do not|can['’]t|cannot) (?:know|solve|do|answer)\b"
)
ASKS = pattern("passages", "asks", flags=re.I | re.M)
STATED = pattern("passages", "stated", flags=re.I | re.M)
END_MARKS = 60
ROUNDED = re.compile(r"decimal|d\. ?p|\ddp|s\. ?f|sig|\dsf| [ds][pf]")
ROUNDING_NOTE = pattern("passages", "rounding_note")
END_MARK = pattern("passages", "end_mark", flags=0)


def _first_problem(text: str) -> str:
    """Return a text up to where it runs on into another problem, once it has stated an answer."""
    if "\n" not in text:
        return text
    asks = "?" in text or ("[" in text and "\n[" in text)
    if not NEXT_LINE.search(text) and not (asks and ASKS.search(text)):
        return text
    said = [match for sign in (STATED, UNKNOWN) if (match := sign.search(text))]
    if not said:
        return text
    first = min(said, key=lambda match: match.start())
    found = RUNAWAY.search(text, first.end()), ASKS.search(text, first.end()) if asks else None
    return text[: min((match.start() for match in found if match), default=len(text))]


def _may_strike(text: str) -> bool:
    """Return whether one of the signs stands in a text that strike a part of it out."""
    return (
        not text.isascii()
        or ("~" in text and "~~" in text)
        or ("<" in text and ("<s" in text or "<d" in text))
        or ("%" in text and (text[0] == "%" or "\n%" in text or "\n %" in text))
        or ("[" in text and (text[0] == "[" or "[//]" in text or "[ ]" in text))
        or ("{" in text and "{comment}" in text)
    )


def _without_program(block: re.Match[str]) -> str:
    return " " if PROGRAM.search(block[0]) else block[0]


def final_text(text: str) -> str:
    """Return the end of the first turn of a response, without calculator notes, comments and
    bold. One sign is looked for before several: it is found, or not, ten times as fast."""
    text = own_words(text)
    if "<" in text:
        text = CALCULATOR.sub("", text) if "<<" in text else text
        text = END_OF_TURN.split(text, maxsplit=1)[0] if "<" in text else text
    text = without_gaps(text)
    text = _first_problem(_window(text.rstrip()))
    text = BLOCK.sub(_without_program, text) if "`" in text and "```" in text else text
    end = text[-END_MARKS:]
    if "Q" in end or not end.isascii() or (end[-1:] in "$exdDlk])" and "\\" in end):
        text = text[:-END_MARKS] + END_MARK.sub("", end)
    end = text[-END_MARKS:]
    if end.rstrip(" ).*$")[-1:].isalpha() and ROUNDED.search(end):
        text = text[:-END_MARKS] + ROUNDING_NOTE.sub("", end)
    whole = text
    text = COMMENT.sub(" ", text) if "<" in text and "<!--" in text else text
    text = DRAWING.sub(" ", text) if "[" in text and "[asy]" in text else text
    text = STRUCK.sub(" ", text) if _may_strike(text) else text
    text = text if text is whole else without_gaps(text)
    if "*" in text and "**" in text:
        text = BOLD.sub(r"\1", BOLD_STATEMENT.sub(r"\1.", text))
    if "_" in text:
        text = SLANTED.sub(r"\1", text)
        text = UNDERLINED.sub(r"\1", text) if "__" in text else text
    text = TAGGED.sub(r"\2", text) if "<" in text and "</" in text else text
    end = text[-END_MARKS:]
    return text[:-END_MARKS] + ITALIC.sub(r"\1", end) if end.count("*") > 1 else text


def without_gaps(text: str) -> str:
    """Return a text with a space, a line break or a blank line for what is white for too long:
    patterns that begin with white space are tried at each place of it."""
    if len(text) < LONG or (text.isascii() and not any(sign in text for sign in GAPES)):
        return text
    return GAP.sub(lambda gap: "\n\n"[: gap[0].count("\n")] or " ", text)


def tail_of(text: str, longest: int) -> str:
    """Return the end of a long text, from the beginning of a sentence: no value is cut."""
    if len(text) <= longest:
        return text
    begins = SENTENCE_END.search(text, len(text) - longest)
    return text[begins.end() :] if begins else ""


def _window(text: str) -> str:
    """Return the end of a very long text, or what surrounds its last mark if the end has none."""
    end = tail_of(text, WINDOW)
    if len(text) <= WINDOW or MARKED.search(end):
        return end
    marked_at = max(text.rfind(mark) for mark in ("\\boxed", "\\fbox", "<answer>", "####"))
    start = max(marked_at - BEFORE_MARK, 0)
    return end if marked_at < 0 else text[start : start + WINDOW]


def without_quotations(text: str) -> str:
    """Blank out boxes and tags that stand inside code or quotation marks; positions stay."""
    tagged, hashed = ">" in text and "answer>" in text, "#" in text and "####" in text
    if not tagged and not hashed and "box" not in text:
        return text

    def blank(match: re.Match[str]) -> str:
        return " " * len(match[0]) if MARKED.search(match[0]) else match[0]

    text = CODE.sub(blank, text) if "`" in text else text
    last = max(map(text.rfind, "\"”'"))
    if last >= 0 and any(0 <= text.find(mark) < last for mark in ("box", "answer>", "####")):
        text = QUOTED.sub(blank, text)
    hidden = list(HIDDEN.finditer(text))[:MOST_UNCLOSED] if "phantom" in text else []
    for match in hidden:
        end = max(group_end(text, match.end()), match.end())
        text = text[: match.start()] + " " * (end - match.start()) + text[end:]
    return text


def group_end(text: str, opening: int) -> int:
    """Return the position after the brace that closes the one at `opening`, or -1."""
    depth = 0
    for match in BRACE.finditer(text, opening):
        brace = match[0]
        depth += (brace == "{") - (brace == "}")
        if depth == 0 and brace == "}":
            return match.end()
    return -1


@lru_cache(maxsize=8)
def without_boilerplate(text: str) -> str:
    end = text[-LONGEST_CLOSING:]
    lowered = end.lower()
    if not any(word in lowered for word in POLITE):
        return text
    return text[:-LONGEST_CLOSING] + BOILERPLATE.sub("", end).rstrip()


@lru_cache(maxsize=4)
def boxes(text: str) -> list[tuple[int, int, str]]:
    """Return every outermost box as (start, end, content); an unclosed box ends the search."""
    found: list[tuple[int, int, str]] = []
    position = text.find("box") - 2
    if position < -2:
        return found
    position = max(position, 0)
    while match := BOX.search(text, position):
        end = group_end(text, match.end())
        if end < 0:
            break
        found.append((match.start(), end, text[match.end() + 1 : end - 1]))
        position = end
    if not found:
        found = [(match.start(), match.end(), match[1]) for match in BARE_BOX.finditer(text)]
    return found


def math_span(text: str, start: int) -> tuple[int, str] | None:
    """Return the mathematics delimited at `start`, as (end, content); $5 and then $6 delimit
    none."""
    match = OPENING.match(text, start)
    if not match:
        return None
    closing = MATH_OPENINGS[match[0]]
    end = match.end()
    while True:
        end = text.find(closing, end, start + LONGEST_SPAN)
        if end < 0:
            return None
        if closing[0] == "$" and text[end - 1] == "\\":
            end += 1
            continue
        content = text[match.end() : end]
        if closing == "$" and "\\" not in content and PROSE.search(content):
            return None
        return end + len(closing), content


def math_spans(text: str) -> list[tuple[int, int, str]]:
    """Return all delimited mathematics, as (start, end, content)."""
    spans: list[tuple[int, int, str]] = []
    position = unclosed = 0
    while unclosed < MOST_UNCLOSED and (match := OPENING.search(text, position)):
        span = math_span(text, match.start())
        if span is None:
            position = match.end()
            unclosed += 1
            continue
        spans.append((match.start(), span[0], span[1]))
        position = span[0]
    return spans


def _last_row(block: re.Match[str]) -> str:
    """Return a block of aligned steps as a display of its last one."""
    rows = [row for row in block[2].replace("&", " ").split(r"\\") if row.strip()]
    return rf"\[{rows[-1].strip().rstrip('.,')}\]" if rows else " "


def _one_line(display: re.Match[str]) -> str:
    """Return a display without its line breaks and the full stop before its end."""
    return STOP_AT_END.sub(" ", display[0].replace("\n", " "))


@lru_cache(maxsize=8)
def sentences(text: str) -> list[str]:
    """Return the sentences and lines of a text, in order, without empty ones; a display is one
    line."""
    if "\\begin" in text:
        text = ALIGNED.sub(_last_row, text)
    if "\\]" in text or "$$" in text:
        text = DISPLAY.sub(_one_line, text)
    ends = [0, *(match.end() for match in SENTENCE_END.finditer(text)), len(text)]
    pieces = [text[start:end].strip() for start, end in pairwise(ends)]
    return [piece for piece in pieces if piece]
