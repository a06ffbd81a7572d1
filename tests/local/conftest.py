from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from headrace.pipeline.local.endpoint import LocalAws, local_aws
from headrace.pipeline.local.inprocess import InProcessKinesis


@pytest.fixture
def local() -> InProcessKinesis:
    return InProcessKinesis()


@pytest.fixture
def client(local: InProcessKinesis) -> Any:
    return local.client()


@pytest.fixture(scope="session")
def served() -> Iterator[LocalAws]:
    """One stand-in in a process of its own. Each test uses its own streams, tables and buckets."""
    with local_aws("--transition", "0") as aws:
        yield aws
