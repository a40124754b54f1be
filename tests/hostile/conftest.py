"""One nursery for all tests of this folder."""

from collections.abc import Iterator

import pytest
from nursery import Nursery


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    one = Nursery()
    yield one
    one.close()
