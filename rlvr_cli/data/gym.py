"""Make problems with reasoning-gym, in a worker process.

The number of a problem is added to the generator's seed. The SHA-256 of its text puts it into
`train` or `test`, so that no problem is in both for any seed or setting.
"""

import difflib
import hashlib
import json
from collections.abc import Iterator
from contextlib import closing
from itertools import chain, islice, zip_longest
from typing import Any

from rlvr_cli.core.errors import UserError
from rlvr_cli.core.text import printable, shortened
from verifiers.gym import ACCEPTED, FIELD, REFUSED, VALUES, settings_of
from verifiers.workers.pool import Pool, WorkerLostError

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


def generators(source: str) -> list[tuple[str, int]]:
    """Return the generators of `gym:NAME+NAME?SETTING=VALUE`, each with its settings, and the size
    of its training split. Raises UserError for one that is not known, or refused."""
    names, _, query = source.removeprefix(PREFIX).partition("?")
    parts = query.split("&")
    others = "&".join(part for part in parts if not part.startswith("size="))
    try:
        size = settings_of(source)[1].get("size", _TRAIN_SIZE)
    except ValueError as error:
        raise UserError(f"{shortened(source)}: {error}") from None
    if not isinstance(size, int) or not 0 < size <= 20_000:
        raise UserError(f"{shortened(source)}: size is a number from 1 to 20000")
    for name in names.split("+"):
        if name in REFUSED:
            raise UserError(f"{PREFIX}{name} is refused: {REFUSED[name]}")
        if name not in ACCEPTED:
            near = difflib.get_close_matches(name, ACCEPTED) or ACCEPTED
            raise UserError(
                f"{PREFIX}{shortened(name)}: no such generator; near are {', '.join(near)}"
            )
    suffix = f"?{others}" if others else ""
    return [(f"{name}{suffix}", size) for name in dict.fromkeys(names.split("+"))]


def problems(source: str, split: str) -> Iterator[dict[str, Any]]:
    """Yield the problems of a split as rows, those of several generators in turn.

    Raises UserError if a generator fails, does not end, or lacks a setting.
    """
    pool = Pool(
        workers=1,
        timeout=_BATCH_S,
        memory_mb=_MEMORY_MB,
        judge=json.dumps(["verifiers.gym"]),
    )
    with closing(pool):
        parts = [
            islice(_problems(pool, generator, split), size if split == "train" else _TEST_SIZE)
            for generator, size in generators(source)
        ]
        yield from filter(None, chain.from_iterable(zip_longest(*parts)))


def _problems(pool: Pool, generator: str, split: str) -> Iterator[dict[str, Any]]:
    """Yield distinct problems of a generator until it makes no more."""
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


def _batch(pool: Pool, generator: str, first: int) -> list[dict[str, Any]]:
    try:
        reply = pool.put({"generator": generator, "first": first, "count": _BATCH})
    except WorkerLostError as error:
        reply = {"error": f"it makes no {_BATCH} problems within its limits ({error})"}
    if "error" in reply:
        raise UserError(f"{PREFIX}{generator}: {printable(reply['error'])}")
    return reply["rows"]
