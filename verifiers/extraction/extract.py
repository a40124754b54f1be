"""Where a response states its answer: its own place first, then a phrase, then the last value."""

import re
from itertools import pairwise

from verifiers.extraction.competing_answers import changed_to, offered_after, stands_beside
from verifiers.extraction.context.abroad import cut_off
from verifiers.extraction.context.aftermath import announced, overturned
from verifiers.extraction.context.alone import stands_alone
from verifiers.extraction.context.hedges import BOUND
from verifiers.extraction.context.standing import (
    changed_beside,
    denied_after,
    denied_before,
    doubted,
    sentence_after,
    sentence_before,
    taken_back,
)
from verifiers.extraction.context.wording import EITHER
from verifiers.extraction.context.words_around import not_its_answer
from verifiers.extraction.found import Extraction, beside, checked
from verifiers.extraction.later_values import (
    computed_on,
    concluded,
    goes_on_with_parts,
    stated_anew,
)
from verifiers.extraction.layouts import value_lines
from verifiers.extraction.most_likely import likelier
from verifiers.extraction.places import (
    MOST_PLACES,
    Place,
    marked,
    offered_last,
    phrased,
    spoken_at,
    without_denied,
)
from verifiers.extraction.readable import LONGEST_BARE, is_value
from verifiers.extraction.response.formats import after_thought
from verifiers.extraction.response.passages import (
    SENTENCE_END,
    final_text,
    without_gaps,
    without_quotations,
)
from verifiers.extraction.sentence.last_sentence import last_sentence
from verifiers.extraction.sentence.prose import CONTRAST, first_digit, only_value
from verifiers.extraction.sentence.several import named_values
from verifiers.extraction.statements import stated
from verifiers.extraction.steps import bare_answer
from verifiers.extraction.unmarked import (
    emphasized,
    emphasized_earlier,
    unmarked,
    without_closing,
    without_marks,
)
from verifiers.grammar.literals import is_plain_number
from verifiers.grammar.parts import as_list
from verifiers.grammar.spelling import unit_abroad
from verifiers.grammar.tables import gated, table
from verifiers.grammar.units import SPELLINGS
from verifiers.grammar.vocabulary import words
from verifiers.types import Format

ANSWER_TAG = re.compile(r"</?\s*answer\s*/?>", re.I)
PART_BEFORE = re.compile(r"(?:^|[\s*(])\(?(?:[a-e]|i{1,3}|iv)\)|\bpart \(?[a-e1-5]\b", re.I)
SAYS_MORE = re.compile(r"[\w=]")
ASIDE = re.compile(r"\([^()\\]*[A-Za-z]{3}|\b(?:because|since|as|so)\b")
FORETOLD = gated("extract", "foretold")
FORETELLS = (*words(table("extract")["foretells"]), " box", "this line")
NOTE = re.compile(r"\W*note\b", re.I)
UNSURE_AFTER = re.compile(r"\W*(?:not sure|unsure|maybe|perhaps|if|unless|is what|but|hmm)\b", re.I)
CLAUSE_AFTER = re.compile(r"^(?=[^;\n]*\d)[^;\n]*+;\s+(?:the|it|this|we|but)\s+[a-z]+")
LINE_BREAK = re.compile(r"<br\s*/?>", re.I)
MODULUS = re.compile(r"[\s$]{0,4}\\p?mod\s?\{?(\d{1,9})\}?")
EQUAL_AFTER = re.compile(
    r"(?:\$|\\\)|\s){0,4}={1,2}\s{0,3}\$?(-?[\d.,]{1,20}\d|\d)(?=[\s.,;$)]*(?:$|\n|[A-Z]))"
)
UNIT_BESIDE = re.compile(r"[\s$)\]*]{0,4}\s([A-Za-z]{2,12})(?=[\s.,;!?)$]|$)")
WEAK = ("no answer found", "last expression")
NEAR_END = 400


def extract(
    response: str, *, format: Format = "any", think_open: bool = False, cut_off: bool = False
) -> Extraction:
    """Find the answer that a response states last.

    With `cut_off` a value that only happens to stand at the end is no answer.
    """
    text = after_thought(response, think_open=think_open)
    if text is None:
        return Extraction(None, "thought never closed")
    found, text = found_in(text, format=format, cut_off=cut_off)
    if found.text and found.reason != "JSON" and not_its_answer(text, found.text, found.start):
        return Extraction(None, "not stated")
    passage = "" if cut_off else text[-NEAR_END:]
    return Extraction(found.text, found.reason, found.rivals, found.parts, passage, format)


def found_in(written: str, *, format: Format, cut_off: bool = False) -> tuple[Extraction, str]:
    """Return what stands as the answer in the text of a response after its thought, and the final
    text that it was found in."""
    text = final_text(written)
    found = answer_of(text, format=format, cut_off=cut_off)
    weak = format == "any" and not cut_off and found.reason in WEAK
    if weak and len(shorter := without_closing(written)) < len(written.rstrip()):
        written, text = shorter, final_text(shorter)
        found = answer_of(text, format=format, cut_off=cut_off)
        weak = found.reason in WEAK
    if weak:
        emphasis = emphasized(written, text) or emphasized_earlier(written)
        found = checked(emphasis, "emphasis") if emphasis else found
        found = found._replace(parts=named_values(last_sentence(text)))
    if weak and found.reason in WEAK and (whole := without_marks(text)):
        likely = likelier(whole, found.text)
        found = checked(*likely) if likely else found
    return found, text


def answer_of(text: str, *, format: Format, cut_off: bool) -> Extraction:
    """Find the answer in the final text of a response: in its block, its last mark or phrase, or
    in what is left."""
    written = without_quotations(text)
    visible = without_denied(written)
    if visible is not text:  # what is blanked out leaves gaps
        written, visible = without_gaps(written), without_gaps(visible)
    tags = list(ANSWER_TAG.finditer(visible)) if "<" in visible else []
    if tags and format != "boxed":
        if [tag.group() for tag in tags] != ["<answer>", "</answer>"]:
            return Extraction(None, "answer tags nested, repeated or not closed")
        if _taken_away(visible, tags[0].start(), tags[1].end()):
            return Extraction(None, "denied")
        inside = visible[tags[0].end() : tags[1].start()]
        block = _with_rivals(_in_block(inside), visible[tags[1].end() :])
        taken = not block.rivals and overturned(visible, tags[1].end(), inside)
        return Extraction(None, "taken back") if taken else block
    places = marked(visible)
    if places and visible != written and offered_last(written, places[-1]):
        return Extraction(None, "only offered")
    if format == "boxed":
        return _last_of(visible, places) or Extraction(None, "no box")
    found = _last_of(visible, sorted(places + phrased(visible, places), key=lambda p: p.end))
    if found is None and not cut_off:
        whole = without_marks(visible)
        bare = unmarked(whole) if whole else None
        found = checked(*bare) if bare else None
    return found or Extraction(None, "no answer found")


def boxed_answer(text: str, *, think_open: bool = False) -> str | None:
    """Return what the last box of a response or a written solution holds, whatever the words around
    it weigh; None without one."""
    written = after_thought(text, think_open=think_open)
    return None if written is None else found_in(written, format="boxed")[0].text


def _in_block(inside: str) -> Extraction:
    """Return the answer of an answer block: all that it states must agree."""
    boxes_inside = marked(inside)
    if boxes_inside and (found := _last_of(inside, boxes_inside)):
        rest = [inside[: boxes_inside[0].start], inside[boxes_inside[-1].end :]]
        others = [place.value for place in boxes_inside[:-1]] + list(filter(is_value, rest))
        others += [said.value for part in rest for said in stated(part) if is_value(said.value)]
        return beside(found, others)
    whole = bare_answer(LINE_BREAK.sub("\n", inside).strip(" \t\r\n'\""))
    whole = CONTRAST.sub("", whole) if len(whole) <= LONGEST_BARE else whole
    before = whole[: first_digit(whole)]
    if denied_before(before) or (doubted(before) and not EITHER.search(whole)):
        return Extraction(None, "denied")
    if CLAUSE_AFTER.search(whole):
        return Extraction(None, "more than an answer")
    if parts := as_list(whole):
        return checked(parts, "parts")
    if listed := value_lines(whole):
        return checked(listed, "answer tag, several lines")
    if not whole or BOUND.match(whole) or (is_value(whole) and not ASIDE.search(whole)):
        return checked(whole, "answer tag")
    phrases = stated(whole)
    if phrases:
        places = [spoken_at(statement) for statement in phrases]
        if found := _last_of(whole, places):
            return beside(found, [statement.value for statement in phrases[:-1]])
    return checked(only_value(whole) or whole, "answer tag")


def _taken_away(text: str, start: int, end: int) -> bool:
    """Return whether what stands around an answer block denies it, doubts it or computes with
    it."""
    if not text[:start].strip() and not text[end:].strip():
        return False
    before, after = sentence_before(text, start), sentence_after(text, end)
    return (
        not stands_alone(text, start, end)
        or denied_before(before)
        or doubted(before)
        or (denied_after(after) and not NOTE.match(after))
        or changed_beside(text, start, end)
        or UNSURE_AFTER.match(after) is not None
    )


def _with_rivals(found: Extraction, after: str) -> Extraction:
    """Withdraw the block's answer if anything boxed or stated after it contradicts it."""
    if found.text is None:
        return found
    others = [place.value for place in marked(after)] + [said.value for said in stated(after)]
    changed = changed_to(after, 0)
    others += offered_after(after, 0, found.text) + concluded(after, 0)
    others += stated_anew(f".{after}", 0, found.text)
    return beside(found, others if changed is None else [*others, changed])


def _stop_of(text: str, place: Place, end: int) -> int:
    """Return where a value that a phrase states ends."""
    at = text.find(place.value, place.start)
    return at + len(place.value.rstrip(" .,;")) if at >= 0 else end


def _last_line(text: str, end: int) -> list[str]:
    """Return a number that stands alone on the line after an answer."""
    line = text[end:].rpartition("\n")[2].strip(" *$")
    return [line] if is_plain_number(line) else []


def _with_later(text: str, last: Place, end: int, found: Extraction) -> Extraction:
    """Return an answer with what follows it: taken back, overturned, its unit, rivals."""
    if SAYS_MORE.search(text, end):
        if (changed := changed_to(text, end)) is not None:
            same = changed.strip(" .$") == last.value.strip(" .$")
            gone = same and (
                taken_back(text[end : end + NEAR_END]) or overturned(text, end, last.value)
            )
            return checked("" if gone else changed, "taken back", start=found.start)
        rest = offered_after(text, end, last.value) + _last_line(text, end)
        if last.certain and goes_on_with_parts(text, end):
            return Extraction(None, "an intermediate result")
        rest += computed_on(text, end, last.value.strip()) if last.certain else []
        equal = EQUAL_AFTER.match(text, end) if last.certain else None
        found = beside(found, [*rest, equal[1]] if equal else rest)
    modulus = MODULUS.match(text, end)
    if modulus and is_plain_number(last.value) and len(last.value) > len(modulus[1]):
        return Extraction(None, "a residue left to compute")
    stop = end if last.certain else _stop_of(text, last, end)
    if not SAYS_MORE.search(text, stop):
        return found
    if overturned(text, stop, last.value):
        return Extraction(None, "taken back")
    anew = stated_anew(text, stop, last.value)
    found = beside(found, concluded(text, stop, last.value.strip(" $.")) + anew)
    plain = last.certain and is_plain_number(last.value)
    if plain and (abroad := unit_abroad(text, end)):
        return found._replace(text=f"{last.value} {text[end:abroad].strip(' $')}")
    unit = UNIT_BESIDE.match(text, end) if plain else None
    if unit is None or unit[1] not in SPELLINGS:
        return found
    return found._replace(text=f"{last.value} {unit[1]}")


def _last_of(text: str, places: list[Place]) -> Extraction | None:
    """Return the last statement, with those before it that it does not replace but stands
    beside."""
    if not places:
        return None
    places = places[-MOST_PLACES:]
    last = places[-1]
    rivals: list[str] = []
    said_twice = len(places) == 2 and places[0].value.strip() == last.value.strip()
    for before, after in [] if said_twice else reversed(list(pairwise(places))):
        between = text[before.end : after.start]
        if stands_beside(between, certain=(before.certain, after.certain)):
            rivals.insert(0, before.value)
        elif before.certain:
            break
    if last.final:
        rivals = []
    if not last.certain and cut_off(text):
        return Extraction(None, "cut off")
    lead = text[max(0, last.start - NEAR_END) : last.start]
    if any(map(lead.__contains__, FORETELLS)) and FORETOLD.found(lead):
        return Extraction(None, "denied")
    if last.offered or announced(lead):
        return Extraction(None, "only offered")
    end = last.end
    if not last.certain:
        sentence_end = SENTENCE_END.search(text, last.start + 1)
        end = sentence_end.end() if sentence_end else len(text)
        end = max(end, _stop_of(text, last, end))
    start = -1 if last.certain else text.find(last.value, last.start)
    reason = "box or mark" if last.certain else "phrase"
    found = _with_later(text, last, end, checked(last.value, reason, tuple(rivals), start=start))
    if found.text is None or len(places) < 2:
        return found
    parts = [place.value for place in places if place.certain] or [
        place.value.rstrip(" .")
        for place in places
        if PART_BEFORE.search(text, max(0, place.start - 20), place.start + 30)
    ]
    return found._replace(parts=tuple(parts) if len(parts) > 1 else ())
