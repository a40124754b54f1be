"""Words and patterns as data: what they name is there, and every entry is used."""

import re
from pathlib import Path

import pytest

import verifiers
from verifiers.grammar.tables import FOLDER, NAME, pattern, table

TABLES = sorted(path.stem for path in FOLDER.glob("*.toml"))
SOURCE = "\n".join(
    path.read_text(encoding="utf-8") for path in Path(verifiers.__file__).parent.rglob("*.py")
)


def test_an_entry_is_one_of_its_alternatives_and_names_others() -> None:
    said = pattern("standing", "others_say")
    assert said.search("according to my teacher")
    assert not said.search("according to Vieta")
    assert "<source>" not in said.pattern


@pytest.mark.parametrize("name", TABLES)
def test_every_entry_is_used_and_every_name_is_there(name: str) -> None:
    entries = table(name)
    for key, value in entries.items():
        mentioned = f'"{name}", "{key}"' in SOURCE or f'table("{name}")["{key}"]' in SOURCE
        inside = any(f"<{key}>" in part for other in entries.values() for part in other)
        assert mentioned or inside, key
        named = [found for part in value if isinstance(value, list) for found in NAME.findall(part)]
        assert set(named) <= entries.keys(), key


def test_a_missing_entry_is_named() -> None:
    with pytest.raises(KeyError, match="nothing"):
        pattern("standing", "nothing")
    assert pattern("alone", "leads", flags=0).flags & re.I == 0
