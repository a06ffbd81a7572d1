"""Tags of streams and of consumers, by the operations of streams and by those of all resources."""

from __future__ import annotations

from typing import Any

from headrace.pipeline.local.errors import invalid_argument
from headrace.pipeline.local.fields import Request, sequence_of, tags_field, text_field
from headrace.pipeline.local.kinesis.region import Region
from headrace.pipeline.local.kinesis.resources import resource_of
from headrace.pipeline.local.kinesis.stream import LocalConsumer, State, Stream

_MOST_TAGS = 50


def add_tags(region: Region, request: Request) -> dict[str, Any]:
    """Set some tags of a stream."""
    return _add(_tagged(region, request, "AddTagsToStream"), request)


def remove_tags(region: Region, request: Request) -> dict[str, Any]:
    """Remove some tags of a stream."""
    return _remove(_tagged(region, request, "RemoveTagsFromStream"), request)


def tag_resource(region: Region, request: Request) -> dict[str, Any]:
    """Set some tags of a stream or consumer."""
    return _add(resource_of(region, request, "TagResource"), request)


def untag_resource(region: Region, request: Request) -> dict[str, Any]:
    """Remove some tags of a stream or consumer."""
    return _remove(resource_of(region, request, "UntagResource"), request)


def list_tags_for_resource(region: Region, request: Request) -> dict[str, Any]:
    """List all tags of a stream or consumer by key."""
    tags = resource_of(region, request, "ListTagsForResource").tags
    return {"Tags": [{"Key": key, "Value": tags[key]} for key in sorted(tags)]}


def _tagged(region: Region, request: Request, operation: str) -> Stream:
    now = region.clock()
    region.limits.call(operation, "", now)
    stream = region.stream(request, now)
    if stream.state is State.CREATING:
        raise stream.wrong_state()
    return stream


def _add(resource: Stream | LocalConsumer, request: Request) -> dict[str, Any]:
    merged = resource.tags | tags_field(request)
    if len(merged) > _MOST_TAGS:
        raise invalid_argument(f"{resource.name} cannot have more than {_MOST_TAGS} tags associated with it.")
    resource.tags = merged
    return {}


def _remove(resource: Stream | LocalConsumer, request: Request) -> dict[str, Any]:
    for key in sequence_of(request, "TagKeys", most=_MOST_TAGS):
        resource.tags.pop(text_field({"TagKeys": key}, "TagKeys"), None)
    return {}
