"""The answers of a response that has parts: (a) …, (b) …, each read on its own."""

import re

from verifiers.extraction.context.standing import denied_before, doubted, sentence_before
from verifiers.extraction.extract import Extraction, found_in
from verifiers.extraction.places import without_denied
from verifiers.extraction.readable import YES_OR_NO
from verifiers.extraction.response.formats import after_thought
from verifiers.extraction.response.passages import final_text, without_gaps, without_quotations
from verifiers.grammar.parts import last_parts

FOR_WHAT = re.compile(r"^\s*(?:for\s+|when\s+|at\s+)?\$?[a-z]\s*=\s*[^:\n=]{1,12}:\s*", re.I)


def in_parts(response: str, count: int, *, think_open: bool, cut_off: bool) -> Extraction | None:
    """Find the answers of the last run of exactly so many parts; None where there is no such run
    or an answer block decides."""
    text = after_thought(response, think_open=think_open)
    if text is None or "<answer" in text:
        return None
    text = without_gaps(without_denied(without_quotations(final_text(text))))
    parts = last_parts(text, count)
    if not parts:
        return None
    before = sentence_before(text, parts[0].start)
    answers = [_answer(part.text) for part in parts[:-1]]
    last = parts[-1].text
    one_paragraph = not any("\n\n" in part.text.strip() for part in parts[:-1])
    last = last.strip().partition("\n\n")[0] if one_paragraph else last
    answers.append(_answer(last, cut_off=cut_off))
    if denied_before(before) or doubted(before) or None in answers:
        return Extraction(None, "not every part is answered")
    said = zip(parts, answers, strict=True)
    return Extraction(" ".join(f"({part.label}) {answer}" for part, answer in said), "parts")


def _answer(part: str, *, cut_off: bool = False) -> str | None:
    """Return the answer of a part: "Yes: …", "n = 2: 49"."""
    if said := YES_OR_NO.match(part):
        return said[1]
    return found_in(FOR_WHAT.sub("", part, count=1), format="any", cut_off=cut_off)[0].text
