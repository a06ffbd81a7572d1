"""Streams and consumers as resources with an ARN: how a request names one, and the policies of both.

A policy is kept and given back. It allows nobody anything, because everything here belongs to one account.
"""

from __future__ import annotations

import json
from typing import Any

from headrace.pipeline.local.errors import invalid_argument, resource_not_found
from headrace.pipeline.local.fields import Request, text_field
from headrace.pipeline.local.kinesis.consumers import consumer_of
from headrace.pipeline.local.kinesis.region import Region
from headrace.pipeline.local.kinesis.stream import LocalConsumer, State, Stream

_NO_POLICY = "{}"


def resource_of(region: Region, request: Request, operation: str) -> Stream | LocalConsumer:
    """Find the stream or consumer that a request names by its ARN."""
    now, arn = region.clock(), text_field(request, "ResourceARN")
    region.limits.call(operation, "", now)
    if "/consumer/" in arn:
        return consumer_of(region, arn, now)[1]
    stream = region.stream({"StreamARN": arn}, now)
    if stream.state is State.CREATING:
        raise stream.wrong_state()
    return stream


def put_policy(region: Region, request: Request) -> dict[str, Any]:
    """Keep the policy of a stream or consumer."""
    policy = text_field(request, "Policy")
    try:
        is_policy = isinstance(json.loads(policy), dict)
    except ValueError:
        is_policy = False
    if not is_policy:
        raise invalid_argument("Policy is not a JSON object.")
    resource_of(region, request, "PutResourcePolicy").policy = policy
    return {}


def get_policy(region: Region, request: Request) -> dict[str, Any]:
    """Give the policy of a stream or consumer."""
    return {"Policy": resource_of(region, request, "GetResourcePolicy").policy or _NO_POLICY}


def delete_policy(region: Region, request: Request) -> dict[str, Any]:
    """Remove the policy of a stream or consumer."""
    resource = resource_of(region, request, "DeleteResourcePolicy")
    if resource.policy is None:
        raise resource_not_found(f"No resource policy found for {resource.name}.")
    resource.policy = None
    return {}
