"""Read a run of another program: its file, its script, or what stands on a command line."""

import ast
import math
import operator
import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import get_origin

from rlvr_cli.config import SETTINGS, flags_of, setting_at
from rlvr_cli.config.foreign import foreign_answer, foreign_table
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.files import reading
from rlvr_cli.core.jsonl import JsonObject
from rlvr_cli.core.yaml_text import LARGEST_YAML, load_yaml

ADVICE = "add --translate for the whole run, and --out FILE.yaml for its settings"
_OVERRIDE = re.compile(r"[+~]{0,2}[A-Za-z_][\w-]*(\.[\w-]+)+(=.*)?", re.DOTALL)
"""A setting as Hydra takes it, a.b=c, also +a.b=c and ~a.b."""
_REFERENCE = re.compile(
    r"\$\{(?:oc\.env:)?([A-Za-z_][\w.]*)(?:(?::-|:=|-|,)([^${}]*))?\}|\$([A-Za-z_]\w*)"
)
"""A value that is another's, of a key or a shell's variable, perhaps with a default."""
_SUM = re.compile(r"\$\(\(((?:[^()]|\([^()]*\))*)\)\)")
"""What a shell computes, $((1024 * 8))."""
_OPERATIONS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.floordiv,
    ast.Mod: operator.mod,
}
_DEEPEST = 8
"""References inside references that are followed."""
_LONGEST_TEXT = 10_000
_LONGEST_REFERRED = 1_000
_LONGEST_SUM = 200
"""Characters of a text that refers to others, of a value that it refers to, of a sum, at most."""
_LAUNCHER = re.compile(r"(.*/)?python[\d.]*$")


def setting_named(target: str) -> str:
    """Return the setting of a flag of train. Return other names unchanged."""
    for setting in flags_of("train").values():
        if setting.use.flag == target:
            return setting.name
    return target


def number_in(value: object) -> float | None:
    """Return a number, or the number that a text is. Return None for anything else."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    if not math.isfinite(number):
        return None
    return number if isinstance(value, str) else value


def refusal_of(place: str, keys: Sequence[str]) -> str:
    """Return the answer to another program's settings, all of them, and what translates them.

    One flag alone has its answer.
    """
    answers = list(dict.fromkeys(map(_answer, keys)))
    is_alone = len(keys) == 1 and not place
    return answers[0] if is_alone else f"{place}{'; '.join(answers)}; {ADVICE}"


def _answer(key: str) -> str:
    """Return what a key is here, which may be a setting's own name."""
    as_setting = f"{key} is --set {key}=… here" if setting_at(key) else f"{key} is not known"
    return foreign_answer(key) or as_setting


def read_run(file: Path) -> dict[str, object]:
    """Read the settings of another program's run: a YAML file, or a shell script that starts it."""
    with reading(f"--config {file}"), file.open("rb") as opened:
        text = opened.read(LARGEST_YAML + 1).decode()
    if file.suffix in (".sh", ".bash"):
        return _read_script(file, text)
    try:
        values = load_yaml(text)
    except ValueError as error:
        raise UserError(f"--config {file}: {error}") from None
    if not isinstance(values, dict) or not values:
        raise UserError(f"--config {file}: a mapping of settings is expected")
    return _referred({key: _normal(value) for key, value in _flattened(values)}, {})


def _flattened(values: JsonObject) -> Iterable[tuple[str, object]]:
    """Yield the settings of a file by dotted name. A mapping that is a value stays whole."""
    table = foreign_table()
    sections = table.tools["verl"].sections
    for key, value in values.items():
        if not isinstance(value, dict) or (key not in sections and key in table.by_name):
            yield key, value
            continue
        for name, entry in _leaves(value, f"{key}."):
            if not name.endswith("_target_"):
                yield name, entry


def _leaves(values: JsonObject, prefix: str) -> Iterable[tuple[str, object]]:
    """Yield nested settings by dotted name, but whole what a setting takes as a mapping."""
    table = foreign_table()
    for key, value in values.items():
        name = f"{prefix}{key}"
        foreign_name = table.name_of(name) or ""
        rows = table.by_name.get(foreign_name, ())
        targets = rows[0].targets(foreign_name) if rows else ()
        target = setting_named(targets[0]) if targets else ""
        takes_mapping = target in SETTINGS and get_origin(SETTINGS[target].annotation) is dict
        if isinstance(value, dict) and value and not takes_mapping:
            yield from _leaves(value, f"{name}.")
        else:
            yield name, value


def _normal(value: object) -> object:
    """Return a value as YAML 1.1 and Hydra read it: True, yes and on are true, `"[a]"` a list.

    A text in braces is a mapping.
    """
    if not isinstance(value, str):
        return value
    truths = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
    text = value.strip()
    if (text[:1], text[-1:]) in (("[", "]"), ("{", "}")):
        try:
            return load_yaml(text)
        except ValueError:
            return value
    if text in ("None", "null", "~"):
        return None
    return truths.get(text.lower(), value)


def refers_to_others(value: object) -> bool:
    """Return whether a value names another that the run does not have."""
    return isinstance(value, str) and re.search(r"\$[({A-Za-z_]", value) is not None


def _referred(entries: dict[str, object], variables: Mapping[str, str]) -> dict[str, object]:
    """Put in the values that `${other.key}` and `$VARIABLE` name, and what `$((…))` computes."""
    values = {**variables, **entries}
    return {key: _with_values(value, values) for key, value in entries.items()}


def _with_values(value: object, values: Mapping[str, object]) -> object:
    """Return a value with what it refers to, also inside a list."""
    if isinstance(value, list):
        return [_with_values(entry, values) for entry in value]
    if not isinstance(value, str) or "$" not in value:
        return value
    text = _filled(value, values)
    return text if "$" in text else _normal(parsed(text))


def _filled(text: str, values: Mapping[str, object]) -> str:
    """Return a text with what it refers to. What is unknown stays."""

    def value_of(match: re.Match[str]) -> str:
        value = values.get(match[1] or match[3], match[2])
        is_known = value is not None and len(str(value)) <= _LONGEST_REFERRED
        return str(value) if is_known else match[0]

    def result_of(match: re.Match[str]) -> str:
        if len(match[1]) > _LONGEST_SUM:
            return match[0]
        try:
            return str(_number_of(ast.parse(match[1].strip(), mode="eval").body, values))
        except (KeyError, ValueError, SyntaxError, ZeroDivisionError):
            return match[0]

    for _ in range(_DEEPEST):
        if len(text) > _LONGEST_TEXT:
            break
        filled = _SUM.sub(result_of, _REFERENCE.sub(value_of, text))
        if filled == text:
            break
        text = filled
    return text


def _number_of(node: ast.expr, values: Mapping[str, object]) -> int:
    """Return what a shell computes. Raises KeyError, ValueError or ZeroDivisionError if there is
    anything but whole numbers, names and operators."""
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name(id=name):
            return int(str(values[name]))
        case ast.BinOp(left=left, op=operation, right=right):
            result = _OPERATIONS[type(operation)](
                _number_of(left, values), _number_of(right, values)
            )
            return int(result)
    raise ValueError("no sum")


def _read_script(file: Path, text: str) -> dict[str, object]:
    """Return the settings of the command in a shell script, with its variables put in."""
    try:
        unbroken = _SUM.sub(lambda match: "".join(match[0].split()), text.replace("\\\n", " "))
        words = shlex.split(unbroken, comments=True)
    except ValueError as error:
        raise UserError(f"--config {file}: not a shell script ({error})") from None
    variables = {"HOME": os.path.expanduser("~")}
    for word in words:
        name, equals, value = word.partition("=")
        if equals and name.isidentifier():
            variables[name] = _filled(value, variables)
    others, entries = take_foreign(words, {})
    return _referred({**entries, **_unknown_flags(others)}, variables)


def _unknown_flags(words: Sequence[str]) -> dict[str, object]:
    """Return the flags after the name of a Python file that is not a program of the table."""
    flags: dict[str, object] = {}
    scripts = [place for place, word in enumerate(words) if word.endswith(".py")]
    for word in words[scripts[0] :] if scripts else ():
        name, equals, value = word.partition("=")
        if name.startswith("--"):
            flags[name] = parsed(value) if equals else None
    return flags


def take_foreign(
    words: Sequence[str], known_options: Mapping[str, bool]
) -> tuple[list[str], dict[str, object]]:
    """Divide the words of a command line into this program's, and the settings of another.

    Those are `a.b=c` as Hydra takes them, and flags that are no known options but another
    program's. `known_options` says of each whether a value follows it. The words that start
    another program are dropped with them.
    """
    ours: list[str] = []
    entries: dict[str, object] = {}
    rest = list(_without_launcher(words))
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if is_override(word):
            entries[name.lstrip("+~")] = None if word[0] == "~" else _normal(parsed(value))
        elif _is_foreign_flag(name, known_options):
            entries[name] = _normal(parsed(value)) if equals else _taken(rest, name)
        elif _is_foreign_flag(_without_no(name), known_options):
            entries[_without_no(name)] = False
        else:
            ours.append(word)
            if known_options.get(name, False) and not equals:
                ours += rest[:1]
                del rest[:1]
    return ours, _referred(entries, {"HOME": os.path.expanduser("~")})


def is_override(word: str) -> bool:
    """Return whether a word is a setting as Hydra takes it, and no file."""
    has_value = "=" in word or word.startswith("~")
    return has_value and bool(_OVERRIDE.fullmatch(word)) and not Path(word[:4096]).exists()


def _is_foreign_flag(name: str, known_options: Mapping[str, bool]) -> bool:
    """Return whether a flag is another program's, and none of this one."""
    is_flag = name.startswith("--") and name not in known_options
    return is_flag and foreign_answer(name) is not None


def _without_no(name: str) -> str:
    """Return the flag that a flag with `no` before it turns off. Return other flags unchanged."""
    return re.sub("^--no[_-]", "--", name)


def _taken(rest: list[str], key: str) -> object:
    """Take the values of a flag from the words that follow it: one, or all of a list."""
    table = foreign_table()
    foreign_name = table.name_of(key) or ""
    row = table.by_name[foreign_name][0]
    names = [name for name in map(setting_named, row.targets(foreign_name)) if name in SETTINGS]
    is_tuple = any("tuple" in str(SETTINGS[name].annotation) for name in names)
    takes_several = is_tuple or row.translation == "decision"
    values: list[object] = []
    while rest and not _begins_option(rest[0]) and not _OVERRIDE.fullmatch(rest[0]):
        if values and not takes_several:
            break
        values.append(_normal(parsed(rest.pop(0))))
    if not values:
        return True
    return values[0] if len(values) == 1 else values


def _begins_option(word: str) -> bool:
    return word.startswith("-") and number_in(word) is None


def parsed(text: str) -> object:
    """Return the value that a text is as YAML, or the text."""
    try:
        return load_yaml(text)
    except ValueError:
        return text


def _without_launcher(words: Sequence[str]) -> Iterable[str]:
    """Yield the words without `python -m MODULE`, and without the marks of a broken line."""
    rest = [part for word in words for part in _parts(word)]
    while rest:
        word = rest.pop(0)
        if _LAUNCHER.fullmatch(word) and rest[:1] == ["-m"]:
            del rest[:2]
        elif word.strip() not in ("", "\\", "$@"):
            yield word


def _parts(word: str) -> list[str]:
    """Return the words of a command that was pasted as one word. Return other words alone."""
    pasted = word.replace("\\\n", " ").split()
    if len(pasted) > 1 and (_LAUNCHER.fullmatch(pasted[0]) or all(map(_OVERRIDE.match, pasted))):
        try:
            return shlex.split(word.replace("\\\n", " "))
        except ValueError:
            return [word]
    return [word]
