"""Consumers of enhanced fan-out: RegisterStreamConsumer, DescribeStreamConsumer, ListStreamConsumers,
DeregisterStreamConsumer.

CREATING --> ACTIVE --> DELETING --> gone        by the clock, as a stream's states are
"""

from __future__ import annotations

import re
from typing import Any

from headrace.pipeline.local.errors import in_use, invalid_argument, over_limit, resource_not_found
from headrace.pipeline.local.fields import (
    Request,
    maybe_instant,
    maybe_number,
    maybe_text,
    tags_field,
    text_field,
)
from headrace.pipeline.local.kinesis.pages_of_names import continued
from headrace.pipeline.local.kinesis.region import Region
from headrace.pipeline.local.kinesis.stream import LocalConsumer, State, Stream
from headrace.pipeline.local.sealed import seal

CONSUMER_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,128}")
# AWS's quotas for a stream. Its on-demand advantage mode allows 50 consumers, which isn't
# simulated.
_MOST = 20
_MOST_CREATING = 5
_A_PAGE = 100


def register_consumer(region: Region, request: Request) -> dict[str, Any]:
    """Register a consumer, which stays CREATING for a while."""
    now = region.clock()
    region.limits.call("RegisterStreamConsumer", "", now)
    name = text_field(request, "ConsumerName", CONSUMER_NAME)
    tags = tags_field(request) if request.get("Tags") is not None else {}
    stream = _stream(region, text_field(request, "StreamARN"), now)
    consumers = stream.settled_consumers(now)
    if name in consumers:
        raise in_use(f"Consumer {name} under stream {stream.name} already exists.")
    if len(consumers) >= _MOST:
        raise over_limit(f"Stream {stream.name} has the most consumers that it may have: {_MOST}.")
    if sum(consumer.state is State.CREATING for consumer in consumers.values()) >= _MOST_CREATING:
        raise over_limit(f"More than {_MOST_CREATING} consumers are in the CREATING state.")
    consumer = LocalConsumer(
        name, f"{stream.arn}/consumer/{name}:{int(now)}", now, now + region.options.transition, tags=tags
    )
    consumers[name] = consumer
    consumer.settle(now)
    return {"Consumer": _described(consumer) | {"ConsumerStatus": str(State.CREATING)}}


def describe_consumer(region: Region, request: Request) -> dict[str, Any]:
    """Describe a consumer, by its ARN or by its stream and name."""
    stream, consumer = _counted(region, request, "DescribeStreamConsumer")
    return {"ConsumerDescription": _described(consumer) | {"StreamARN": stream.arn}}


def deregister_consumer(region: Region, request: Request) -> dict[str, Any]:
    """Deregister a consumer, which stays DELETING for a while. Its subscriptions end at once."""
    _, consumer = _counted(region, request, "DeregisterStreamConsumer")
    if consumer.state is State.CREATING:
        raise in_use(f"Consumer {consumer.name} is CREATING.")
    now = region.clock()
    consumer.state, consumer.due = State.DELETING, now + region.options.transition
    consumer.settle(now)
    return {}


def list_consumers(region: Region, request: Request) -> dict[str, Any]:
    """List a stream's consumers by name, in pages."""
    now = region.clock()
    stream = _stream(region, text_field(request, "StreamARN"), now)
    region.limits.call("ListStreamConsumers", stream.name, now)
    page = maybe_number(request, "MaxResults", least=1, most=10_000) or _A_PAGE
    token, created = maybe_text(request, "NextToken"), maybe_instant(request, "StreamCreationTimestamp")
    if token is not None and created is not None:
        raise invalid_argument("NextToken and StreamCreationTimestamp cannot be provided together.")
    after = "" if token is None else continued("consumers", token, now)
    consumers = stream.settled_consumers(now)
    rest = sorted(name for name in consumers if name > after)
    answer: dict[str, Any] = {"Consumers": [_described(consumers[name]) for name in rest[:page]]}
    if len(rest) > page:
        answer["NextToken"] = seal("consumers", rest[page - 1], repr(now))
    return answer


def consumer_of(region: Region, arn: str, now: float) -> tuple[Stream, LocalConsumer]:
    """Find a consumer by its ARN. A consumer that was registered again has another ARN than before."""
    of_stream, separator, rest = arn.partition("/consumer/")
    if not separator:
        raise invalid_argument(f"ConsumerARN {arn[:200]} is not a consumer's ARN")
    stream = region.find(of_stream.rpartition("/")[2], now)
    consumer = None if stream is None else stream.settled_consumers(now).get(rest.rpartition(":")[0])
    if stream is None or consumer is None or consumer.arn != arn:
        raise resource_not_found(f"Consumer {arn[:200]} not found.")
    return stream, consumer


def _counted(region: Region, request: Request, operation: str) -> tuple[Stream, LocalConsumer]:
    now, arn = region.clock(), maybe_text(request, "ConsumerARN")
    if arn is not None:
        stream, consumer = consumer_of(region, arn, now)
    else:
        name = text_field(request, "ConsumerName", CONSUMER_NAME)
        stream = _stream(region, text_field(request, "StreamARN"), now)
        known = stream.settled_consumers(now).get(name)
        if known is None:
            raise resource_not_found(f"Consumer {name}, stream {stream.name} not found.")
        consumer = known
    region.limits.call(operation, stream.name, now)
    return stream, consumer


def _stream(region: Region, arn: str, now: float) -> Stream:
    return region.made_stream({"StreamARN": arn}, now)


def _described(consumer: LocalConsumer) -> dict[str, Any]:
    return {
        "ConsumerName": consumer.name,
        "ConsumerARN": consumer.arn,
        "ConsumerStatus": str(consumer.state),
        "ConsumerCreationTimestamp": round(consumer.created_at, 3),
    }
