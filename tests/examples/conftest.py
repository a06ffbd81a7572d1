"""Each example has a stand-in of its own, because all examples call their stream `orders`, and a Spark server of
its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.cli.own_spark import spark_of_its_own
from pipeline.local.endpoint import LocalAws, local_aws


@pytest.fixture
def aws() -> Iterator[LocalAws]:
    with local_aws("--transition", "0") as served:
        yield served


@pytest.fixture
def own_spark(tmp_path: Path) -> Iterator[Path]:
    """A Spark server for one test. The server that a user's processes share would keep the endpoint of another
    test's stand-in."""
    with spark_of_its_own(tmp_path / "spark"):
        yield tmp_path / "spark"
