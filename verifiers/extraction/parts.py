"""The answers of a response that has parts: (a) …, (b) …, each read on its own."""

from verifiers.extraction.context.standing import denied_before, doubted, sentence_before
from verifiers.extraction.extract import Extraction, extract
from verifiers.extraction.places import without_denied
from verifiers.extraction.response.formats import after_thought
from verifiers.extraction.response.passages import final_text, without_quotations
from verifiers.grammar.parts import last_parts


def in_parts(response: str, count: int, *, think_open: bool, cut_off: bool) -> Extraction | None:
    """Find the answers of the last run of exactly so many parts; None where there is no such run
    or an answer block decides."""
    text = after_thought(response, think_open=think_open)
    if text is None or "<answer" in text:
        return None
    text = without_denied(without_quotations(final_text(text)))
    parts = last_parts(text, count)
    if not parts:
        return None
    before = sentence_before(text, parts[0].start)
    answers = [extract(part.text).text for part in parts[:-1]]
    answers.append(extract(parts[-1].text, cut_off=cut_off).text)
    if denied_before(before) or doubted(before) or None in answers:
        return Extraction(None, "not every part is answered")
    said = zip(parts, answers, strict=True)
    return Extraction(" ".join(f"({part.label}) {answer}" for part, answer in said), "parts")
