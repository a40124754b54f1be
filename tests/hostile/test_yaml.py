"""YAML from strangers: settings by --config, by --set, in a run, and problem sets of their own."""

import os
from pathlib import Path

from limits import Situation, check, table

from rlvr_cli.core.yaml_text import LARGEST_YAML

ALIASES = "x0: &a0 [z,z,z,z,z,z,z,z,z]\n" + "".join(
    f"x{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9)
)
BOMB = "seed: &a0 [z]\nalgo: &a1 [*a0, *a0]\n"
KEYS = ("seed", "algo", "data.source", "rollout.samples", "optim.betas")
SPEC = "description: d\nversion: 1\nlicense: l\n"


def by_config(name: str, text: object, says: str, **more: object) -> Situation:
    command = ("sample", "1 + 1", "--config", "c.yaml")
    return Situation(f"--config: {name}", command, says, files={"c.yaml": text}, **more)  # type: ignore[dict-item, arg-type]


def by_set(name: str, text: str, says: str) -> Situation:
    return Situation(f"--set: {name}", ("train", "--check", "--set", text), says)


def spec(name: str, text: object, says: str, **more: object) -> Situation:
    files = {"s.yaml": text}
    command = ("eval", "s.yaml", "-n", "1", "--max-tokens", "3")
    return Situation(f"set: {name}", command, says, files=files, **more)  # type: ignore[arg-type]


def link_to(target: str):
    return lambda path: path.symlink_to(target)


CONFIGS = [
    by_config("aliases", ALIASES, "aliases are not taken"),
    by_config("one alias", BOMB, "c.yaml: line 2: .*aliases are not taken"),
    by_config("an alias of itself", "seed: &a [*a]\n", "aliases are not taken"),
    by_config("a merge", "data: {<<: {limit: 1}}\n", "a key that is no text"),
    by_config("deep lists", "seed: " + "[" * 3000, "nested more than 100"),
    by_config("deep mappings", "seed: " + "{a: " * 3000, "nested more than 100"),
    by_config("deep blocks", "".join(" " * n + "a:\n" for n in range(150)), "nested more than 100"),
    by_config("deep dashes", "- " * 3000 + "1", "nested more than 100"),
    by_config("large", "# " + "x" * LARGEST_YAML, "more than 100000 characters"),
    by_config("a zero device", link_to("/dev/zero"), "more than 100000 characters"),
    by_config("a directory", Path.mkdir, "Is a directory"),
    by_config("NUL", b"seed: 1\n" + b"\0" * 512, "not valid YAML"),
    by_config("not UTF-8", b"seed: \xff\n", "cannot be read"),
    by_config("an impossible date", "seed: 2026-99-99\n", "line 1: .*tag does not allow"),
    by_config("!!int", "seed: !!int x\n", "tag does not allow"),
    by_config("!!int of nothing", 'seed: !!int ""\n', "tag does not allow"),
    by_config("!!float", "seed: !!float x\n", "tag does not allow"),
    by_config("!!timestamp", "seed: !!timestamp x\n", "tag does not allow"),
    by_config("!!bool", "seed: !!bool maybe\n", "tag does not allow"),
    by_config("!!binary", "seed: !!binary 9\n", "not valid YAML|a valid integer"),
    by_config("!!set", "seed: !!set {a, b}\n", "seed must be a whole number"),
    by_config("an object of Python", "seed: !!python/object/apply:os.system [id]\n", "constructor"),
    by_config("a name of Python", "seed: !!python/name:os.system\n", "constructor"),
    by_config("an int of 5,000 digits", "seed: " + "9" * 5000, "tag does not allow"),
    by_config("a hexadecimal of 50,000 digits", "seed: 0x" + "f" * 50_000, "seed must be less"),
    by_config("a float without end", "optim: {lr: .inf}\n", "optim.lr must be a finite number"),
    by_config("a key twice", "seed: 1\nseed: 2\n", "line 2: .*the key seed stands twice"),
    by_config("a key twice inside", "data: {limit: 1, limit: 2}\n", "limit stands twice"),
    by_config("a number as key", "1: 2\n", "a key that is no text"),
    by_config("a list as key", "? [a]\n: 1\n", "a key that is no text"),
    by_config("a mapping as key", "? !!str {a: b}\n: 1\n", "a key that is no text"),
    by_config("a long key", "k" * 50_000 + ": 1\n", "k… is not a setting|not valid YAML"),
    by_config("a long text as value", "seed: " + "x" * 50_000, "x…"),
    by_config("two documents", "seed: 1\n---\nseed: 2\n", "not valid YAML"),
    by_config("a list", "- 1\n", "a mapping of settings is expected"),
    by_config("a text", "seed\n", "a mapping of settings is expected"),
    by_config("a section that is a list", "data: [1]\n", "data is a section"),
    by_config("tabs", "data:\n\tlimit: 1\n", "line 2: not valid YAML"),
    by_config("escapes", 'seed: "\\e]0;owned\\a"\n', "seed must be a whole number"),
    by_config("gone", link_to("nowhere"), "No such file"),
    *(
        by_set(f"aliases in {key}", f"{key}=[&a [z], *a]", "aliases|must be|no such")
        for key in KEYS
    ),
    by_set("a deep list", "seed=" + "[" * 3000, "seed must be a whole number"),
    by_set("a long list", "seed=[" + "1," * 20_000 + "]", "seed must be a whole number"),
    by_set("a date", "seed=2026-99-99", "seed must be a whole number"),
    by_set("a key of many parts", ".".join("a" * 500) + "=1", "a is not a setting"),
    by_set("no key", "=1", "write it as section.key=value"),
    by_set("a mapping", "algo={a: {b: 1}}", "algo.a.b is not a setting"),
]
SPECS = [
    spec("aliases", ALIASES, "s.yaml: line 2: .*aliases"),
    spec("a date", SPEC + "source: 2026-99-99\n", "s.yaml: line 4: .*tag does not allow"),
    spec("deep", "[" * 3000, "nested more than 100"),
    spec("a zero device", link_to("/dev/zero"), "more than 100000 characters"),
    spec("not UTF-8", b"\xff", "cannot be read"),
    spec("empty", "", "s.yaml: must be a mapping"),
    spec("a list", "- 1\n", "s.yaml: must be a mapping"),
    spec("an unknown key", SPEC + "source: a.jsonl\nanswr: x\n", "answr is not known"),
    spec("an unknown field", SPEC + "source: a.jsonl\nfields: {answr: x}\n", "fields.answr"),
    spec(
        "a set of the old form",
        SPEC + "source: procedural:arithmetic\nsizes: {test: 9}\n",
        "s.yaml: no such procedure as procedural:arithmetic; it is procedural:chains",
    ),
    spec("no sizes", SPEC + "source: procedural:chains\n", "needs sizes"),
    spec("empty sizes", SPEC + "source: procedural:chains\nsizes: {}\n", "needs sizes"),
    spec(
        "a size without end",
        SPEC + "source: procedural:chains\nsizes: {test: 1000000000}\n",
        "sizes.test must be 20000 or less",
    ),
    spec(
        "a size of nothing",
        SPEC + "source: procedural:chains\nsizes: {test: 0}\n",
        "sizes.test must be 1 or more",
    ),
    spec(
        "a size of another split",
        SPEC + "source: procedural:chains\nsizes: {train: 9}\n",
        "it has no test split",
    ),
    spec("a NUL in its source", SPEC + 'source: "a\\0.jsonl"\n', "cannot be read"),
    spec("a source that is gone", SPEC + "source: gone.jsonl\n", "gone.jsonl: cannot be read"),
    spec("a source that is itself", SPEC + "source: s.yaml\n", "s.yaml:1: not a JSON object"),
    spec("a prompt that is gone", SPEC + "source: a.jsonl\nprompt: nowhere\n", "cannot be read"),
]


@table([*CONFIGS, *SPECS])
def test_situation(situation: Situation, tmp_path: Path) -> None:
    check(situation, tmp_path)


def test_a_pipe_named_by_its_user_is_read(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.write(writer, b"seed: x\n")
    os.close(writer)
    os.set_inheritable(reader, True)
    command = ("sample", "1 + 1", "--config", f"/dev/fd/{reader}")
    check(Situation("a pipe", command, "seed must be a whole number"), tmp_path)
    os.close(reader)
