from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pipeline.local.endpoint import LocalAws, local_aws
from pipeline.local.inprocess import InProcessKinesis


@pytest.fixture
def local() -> InProcessKinesis:
    return InProcessKinesis()


@pytest.fixture
def client(local: InProcessKinesis) -> Any:
    return local.client()


@pytest.fixture(scope="session")
def served() -> Iterator[LocalAws]:
    """One stand-in in a process of its own; tests use streams, tables and buckets of their own."""
    with local_aws("--transition", "0") as aws:
        yield aws
