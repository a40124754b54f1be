"""Read problem, gold answer, id and response from a row, whatever names its fields have."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from rlvr_cli.core.errors import UserError
from rlvr_cli.core.text import format_value, shortened
from rlvr_cli.core.types import FieldName, Problem, Turn
from rlvr_cli.data import choices, signs
from rlvr_cli.data.chats import (
    checked_text,
    is_chat,
    lone_turn,
    read_chat,
    stored_chat,
)
from rlvr_cli.data.golds import (
    HASHES,
    PROOF,
    GoldPlace,
    GoldRule,
    gold_and_place,
    listed,
    no_answer,
    plain_number,
    refuse_object,
)
from rlvr_cli.data.hints import Hints, MissingFieldError
from rlvr_cli.data.paths import BadRowError, first_step, parsed_json, value_at, without
from verifiers.names import ANSWERS, DERIVATIONS, OTHER_RESPONSES, RESPONSES

PROBLEMS = (
    "problem",
    "body+question",
    "context+question",
    "passage+question",
    "article+question",
    "question",
    "prompt",
    "instruction+input",
    "instruction",
    "input",
    "messages",
    "context_messages",
    "responses_create_params.input",
    "context+query",
    "query",
)
"""The paths at which a problem is looked for, in this order."""
CERTAIN = ("reward_model.ground_truth", "verification_info.ground_truth")
"""The paths of a gold answer that a program for training wrote, which go before all names."""
NAMED = tuple(path for path in ANSWERS if path not in (*CERTAIN, *DERIVATIONS))
"""The names of a gold answer. Two of them in a row must be equal."""
LAST = ("label",)
"""A name of a gold answer if the row has no other."""
_IDS = ("id", "problem_id", "question_id")
_LISTS_OF_RESPONSES = (
    "model_outputs[*].model_output",
    "model_outputs",
    "choices[*].message",
    "outputs[*].text",
    "outputs",
)
"""The paths of a list of responses, for a row without a field that is named as a response."""
_DERIVED = (*DERIVATIONS, "messages")
"""Fields that may hold a derivation, of which only the answer that it states counts."""
_MOST_CONTRADICTED = 0.1
"""Share of rows whose derivation may state another answer: solutions have slips of their own."""


@dataclass(frozen=True)
class Gold:
    """The gold answer of a row and its path. A row without one has None for each."""

    answer: str | None = None
    path: str | None = None


@dataclass(frozen=True)
class Draft:
    """A problem as its row alone gives it, and what only all rows together can settle."""

    problem: Problem
    options: choices.Options | None
    readings: Mapping[str, int]
    """The index of the right option by each way of reading the gold answer, empty without
    options."""
    reply: str | None = None
    """The assistant's turn at the end, if it is neither the gold answer nor the response."""


@dataclass(frozen=True)
class _Contradiction:
    """Two answers of one row."""

    place: str
    path: str
    answer: str
    other_path: str
    stated: str

    def __str__(self) -> str:
        return (
            f"{self.path} is {shortened(self.answer)} and {self.other_path} says "
            f"{shortened(self.stated)}"
        )

    @property
    def advice(self) -> str:
        """Say how to choose."""
        return f"name the gold answer, --field answer={self.path} or answer={self.other_path}"


class _Field:
    """The paths at which a field is looked for, and how often it was read from which of them."""

    def __init__(
        self,
        name: FieldName,
        names: Sequence[str],
        set_paths: Mapping[str, Sequence[str]],
        user_paths: Mapping[FieldName, str],
    ) -> None:
        self.name = name
        self.set_paths = set_paths.get(name, ())
        self.user_path = user_paths.get(name)
        self.paths = (*self.set_paths, *names)
        if self.user_path is not None:
            self.paths = (self.user_path,)
        self.sources: Counter[str] = Counter()


class FieldReader:
    """Reads rows as problems, and counts which fields they were read from.

    `set_paths` are the paths of a problem set or of another program, tried before other names, and
    `gold` is the rule for the set's answers. `user_paths` are tried alone. After a gold answer that
    came after `####`, the rule for its field is `long` in the following rows. With `is_verified`
    the verifier judges by the gold answers, so they must be values. With `has_shape` the rows are
    another program's, whose options are part of the prompt already.
    """

    def __init__(
        self,
        set_paths: Mapping[str, Sequence[str]] | None = None,
        user_paths: Mapping[FieldName, str] | None = None,
        gold: GoldPlace | None = None,
        is_verified: bool = True,
        has_shape: bool = False,
    ) -> None:
        set_paths = set_paths or {}
        user_paths = user_paths or {}
        answers = (*CERTAIN, *NAMED, *DERIVATIONS, *LAST)
        self._problem = _Field("problem", PROBLEMS, set_paths, user_paths)
        self._answer = _Field("answer", answers, set_paths, user_paths)
        self._id = _Field("id", _IDS, set_paths, user_paths)
        self._response = _Field("response", RESPONSES, set_paths, user_paths)
        self._fields = (self._problem, self._answer, self._id, self._response)
        if self._answer.user_path is None:  # a response is not its own gold answer
            self._answer.paths = tuple(
                path for path in self._answer.paths if path != self._response.user_path
            )
        self._default_rule: GoldRule = "value" if is_verified else "text"
        self._rules: dict[str, GoldRule] = dict.fromkeys(_DERIVED, "long")
        if gold is not None:
            self._rules.update(dict.fromkeys(self._answer.set_paths, gold))
        if self._answer.user_path is not None:
            self._rules[self._answer.user_path] = self._default_rule
        self._has_shape = has_shape
        self._readings: set[str] | None = None
        """The ways in which the gold answers of all rows so far name options."""
        self._compared: Counter[tuple[str, str]] = Counter()
        """How many rows have an answer at a path and a derivation at another."""
        self._contradictions: dict[tuple[str, str], list[_Contradiction]] = {}
        self._hints = Hints({path for field in self._fields for path in field.paths})
        self.other_golds: Counter[str] = Counter()
        """How many rows have another gold answer at another path, by both paths."""
        self.has_chats = False
        """Whether a problem was a chat, which is a whole prompt already."""

    def problem(
        self, row: object, default_id: str, need_answer: bool = True, need_response: bool = False
    ) -> Problem:
        """Read a row as a problem, as if it were the only one. Raises BadRowError."""
        (problem,) = self.problems_of([self.draft(row, default_id, need_answer, need_response)])
        return problem

    def draft(
        self,
        row: object,
        default_id: str,
        need_answer: bool = True,
        need_response: bool = False,
        place: str = "",
    ) -> Draft:
        """Read a row as a problem. Raises BadRowError.

        With `need_response` a response is read as well, from its field or the chat's last assistant
        turn, into `extra`. `problems_of` decides what only all rows together can tell.
        """
        row = _checked_row(row)
        path, value = self._problem_value(row)
        if value is None:
            raise self._missing(row, self._problem)
        turns: tuple[Turn, ...] = ()
        text = value
        reply = None
        source = path
        if is_chat(value):
            turns, text, reply = read_chat(value, path)
            source = f"{path}'s last user turn"
        text = checked_text(text, path)
        signs.refuse_other_task(row, text, path)
        scored = signs.scored_task(row, text)
        options = None if scored else choices.options_of(row, text)
        readings: Mapping[str, int] = {}
        if scored is not None:
            gold = Gold(scored.answer, scored.path)
            self._answer.sources[f"{scored.path}, scored as {scored.name}"] += 1
        elif options is None:
            gold = self._gold(row, need_answer, reply=reply, chat_path=path, place=place)
        else:
            text = options.under(text)
            gold, readings = self._choice(row, options, need_answer)
        is_choice = options is None and scored is None and gold.answer is not None
        if is_choice and choices.lacks_options(row, text, gold.answer or "", gold.path or ""):
            raise BadRowError(
                f"the gold answer is {gold.answer}, and the row has no options that can be read: "
                "write them as a list of texts in a field called options"
            )
        id_path, problem_id = self._problem_id(row)
        self._problem.sources[source] += 1
        is_whole_prompt = source != path
        self.has_chats |= is_whole_prompt
        extra = without(row, *path.split("+"), gold.path or path, id_path)
        if scored is not None:
            extra.update(scored.fields)
        if need_response:
            response_path, response = _find(row, self._response)
            response = lone_turn(response, response_path)
            if response is None:
                response = reply
            if response is None:
                raise BadRowError("no field response, which --algo sft learns")
            extra = without(extra, response_path)
            extra["response"] = checked_text(response, "response")
        is_left_out = not need_response and gold.path != path
        problem = Problem(
            id=problem_id or default_id,
            problem=text,
            answer=gold.answer,
            extra=extra,
            turns=turns,
            is_chat=is_whole_prompt,
            place=place,
        )
        return Draft(problem, options, readings, reply if is_left_out else None)

    def problems_of(self, drafts: Sequence[Draft]) -> list[Problem]:
        """Return the problems of all rows, with what only all of them together can tell.

        The gold answers of options become letters, and an assistant's unfinished turn that half of
        the rows end with is the opening of the response. Raises UserError if derivations contradict
        the gold answers.
        """
        for paths, contradictions in self._contradictions.items():
            compared = self._compared[paths]
            first = contradictions[0]
            if len(contradictions) > _MOST_CONTRADICTED * compared:
                raise UserError(
                    f"{first.place}: {first}, and so in {len(contradictions)} of {compared} rows "
                    f"with both: {first.advice}"
                )
        openings = signs.openings([(draft.problem, draft.reply) for draft in drafts])
        problems = []
        for draft, opening in zip(drafts, openings, strict=True):
            problem = draft.problem
            if draft.readings:
                index = draft.readings[choices.reading_of(self._readings or draft.readings)]
                problem = replace(problem, answer=choices.LETTERS[index])
            problems.append(replace(problem, opening=opening) if opening else problem)
        return problems

    def judged(self, row: object, need_answer: bool) -> tuple[Problem, tuple[str, ...]]:
        """Read a row of responses: its problem, whose id or text may be missing and is empty then,
        and the responses. Raises BadRowError."""
        row = _checked_row(row)
        path, value = self._problem_value(row)
        response_path, responses = self._responses(row)
        text = read_chat(value, path)[1] if is_chat(value) else value
        if isinstance(text, str) and text.strip():
            text = checked_text(text, path)
        elif self._problem.user_path is not None:
            raise self._missing(row, self._problem)
        else:
            text = ""
        self._response.sources[response_path] += 1
        options = choices.options_of(row, text) if text and not self._has_shape else None
        if options is None:
            gold = self._gold(row, need_answer, response_path=response_path)
        else:
            text = options.under(text)
            gold = self._judged_choice(row, options, need_answer, response_path)
        extra = without(row, first_step(response_path), *path.split("+"))
        if text:
            self._problem.sources[path] += 1
        return Problem(self._problem_id(row)[1], text, gold.answer, extra), responses

    def describe_sources(self) -> str:
        """Describe the fields that were read: `problem from question, answer from …`."""
        parts = []
        for field in self._fields:
            names = list(field.sources)
            if len(names) > 1:
                names = [f"{name} ({count})" for name, count in field.sources.most_common()]
            if names:
                parts.append(f"{field.name} from {', '.join(names)}")
        return ", ".join(parts)

    def _problem_value(self, row: Mapping[str, object]) -> tuple[str, object]:
        """Return the path of a row's problem and its value, a text or a chat, if it has one."""
        path, value = _find(row, self._problem)
        if value is None and self._problem.user_path is None:
            for question_path in choices.QUESTIONS:
                value = value_at(row, question_path)
                if value is not None:
                    return question_path, value
        return path, stored_chat(value)

    def _problem_id(self, row: Mapping[str, object]) -> tuple[str, str]:
        """Return the path of the id and the id, or an empty one."""
        path, value = _find(row, self._id)
        if value is None or isinstance(value, dict | list) or not str(value).strip():
            if self._id.user_path is not None:
                raise self._missing(row, self._id)
            return path, ""
        return path, plain_number(value) if isinstance(value, float) else str(value)

    def _responses(self, row: Mapping[str, object]) -> tuple[str, tuple[str, ...]]:
        """Return the path of a row's responses and the responses: a text, a list of texts, or such
        a list as JSON in a text. Raises BadRowError unless there is exactly one path."""
        paths = [path for path in self._response.paths if value_at(row, path) is not None]
        if not paths and self._response.user_path is None:
            others = (*OTHER_RESPONSES, *_LISTS_OF_RESPONSES)
            paths = [path for path in others if value_at(row, path) is not None][:1]
        if not paths:
            raise self._missing(row, self._response)
        path = paths[0]
        value = value_at(row, path)
        if len(paths) > 1 and path not in self._response.set_paths:
            raise BadRowError(
                f"it has {path} and {paths[1]}: say which to judge, --field response={path}"
            )
        value = lone_turn(value, path)
        if isinstance(value, str) and path.endswith("s"):
            parsed = parsed_json(value)
            if parsed is None and value.startswith(("['", '["')):
                raise BadRowError(f"field {path} is a list as Python prints it; write it as JSON")
            value = parsed if isinstance(parsed, list) else value
        if not isinstance(value, list):
            value = [value]
        elif not value:
            raise BadRowError(f"field {path} is an empty list")
        parts = [lone_turn(part, path) for part in value]
        texts: list[str] = []
        for number, text in enumerate(parts, 1):
            if not isinstance(text, str):
                wrong = f"field {path} is neither a text nor a list of texts"
                if len(parts) > 1:
                    kind = "null" if text is None else format_value(text)
                    wrong += f" (number {number} of {len(parts)} is {kind})"
                raise BadRowError(wrong)
            texts.append(text)
        return path, tuple(texts)

    def _choice(
        self, row: Mapping[str, object], options: choices.Options, need_answer: bool
    ) -> tuple[Gold, Mapping[str, int]]:
        """Return the letter of the right option and its path, and its index by each way of reading
        it.

        The letter is by the ways in which all rows so far can be read. Raises BadRowError if a
        needed letter is missing, if a row names two options, or if no way fits all rows.
        """
        named = self._named_option(row, options, "")
        if named is None:
            if need_answer:
                raise self._missing(row, self._answer)
            return Gold(), {}
        path, readings = named
        common = readings.keys() & (self._readings or readings.keys())
        if not common:
            raise BadRowError(
                f"field {path} names an option by its {choices.reading_of(readings)}, and the rows "
                f"before it by its {choices.reading_of(self._readings or ())}"
            )
        self._readings = set(common)
        self._answer.sources[f"{path} of {options.path}"] += 1
        return Gold(choices.LETTERS[readings[choices.reading_of(common)]], path), readings

    def _judged_choice(
        self,
        row: Mapping[str, object],
        options: choices.Options,
        need_answer: bool,
        response_path: str,
    ) -> Gold:
        """Return the letter of the right option of a row of responses, which are judged row by row.

        Raises BadRowError as `_choice` does, and if rows before it were read in another way.
        """
        if self._named_option(row, options, response_path) is None:
            return self._gold(row, need_answer, response_path=response_path)
        before = self._readings
        gold, readings = self._choice(row, options, need_answer)
        now = choices.reading_of(self._readings or readings)
        if before is not None and choices.reading_of(before) != now:
            raise BadRowError(
                f"field {gold.path} names an option by its {now}, and the rows before it were read "
                f"by their {choices.reading_of(before)}: write its letter into each row"
            )
        return gold

    def _named_option(
        self, row: Mapping[str, object], options: choices.Options, response_path: str
    ) -> tuple[str, Mapping[str, int]] | None:
        """Return the first path at which a row names the right option, and the readings of it.
        Return None if none does."""
        paths = [path for path in self._answer.paths if path != response_path]
        if self._answer.user_path is None:
            paths = [*self._answer.set_paths, *choices.KEYS, *paths, *choices.OTHER_KEYS]
        first: tuple[str, Mapping[str, int]] | None = None
        for path in paths:
            value = value_at(row, path)
            if value is None or no_answer(value):
                continue
            try:
                readings = self._readings_at(options, value, path)
            except BadRowError:
                if first is None and path not in _DERIVED:
                    raise
                continue
            if first is None:
                first = path, readings
            elif not set(first[1].values()) & set(readings.values()):
                raise BadRowError(
                    f"{first[0]} and {path} name different options: name the gold answer, --field "
                    f"answer={first[0]}"
                )
        return first

    def _readings_at(self, options: choices.Options, value: object, path: str) -> Mapping[str, int]:
        """Return the readings of a gold answer that is an option, or the text of a derivation."""
        refuse_object(value, path)
        if path not in _DERIVED:
            with suppress(BadRowError):
                return options.readings(value, path)
        text, _ = gold_and_place(value, self._rules.get(path, "value"), path)
        return options.readings(text, path)

    def _gold(
        self,
        row: Mapping[str, object],
        need_answer: bool,
        reply: str | None = None,
        chat_path: str = "",
        response_path: str = "",
        place: str = "",
    ) -> Gold:
        """Return the first gold answer that a field has, the one in `reply`, the last assistant
        turn of the chat at `chat_path`, after those of derivations.

        The value at `response_path` is never taken for one. Raises BadRowError if a needed gold
        answer is missing or cannot be read, or if two names have different ones.
        """
        reason = ""
        candidates = self._candidates(row, reply, chat_path, response_path)
        for path, value in candidates:
            rule = self._rule(path, chat_path)
            missing = no_answer(value, rule)
            if missing is not None:
                reason = reason or f"field {path} is {missing}"
                if missing == PROOF:  # a box in a proof is not an answer
                    break
                continue
            if isinstance(value, str) and _says_list(row):
                value = listed(value, is_list=True)
            try:
                answer, found_at = gold_and_place(value, rule, path)
            except BadRowError as error:
                if rule != "long" and need_answer:
                    raise
                reason = reason or str(error)
                if rule != "long":
                    break
                continue
            if HASHES in found_at:
                self._rules.setdefault(path, "long")
            self._answer.sources[f"{path}{found_at}"] += 1
            is_guessed = self._answer.user_path is None and path not in self._answer.set_paths
            if is_guessed and self._response.sources:
                self._note_other_golds(row, path, answer, response_path)
            elif is_guessed and need_answer:
                self._compare(answer, path, candidates, chat_path, place)
            return Gold(answer, path)
        if not need_answer:
            return Gold()
        if reason:
            raise BadRowError(reason)
        raise self._missing(row, self._answer)

    def _candidates(
        self, row: Mapping[str, object], reply: str | None, chat_path: str, response_path: str
    ) -> Iterator[tuple[str, object]]:
        """Yield the paths at which a gold answer may be, and the values, the best first."""
        paths = [path for path in self._answer.paths if path not in (response_path, *LAST)]
        for path in paths:
            value = value_at(row, path)
            if value is not None:
                yield path, value
        if self._answer.user_path is not None:
            return
        if reply is not None:
            yield chat_path, reply
        for path in LAST:
            value = value_at(row, path)
            if value is not None and path != response_path:
                yield path, value

    def _rule(self, path: str, chat_path: str) -> GoldRule:
        """Return the rule for the gold answer at a path."""
        return "long" if path == chat_path else self._rules.get(path, self._default_rule)

    def _compare(
        self,
        answer: str,
        path: str,
        remaining: Iterator[tuple[str, object]],
        chat_path: str,
        place: str,
    ) -> None:
        """Compare a gold answer with those at other paths, which come after it.

        Raises BadRowError if another name of the same rank has another one. Contradictions of
        derivations are counted.
        """
        rank = _rank(path)
        for other_path, value in remaining:
            is_derived = other_path in _DERIVED or other_path == chat_path
            if other_path in LAST or not (is_derived or _rank(other_path) == rank):
                continue
            stated = _stated(value, self._rule(other_path, chat_path), other_path)
            if stated is None or (is_derived and _is_letter(stated) != _is_letter(answer)):
                continue  # the letter of a choice and its value are not compared
            contradiction = _Contradiction(place, path, answer, other_path, stated)
            is_equal = stated == answer or _are_equal(answer, stated)
            if is_derived:
                self._compared[path, other_path] += 1
            if is_derived and not is_equal:
                self._contradictions.setdefault((path, other_path), []).append(contradiction)
            elif not is_equal:
                raise BadRowError(f"{contradiction}: {contradiction.advice}")

    def _note_other_golds(
        self, row: Mapping[str, object], path: str, answer: str, response_path: str
    ) -> None:
        """Count the row if another name of a gold answer has another one."""
        for other_path in ANSWERS:
            if other_path in (path, response_path) or other_path not in row:
                continue
            rule = self._rules.get(other_path, self._default_rule)
            with suppress(BadRowError):
                other, _ = gold_and_place(row[other_path], rule, other_path)
                if other != answer:
                    self.other_golds[f"{path} and {other_path}"] += 1

    def _missing(self, row: Mapping[str, object], field: _Field) -> MissingFieldError:
        """Return the error of a missing field. It names the fields that there are, and at the end
        of the file which --field might do."""
        listing = self._hints.listing(row)
        if field.user_path is not None:
            text = f"no {field.user_path}, which --field {field.name} names; {listing}"
            return MissingFieldError(text)
        for path in field.paths:
            if path in row and row[path] is None:
                return MissingFieldError(f"field {path} is null")
        text = f"no field {field.name}; {listing}"
        counts = field.sources.most_common(1)
        if counts:
            text += f" (rows before it: {field.name} from {counts[0][0]})"
        has_responses = bool(self._response.sources)
        self._hints.add(field.name, row)

        def advice() -> str:
            name = self._hints.name_of(field.name, has_responses)
            line = f": name the one that holds it, --field {field.name}={name}"
            if field is self._answer and has_responses:
                line += ", or the problem set that has it: rlvr eval SET --responses FILE"
            return line

        return MissingFieldError(text, advice)


def _says_list(row: Mapping[str, object]) -> bool:
    """Return whether a row says that its answer is a list, as TheoremQA does."""
    kind = value_at(row, "answer_type")
    return isinstance(kind, str) and kind.strip().lower().startswith("list")


def _rank(path: str) -> str:
    """Return the rank of a path of a gold answer: two of one rank must have equal ones."""
    if path in CERTAIN:
        return "certain"
    return "derived" if path in _DERIVED else "named"


def _stated(value: object, rule: GoldRule, path: str) -> str | None:
    """Return the gold answer in a value. Return None for a value without an answer, and for a
    derivation that is a line without a number, which may be a remark."""
    if no_answer(value, rule) is not None:
        return None
    try:
        answer, found_at = gold_and_place(value, rule, path)
    except BadRowError:
        return None
    from verifiers import gold_value

    is_mere_line = rule == "long" and not found_at and not re.search(r"\d", answer)
    return None if is_mere_line or gold_value(answer) is None else answer


def _is_letter(answer: str) -> bool:
    """Return whether an answer is the letter of a choice, maybe with its text."""
    from verifiers.grammar.normalize import choices as letters_of

    return bool(letters_of(answer))


def _are_equal(answer: str, stated: str) -> bool:
    """Return whether the verifier takes two gold answers for the same."""
    from verifiers import Verdict, verify

    return verify(f"\\boxed{{{stated}}}", answer, format="boxed").verdict in (
        Verdict.CORRECT,
        Verdict.TIMEOUT,
    )


def _checked_row(row: object) -> dict[str, object]:
    """Return a row that is an object. Raises BadRowError for any other value."""
    if not isinstance(row, dict):
        raise BadRowError("not a JSON object")
    return row


def _find(row: Mapping[str, object], field: _Field) -> tuple[str, object]:
    """Return the first path of a field at which the row has a value, and the value.

    An empty text counts only without any other value, and an object only at a path that was named.
    Return the last path and None for a row without a value.
    """
    empty = None
    for path in field.paths:
        value = value_at(row, path)
        if isinstance(value, str) and not value.strip():
            empty = empty or (path, value)
        elif value is not None and not (field.name == "problem" and isinstance(value, dict)):
            return path, value
    return empty or (field.paths[-1], None)
