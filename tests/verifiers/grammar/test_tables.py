"""Words as data: every entry is used."""

from pathlib import Path

import verifiers
from verifiers.grammar.tables import table

SOURCE = "\n".join(
    path.read_text(encoding="utf-8") for path in Path(verifiers.__file__).parent.rglob("*.py")
)


def test_every_entry_of_the_vocabulary_is_used() -> None:
    for key in table("vocabulary"):
        assert f'table("vocabulary")["{key}"]' in SOURCE, key
