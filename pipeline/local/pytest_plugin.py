"""pytest fixtures for whoever reads or writes Kinesis: nothing to configure, no AWS account.

`headrace_aws`      a stand-in of Kinesis, DynamoDB, S3 and STS in a process of its own, one for the session
`headrace_kinesis`  Kinesis in this process with a clock that only the test moves, new for each test
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipeline.local.endpoint import LocalAws
    from pipeline.local.inprocess import InProcessKinesis


@pytest.fixture(scope="session")
def headrace_aws() -> Iterator[LocalAws]:
    """Serve AWS's stand-in for the session. Tests share it: use names of your own, or reset() it."""
    from pipeline.local.endpoint import local_aws

    with local_aws() as aws:
        yield aws


@pytest.fixture
def headrace_kinesis() -> InProcessKinesis:
    """Give a Kinesis of this test's own, in process."""
    from pipeline.local.inprocess import InProcessKinesis

    return InProcessKinesis()
