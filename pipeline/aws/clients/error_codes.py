"""AWS's codes of errors: the code of an error, and the codes that say that there were too many requests."""

from __future__ import annotations

from typing import Final

from botocore.exceptions import ClientError

THROTTLED: Final = frozenset(
    {
        "BandwidthLimitExceeded",
        "KMSThrottlingException",
        # Kinesis uses it for too many requests such as ListShards, DynamoDB for too many tables that are made
        # at a time.
        "LimitExceededException",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
    }
)


def code_of(error: BaseException | None) -> str:
    """AWS's error code of an exception; empty for an exception without one."""
    return str(error.response.get("Error", {}).get("Code", "")) if isinstance(error, ClientError) else ""
