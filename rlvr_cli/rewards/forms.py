"""The forms in which functions of the user's take problems and responses (`FORMS`).

A parameter gets what its name says. The names are those of a form and, in some forms, the columns
of the problem's row.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

from rlvr_cli.core.code import CodeError
from rlvr_cli.core.jsonl import JsonObject
from rlvr_cli.core.text import shortened
from rlvr_cli.core.types import PROBLEM_SET

SCORE = "score"
"""The key of the reward in a dictionary that a function returns. Other numbers are figures."""
_GOLD_NAMES = ("answer", "ground_truth", "solution", "target", "gold")
"""Names of columns that have the gold answer in the data of the field."""
_COLUMN_NAMES = {*_GOLD_NAMES, "question", "label", "step"}
"""Usual names of columns: such a parameter never gets a problem or a response by its position."""
_FORMS_IN_WORDS = (
    "(problem, response) or (problems, responses), also with columns by name, TRL's "
    "(completions, …), verl's (data_source, solution_str, ground_truth, extra_info), prime's "
    "(completion, …), OpenRLHF's (queries, prompts, labels), EasyR1's (reward_inputs), slime's "
    "(args, sample), or a custom function that calls yours"
)
Chat = list[dict[str, str]]
"""Turns with role and content."""


@dataclass(frozen=True)
class Form:
    """A form of functions: the names of its parameters, and what each gets."""

    name: str
    values: Mapping[str, str]
    """The value (`parameter_values`) that each parameter gets."""
    marks: tuple[str, ...]
    """Parameters that show the form. They have the response."""
    takes_group: bool = False
    """Whether a call has all responses to a problem, and each parameter a list."""
    has_columns: bool = False
    """Whether the columns of the problem's row are arguments too."""
    golds: tuple[str, ...] = ()
    """Further arguments with the gold answer, unless the rows have columns of these names."""
    score: str = SCORE
    """The key of the reward in a dictionary."""
    always_texts: bool = False
    """Whether completions are texts though the problem is a chat."""

    @property
    def has_completions(self) -> bool:
        """Return whether a parameter gets completions, which are texts or chats."""
        return "completion" in self.values.values()


def _alike(*names: str) -> dict[str, str]:
    """Return parameters that have the names of their values."""
    return {name: name for name in names}


_VERL = ("data_source", "solution_str", "ground_truth", "extra_info")
_GOLDS = ("ground_truth",)
PAIR = Form(
    "(problem, response)",
    _alike("problem", "response"),
    ("response",),
    has_columns=True,
    golds=_GOLDS,
)
GROUP = Form(
    "(problems, responses)",
    {"problems": "problem", "responses": "response"},
    ("responses",),
    takes_group=True,
    has_columns=True,
    golds=_GOLDS,
)
TRL = Form(
    "TRL's form",
    {"prompts": "prompt", "completions": "completion"},
    ("completions",),
    takes_group=True,
    has_columns=True,
    golds=_GOLD_NAMES,
)
SWIFT = replace(TRL, name="ms-swift's form", always_texts=True)
"""The form of a class, an object of which is called."""
FORMS = (
    PAIR,
    GROUP,
    TRL,
    Form("verl's form", _alike(*_VERL), ("solution_str",)),
    Form(
        "verl's form of batches",
        {f"{name}s": name for name in _VERL},
        ("solution_strs",),
        takes_group=True,
    ),
    Form(
        "prime's form",
        _alike("prompt", "completion", "state", "info", "task"),
        ("completion",),
        has_columns=True,
        golds=_GOLDS,
    ),
    Form(
        "OpenRLHF's form",
        {"queries": "query", "prompts": "prompt_text", "labels": "ground_truth"},
        ("queries",),
        takes_group=True,
        score="rewards",
    ),
    Form("EasyR1's form", _alike("reward_input"), ("reward_input",), score="overall"),
    Form(
        "EasyR1's form",
        {"reward_inputs": "reward_input"},
        ("reward_inputs",),
        takes_group=True,
        score="overall",
    ),
    Form("slime's form", _alike("args", "sample"), ("args", "sample")),
)
"""Each form that can be read. The names are those by which the trainer of the form calls."""
_KNOWN_NAMES = _COLUMN_NAMES.union(*(form.values for form in FORMS))


@dataclass(frozen=True)
class Question:
    """Responses to a problem, which the function of this number rewards."""

    function: int
    rows: list[JsonObject]
    responses: list[str]
    step: int = 0
    chat: Chat | None = None
    """The turns of the problem, if it is a chat."""
    as_chats: bool | None = None
    """Whether completions are chats. None means as the problem is, or else the other way."""


@dataclass(frozen=True)
class BoundFunction:
    """A function with the form that its parameters show."""

    function: Callable[..., object]
    form: Form
    signature: inspect.Signature
    positional: Mapping[str, str] = field(default_factory=dict)
    """The parameters of unknown names that get problem and response by their position."""

    def call(self, arguments: Mapping[str, object]) -> object:
        """Call the function with those of the arguments by name that it takes.

        Raises CodeError if a parameter has no argument.
        """
        parameters = self.signature.parameters
        named = dict(arguments)
        for name, form_name in self.positional.items():
            if name in arguments:
                raise refusal(self.signature, f"{name} is a column of the rows")
            named[name] = arguments[form_name]
        if not any(item.kind is item.VAR_KEYWORD for item in parameters.values()):
            named = {name: value for name, value in named.items() if name in parameters}
        by_position = [
            named.pop(item.name)
            for item in parameters.values()
            if item.kind is item.POSITIONAL_ONLY and item.name in named
        ]
        try:
            self.signature.bind(*by_position, **named)
        except TypeError as error:
            reason = f"{error}; there are {', '.join(arguments)}"
            raise refusal(self.signature, reason) from None
        return self.function(*by_position, **named)


def refusal(signature: inspect.Signature, reason: str = "") -> CodeError:
    """Return the error of a function whose parameters cannot be bound. It shows the forms."""
    text = f"a reward takes {_FORMS_IN_WORDS}, not {shortened(str(signature))}"
    return CodeError(f"{reason}: {text}" if reason else text)


def bind(function: Callable[..., object]) -> BoundFunction:
    """Return a function with its form. A class gives an object that is called.

    Raises CodeError unless the parameters show exactly one form.
    """
    if isinstance(function, type):
        called: Callable[..., object] = function()
        bound = bind(called)
        return replace(bound, form=SWIFT) if bound.form is TRL else bound
    signature = inspect.signature(function)
    names = list(signature.parameters)
    forms = [form for form in FORMS if {*form.marks} <= {*names}]
    for form in (PAIR, GROUP):
        if names[:1] == [next(iter(form.values))] and form not in forms:
            forms.append(form)
    if len(forms) > 1:
        readings = sorted(form.name for form in forms)
        raise CodeError(
            f"{shortened(str(signature))} can be read as {' and as '.join(readings)}; take the "
            "names of one of them"
        )
    form = forms[0] if forms else PAIR
    bound = BoundFunction(function, form, signature)
    if form in (PAIR, GROUP):
        bound = BoundFunction(function, form, signature, _by_position(signature, form))
    if not {*form.marks} <= {*names, *bound.positional.values()}:
        raise refusal(signature)
    return bound


def _by_position(signature: inspect.Signature, form: Form) -> dict[str, str]:
    """Return what two parameters without defaults get if the names of neither, or only of the
    other, are known. Return {} for any others."""
    form_names = list(form.values)
    required = [
        item.name
        for item in signature.parameters.values()
        if item.default is item.empty
        and item.kind in (item.POSITIONAL_ONLY, item.POSITIONAL_OR_KEYWORD)
        and (item.name in form_names or item.name not in _KNOWN_NAMES)
    ]
    if len(required) != len(form_names):
        return {}
    positional = {
        name: form_name
        for name, form_name in zip(required, form_names, strict=True)
        if name != form_name
    }
    return {} if _KNOWN_NAMES & positional.keys() else positional


def arguments_of(form: Form, question: Question, as_chats: bool) -> list[dict[str, object]]:
    """Return the arguments of each call by their names. Completions are chats or texts."""
    rows = question.rows
    values = [
        parameter_values(row, response, question.chat, as_chats)
        for row, response in zip(rows, question.responses, strict=True)
    ]
    calls: list[dict[str, object]] = []
    for row, value in zip(rows, values, strict=True):
        columns: dict[str, object] = {}
        if form.has_columns:
            columns = {**dict.fromkeys(form.golds, row.get("answer")), **row}
        calls.append({**columns, **{name: value[key] for name, key in form.values.items()}})
    if form.takes_group:
        calls = [{name: [call[name] for call in calls] for name in calls[0]}]
    if form.has_columns:
        calls = [{"step": question.step, **call} for call in calls]
    return calls


def parameter_values(
    row: JsonObject, response: str, chat: Chat | None, as_chats: bool
) -> dict[str, object]:
    """Return what the parameters of all forms get for a response to the problem of a row."""
    text = row.get("problem")
    gold = row.get("answer")
    prompt: object = text
    completion: object = response
    if as_chats:
        prompt = chat or [{"role": "user", "content": text}]
        completion = [{"role": "assistant", "content": response}]
    task = row.get("data_source", row.get(PROBLEM_SET, ""))
    return {
        "problem": row,
        "response": response,
        "prompt": prompt,
        "prompt_text": text,
        "completion": completion,
        "query": f"{text}{response}",
        "data_source": task,
        "solution_str": response,
        "ground_truth": gold,
        "extra_info": row.get("extra_info", row),
        "state": {**row, "prompt": prompt, "completion": completion},
        "info": row.get("info", row),
        "task": row.get("task", task),
        "reward_input": {"response": response, "ground_truth": gold},
        "args": SimpleNamespace(),
        "sample": SimpleNamespace(prompt=prompt, response=response, label=gold, metadata=row),
    }


def kinds_of_completions(form: Form, question: Question) -> list[bool]:
    """Return whether completions are chats: first as the form has them, then the other way.

    A form without completions has one kind.
    """
    if question.as_chats is not None:
        return [question.as_chats]
    as_chats = question.chat is not None and not form.always_texts
    return [as_chats, not as_chats] if form.has_completions else [as_chats]
