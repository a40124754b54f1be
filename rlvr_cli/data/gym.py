"""Make problems with reasoning-gym, in a worker process.

The number of a problem is added to the generator's seed. The SHA-256 of its text puts it into
`train` or `test`, so that no problem is in both for any seed or setting.
"""

import hashlib
from collections.abc import Iterator
from contextlib import closing
from itertools import chain, islice, zip_longest

from rlvr_cli.core.errors import UserError
from rlvr_cli.core.jsonl import JsonObject
from rlvr_cli.core.text import printable, shortened
from verifiers.workers.pool import GYM, Pool, WorkerLostError

PREFIX = "gym:"
_TRAIN_SIZE = 500
"""Training problems of a generator without the setting `size`."""
_TEST_SIZE = 100
_FIRST = {"train": 0, "test": 100_000_000}
"""The number of the first problem of each split."""
_TEST_ONE_IN = 4
"""One problem in four is held out, for some generators take a second for each that they make."""
_BATCH = 16
"""Problems that are asked of the worker at once."""
_BATCH_S = 120.0
_MEMORY_MB = 4096
_MOST_OLD = 500
"""Problems in a row that were there already, or are in the other split, after which a generator
has no more."""


def generated_problems(source: str, split: str) -> Iterator[JsonObject]:
    """Yield the problems of a split as rows: `gym:NAME+NAME?SETTING=VALUE&…`, those of several
    generators in turn.

    Raises UserError if a generator is refused or not known, lacks a setting, fails or does not end.
    """
    from verifiers.gym import settings_of

    names, mark, query = source.removeprefix(PREFIX).partition("?")
    parts = []
    with closing(Pool(workers=1, timeout=_BATCH_S, memory_mb=_MEMORY_MB, judge=GYM)) as pool:
        for name in names.split("+"):
            generator = f"{name}{mark}{query}"
            try:
                size = settings_of(generator).get("size", _TRAIN_SIZE)
                if type(size) is not int or size < 1:
                    raise ValueError(f"size {size!r:.40} is no number of problems")
                part = islice(_problems(pool, generator, split), size)
            except ValueError as error:
                raise UserError(f"{PREFIX}{shortened(generator)}: {error}") from None
            parts.append(part if split == "train" else islice(part, _TEST_SIZE))
        yield from filter(None, chain.from_iterable(zip_longest(*parts)))


def _problems(pool: Pool, generator: str, split: str) -> Iterator[JsonObject]:
    """Yield distinct problems of a generator until it makes no more."""
    from verifiers.gym import FIELD, VALUES

    name = generator.partition("?")[0]
    number = _FIRST[split]
    newest = number
    texts: set[str] = set()
    while number - newest < _MOST_OLD:
        for row in _batch(pool, generator, number):
            text = row["problem"]
            is_test = hashlib.sha256(text.encode()).digest()[0] % _TEST_ONE_IN == 0
            if row["answer"] and text not in texts and is_test == (split == "test"):
                place = row.pop("place")
                row |= {"id": f"{PREFIX}{generator}-{number}", "generator": name}
                if name not in VALUES:
                    row[FIELD] = place
                yield row
                texts.add(text)
                newest = number
            number += 1


def _batch(pool: Pool, generator: str, first: int) -> list[JsonObject]:
    try:
        reply = pool.put({"generator": generator, "first": first, "count": _BATCH})
    except WorkerLostError as error:
        reply = {"error": f"it makes no {_BATCH} problems within its limits ({error})"}
    if "error" in reply:
        raise UserError(f"{PREFIX}{generator}: {printable(reply['error'])}")
    rows: list[JsonObject] = reply["rows"]
    return rows
