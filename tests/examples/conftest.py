"""Each example has a stand-in of its own, because all examples call their stream `orders`."""

from collections.abc import Iterator

import pytest

from headrace.pipeline.local.endpoint import LocalAws, local_aws


@pytest.fixture
def aws() -> Iterator[LocalAws]:
    with local_aws("--transition", "0") as served:
        yield served
