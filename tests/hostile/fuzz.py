"""How long to look: a little by default, `FUZZ_SECONDS` for each file (`make fuzz`)."""

import os
import random
import time
from collections.abc import Callable

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy

SECONDS = float(os.environ.get("FUZZ_SECONDS", "0"))
THOROUGH = SECONDS > 0
_EXAMPLES = 60


def fuzzed(strategy: SearchStrategy, test: Callable[[object], None]) -> int:
    """Run `test` on examples of `strategy`: a fixed few, or new ones until the time is over.
    Returns how many."""
    count = 0

    def counted(example: object) -> None:
        nonlocal count
        count += 1
        test(example)

    many = settings(
        max_examples=_EXAMPLES if not THOROUGH else 2000,
        deadline=None,
        database=None,
        derandomize=not THOROUGH,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
    end = time.monotonic() + SECONDS
    while True:
        run = many(given(strategy)(counted))
        if THOROUGH:
            run = seed(random.getrandbits(64))(run)
        run()
        if time.monotonic() >= end:
            return count
