"""The codes by which AWS refuses a request because there were too many."""

from __future__ import annotations

from typing import Final

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
