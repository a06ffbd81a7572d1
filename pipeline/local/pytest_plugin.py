"""pytest fixtures for tests of code that reads or writes Kinesis. They need no configuration and no AWS account.

`headrace_aws`      a stand-in of Kinesis, DynamoDB, S3 and STS in a process of its own, one for the session
`headrace_kinesis`  Kinesis in this process with a clock that only the test moves, new for each test
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.pipeline.local.endpoint import LocalAws
    from headrace.pipeline.local.inprocess import InProcessKinesis


@pytest.fixture(scope="session")
def headrace_aws() -> Iterator[LocalAws]:
    """Serve the AWS stand-in for the session. Tests share it: use different stream names, or call reset()."""
    # Imported here: pytest loads this module in each session of each project that has Headrace installed.
    from headrace.pipeline.local.endpoint import local_aws

    with local_aws() as aws:
        yield aws


@pytest.fixture
def headrace_kinesis() -> InProcessKinesis:
    """Give a Kinesis simulator for this test only, in this process."""
    from headrace.pipeline.local.inprocess import InProcessKinesis

    return InProcessKinesis()
