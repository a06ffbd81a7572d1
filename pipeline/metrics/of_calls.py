"""The requests that this process sends to AWS, counted where botocore gets their answers."""

from __future__ import annotations

from typing import Any

from headrace.pipeline.metrics import own_series as own
from headrace.pipeline.metrics.gathering import Gathering


def count_calls(client: Any, gathering: Gathering) -> None:
    """Each try counts, also one that is tried again. The requests of Spark's tasks aren't among them."""
    # Here, because it imports boto3, which few commands need.
    from headrace.pipeline.aws.clients.clients import THROTTLED

    service = client.meta.service_model.service_name

    def note(*, response: Any = None, operation: Any, **_: object) -> None:
        call = f"{service}:{operation.name}"
        gathering.add(own.CALLS, 1, call)
        if response is not None and response[1].get("Error", {}).get("Code") in THROTTLED:
            gathering.add(own.THROTTLES, 1, call)

    client.meta.events.register(f"needs-retry.{client.meta.service_model.service_id.hyphenize()}", note)
