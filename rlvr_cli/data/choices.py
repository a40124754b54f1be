"""Read multiple-choice questions: the options of a question, and which of them is right.

Options are a list, an object by letter, texts with labels, one text to be split, or columns of
their own. The right one is named by its letter, its label, its text or its number. Numbers may
count from 0 or from 1, which only all rows together can tell.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

from rlvr_cli.core.text import shortened
from rlvr_cli.data.golds import listed, no_answer, plain_number
from rlvr_cli.data.paths import BadRowError, key_of, normal_key, parsed_json, value_at

LETTERS = "ABCDEFGHIJ"
"""The letters that the verifier reads as choices."""
READINGS = ("label", "letter", "text", "number from 0", "number from 1")
"""The ways in which a gold answer names an option, in the order in which they are preferred."""
QUESTIONS = ("question_stem", "question.stem", "ctx", "goal", "sentence")
"""Paths of a question that has options, in addition to those of any problem."""
KEYS = ("answerkey", "answer_key")
"""Fields that name the right option, before those of any gold answer."""
OTHER_KEYS = (
    "correct",
    "correct_option",
    "correct_answer",
    "label",
    "answer_index",
    "answer_idx",
    "answer_label",
    "answer_letter",
    "cop",
)
"""Fields that name the right option, after those of any gold answer."""
_LISTS = ("choices", "options", "endings", "question.choices", "answer_choices")
_MAY_BE_OPTIONS = re.compile(r"answer|choice|option|candidate", re.IGNORECASE)
"""Names of fields that may hold options."""
_TEXTS = ("text", "content", "value")
_LABELS = ("label", "key", "letter", "id")
_COLUMN = re.compile(
    r"(?P<family>|(?:option|choice|ending|op|sol)_?|answer_?(?=[a-j]))(?P<mark>[a-j]|\d)"
)
"""A column for each option. Without a family, at least three letters may be options."""
_WRONG = re.compile(r"(?:incorrect|wrong)_answers?(?:_?\d+)?|distractors?(?:_?\d+)?")
_RIGHT = ("correct_answer", "answer")
_LABELED = re.compile(r"\s*\(?\s*([A-Za-z])\s?[).:：]\s*(.*)", re.DOTALL)
_LETTER = re.compile(r"\s*\(?\s*([A-Ja-j])\s*[).:]?\s*")
_LETTER_WITH_TEXT = re.compile(r"\s*\(?([A-J])[).:]\s*(\S.*)", re.DOTALL)
_NUMBER = re.compile(r"\d{1,2}")
_FEWEST_LETTERS = 3
_SHOWN = 60
"""Characters of an answer or an option in a message."""


@dataclass(frozen=True)
class Options:
    """The options of a question, in the order of their letters."""

    path: str
    texts: tuple[str, ...]
    labels: tuple[str, ...] = ()
    """What the row itself calls them, if it does."""
    right: int | None = None
    """The index of the right one, if the names of the fields tell it."""
    are_numbers: bool = False
    """Whether they are numbers, one of which a number may name by its value."""

    def under(self, question: str) -> str:
        """Return the question with its options under it, unless it has them in its text."""
        pairs = tuple(zip(LETTERS, self.texts, strict=False))
        are_letters = all(letter == text for letter, text in pairs)
        marked = [
            rf"\b{letter}[).:]\s*{'' if are_letters else re.escape(text)}" for letter, text in pairs
        ]
        if all(re.search(pattern, question) for pattern in marked):
            return question
        if are_letters:
            raise BadRowError(
                f"field {self.path} has only the letters of the options, and the question has not "
                "their texts: write them under it"
            )
        lines = [f"{letter}. {text}" for letter, text in pairs]
        return "\n".join([question.rstrip(), *lines])

    def readings(self, gold: object, path: str) -> dict[str, int]:
        """Return the index of the option that a gold answer names, by each way of reading it.

        Raises BadRowError if it names none, or several.
        """
        if self.right is not None:
            return {"text": self.right}
        if isinstance(gold, list | tuple) and len(gold) == 1:
            (gold,) = gold
        is_number = isinstance(gold, int | float) and not isinstance(gold, bool)
        text = plain_number(float(gold)) if is_number else str(gold).strip()  # type: ignore[arg-type]
        indices = {
            "label": _index(self.labels, text.strip("(). ").upper()),
            "letter": self._by_letter(text),
            "text": None if is_number and not self.are_numbers else _index(self.texts, text),
        }
        if _NUMBER.fullmatch(text):
            indices["number from 0"] = int(text)
            indices["number from 1"] = int(text) - 1
        count = len(self.texts)
        readings = {
            reading: index
            for reading, index in indices.items()
            if index is not None and 0 <= index < count
        }
        if "label" in readings:
            readings = {"label": readings["label"]}
        if not readings:
            raise BadRowError(
                f"field {path} is {_excerpt(text)}, which names none of the {count} options in "
                f"{self.path} ({_excerpt(self.texts[0])}, …): give its letter, its text or its "
                "number"
            )
        return readings

    def _by_letter(self, text: str) -> int | None:
        """Return the index of an option by its letter, which its text may follow."""
        alone = _LETTER.fullmatch(text)
        if alone:
            return LETTERS.index(alone[1].upper())
        labeled = _LETTER_WITH_TEXT.fullmatch(text)
        if labeled is None:
            return None
        index = LETTERS.index(labeled[1])
        is_that = index < len(self.texts) and self.texts[index] == labeled[2].strip()
        return index if is_that else None


def _index(texts: Sequence[str], text: str) -> int | None:
    """Return the index of a text if it occurs once."""
    return texts.index(text) if texts.count(text) == 1 else None


def _excerpt(text: str) -> str:
    return repr(shortened(text[:_SHOWN]))


def options_of(row: Mapping[str, object], question: str) -> Options | None:
    """Return the options of a question, or None for a question without options.

    Raises BadRowError for options that cannot be read: without them the question is another.
    """
    sources = _sources(tuple(row))
    if not sources.lists and not sources.families and not sources.wrong:
        return None
    for path in sources.lists:
        options = _listed_options(value_at(row, path), path)
        if options is not None:
            return options
    for keys in sources.families:
        values = [row[key] for key in keys]
        while values and values[-1] is None:
            values.pop()
        if len(keys[0]) == 1 and not _are_options(row, keys):
            continue
        if len(values) > 1 and all(isinstance(value, str | int | float) for value in values):
            return _checked(Options(f"{keys[0]} to {keys[-1]}", tuple(map(_text, values))))
    return _named_options(row, sources.wrong, question)


def _are_options(row: Mapping[str, object], keys: Sequence[str]) -> bool:
    """Return whether columns that are called a, b and c are options, and no numbers of a problem:
    they are texts in capital letters, or another field names one of them."""
    if all(key.isupper() and isinstance(row[key], str) for key in keys):
        return True
    others = [value for key, value in row.items() if key not in keys and isinstance(value, str)]
    named = [match[1] for match in map(_LETTER.fullmatch, others) if match]
    return any(key_of(dict.fromkeys(keys), letter) is not None for letter in named)


@dataclass(frozen=True)
class _Sources:
    """Where rows with the same keys may have options."""

    lists: tuple[str, ...]
    families: tuple[tuple[str, ...], ...]
    """Columns of one option each."""
    wrong: tuple[str, ...]
    """Columns of wrong answers."""


@lru_cache(256)  # the rows of a file have the same few keys
def _sources(keys: tuple[str, ...]) -> _Sources:
    row = dict.fromkeys(keys)
    normal = {key: normal_key(str(key)) for key in keys}
    lists = [path for path in _LISTS if key_of(row, path.partition(".")[0]) is not None]
    families: dict[str, dict[str, str]] = {}
    for key, name in normal.items():
        column = _COLUMN.fullmatch(name)
        if column:
            families.setdefault(column["family"], {})[column["mark"]] = key
    runs = []
    for family, columns in families.items():
        first = next((mark for mark in "a01" if mark in columns), "a")
        marks = [chr(ord(first) + step) for step in range(len(columns))]
        has_letters = first == "a" and len(columns) >= _FEWEST_LETTERS
        if len(columns) > 1 and all(mark in columns for mark in marks) and (family or has_letters):
            runs.append(tuple(columns[mark] for mark in marks))
    wrong = tuple(key for key, name in normal.items() if _WRONG.fullmatch(name))
    return _Sources(tuple(lists), tuple(runs), wrong)


def _listed_options(value: object, path: str) -> Options | None:
    """Return the options that one field holds, if it holds any."""
    if isinstance(value, str):
        if no_answer(value):
            return None
        value = parsed_json(value) or listed(value)
    if isinstance(value, str):
        texts = _split(value)
        if len(texts) < 2:
            raise BadRowError(_unread(path))
        return _checked(Options(path, texts))
    if isinstance(value, Mapping):
        return _options_of_object(value, path)
    if not isinstance(value, list | tuple) or len(value) < 2:
        return None
    if all(isinstance(part, Mapping) for part in value):
        return _options_of_objects(value, path)
    if not all(isinstance(part, str | int | float) for part in value):
        raise BadRowError(_unread(path))
    are_numbers = not any(isinstance(part, str) for part in value)
    texts = _without_labels(tuple(map(_text, value)))
    return _checked(Options(path, texts, are_numbers=are_numbers))


def _options_of_object(value: Mapping[str, object], path: str) -> Options | None:
    """Return the options of `{text: […], label: […]}`, of `{A: …, B: …}`, or of texts by other
    keys in their order. Return None for any other object."""
    texts = value_at(value, "text")
    labels = value_at(value, "label")
    if isinstance(texts, list) and isinstance(labels, list) and len(texts) == len(labels):
        return _checked(Options(path, tuple(map(_text, texts)), tuple(map(_label, labels))))
    parts = {key: part for key, part in value.items() if part is not None}
    names = [_label(key) for key in parts]
    is_lettered = sorted(names) in (list(LETTERS[: len(names)]), _numbers(len(names)))
    are_texts = all(isinstance(part, str) for part in parts.values())
    if len(names) < 2 or not (is_lettered or are_texts):
        return None
    by_name = {_label(key): _text(part) for key, part in parts.items()}
    ordered = tuple(sorted(names) if is_lettered else names)
    return _checked(Options(path, tuple(by_name[name] for name in ordered), ordered))


def _numbers(count: int) -> list[str]:
    return [str(number) for number in range(1, count + 1)]


def _options_of_objects(values: Iterable[Mapping[str, object]], path: str) -> Options | None:
    """Return the options of `[{label: A, text: …}, …]`. Return None for the choices of a server's
    reply."""
    texts = []
    labels = []
    for value in values:
        if "message" in value:
            return None
        text = next((value[name] for name in _TEXTS if name in value), None)
        label = next((value[name] for name in _LABELS if name in value), None)
        if not isinstance(text, str | int | float):
            raise BadRowError(_unread(path))
        texts.append(_text(text))
        labels.append(_label(label))
    has_labels = len(set(labels)) == len(labels)
    return _checked(Options(path, tuple(texts), tuple(labels) if has_labels else ()))


def _named_options(
    row: Mapping[str, object], wrong_keys: Sequence[str], question: str
) -> Options | None:
    """Return the options of a row that has the right answer and wrong ones by name. Their order is
    that of a hash with the question, the same in every run. Return None without both."""
    right_key = next((key for key in (key_of(row, name) for name in _RIGHT) if key), None)
    right = None if right_key is None else row[right_key]
    wrong: list[str] = []
    for key in wrong_keys:
        value = row[key]
        parts = value if isinstance(value, list | tuple) else [value]
        wrong += [_text(part) for part in parts if isinstance(part, str | int | float)]
    if not wrong or not isinstance(right, str | int | float) or right_key is None:
        return None
    texts = [_text(right), *wrong]

    def place(index: int) -> str:
        return hashlib.sha256(f"{question.strip()}\n{texts[index]}".encode()).hexdigest()

    order = sorted(range(len(texts)), key=place)
    path = f"{right_key} and {wrong_keys[0]}"
    options = Options(path, tuple(texts[index] for index in order), right=order.index(0))
    return _checked(options)


def _checked(options: Options) -> Options:
    """Return the options. Raises BadRowError if they have no letters, or are equal."""
    if len(options.texts) > len(LETTERS):
        raise BadRowError(
            f"field {options.path} has {len(options.texts)} options, and letters go to J: keep "
            f"{len(LETTERS)}"
        )
    if not all(options.texts):
        raise BadRowError(_unread(options.path))
    return options


def _unread(path: str) -> str:
    return (
        f"field {path} stands beside the question and cannot be read as its options: write them as "
        "a list of texts, or leave the field out if it is something else"
    )


def _text(value: object) -> str:
    text = plain_number(value) if isinstance(value, float) else str(value)
    return text.strip()


def _label(value: object) -> str:
    return str(value).strip().strip("().").upper()


def _without_labels(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the texts without the letters before them, if they are lettered in order."""
    matches = [_LABELED.fullmatch(text) for text in texts]
    letters = "".join(match[1].upper() for match in matches if match)
    if letters != LETTERS[: len(texts)]:
        return texts
    return tuple(match[2].strip() for match in matches if match)


def _split(text: str) -> tuple[str, ...]:
    """Split a text such as `a ) 38 , b ) 27` at its letters in order. Return none without any."""
    starts = []
    ends = []
    position = 0
    for letter in LETTERS:
        mark = re.compile(rf"(?:^|(?<=[\s,;\[]))['\"]?\(?{letter}\s?[).:]\s*", re.IGNORECASE)
        match = mark.search(text, position)
        if match is None:
            break
        starts.append(match.end())
        ends.append(match.start())
        position = match.end()
    if not starts:
        return ()
    return tuple(
        text[start:end].strip().strip(",;[]'\"").strip()
        for start, end in zip(starts, [*ends[1:], len(text)], strict=True)
    )


def lacks_options(row: Mapping[str, object], question: str, gold: str, path: str) -> bool:
    """Return whether a gold answer names an option that the question lacks.

    It is a letter, or the number of a `label`, of a question whose field of options is empty, or
    whose list was not read as options.
    """
    is_letter = len(gold) == 1 and gold in LETTERS
    if is_letter and re.search(rf"\b{gold}[).:]", question) is None:
        return _has_empty_options(row) or _has_unread_options(row)
    return path == "label" and _NUMBER.fullmatch(gold) is not None and _has_unread_options(row)


def _has_empty_options(row: Mapping[str, object]) -> bool:
    lists = _sources(tuple(row)).lists
    return any(row[key] in ([], {}, "", None) for key in map(partial(key_of, row), lists) if key)


def _has_unread_options(row: Mapping[str, object]) -> bool:
    """Return whether a row, or an object in it, has a list of texts with the name of options."""
    fields = [*row.items()]
    for value in row.values():
        if isinstance(value, Mapping):
            fields += value.items()
    return any(
        isinstance(value, list | tuple)
        and len(value) > 1
        and _MAY_BE_OPTIONS.search(str(key)) is not None
        and all(isinstance(part, str | int | float) for part in value)
        and not all(_LETTER.fullmatch(str(part)) for part in value)
        for key, value in fields
    )


def reading_of(readings: Iterable[str]) -> str:
    """Return the preferred one of the ways in which all rows can be read."""
    return min(readings, key=READINGS.index)
