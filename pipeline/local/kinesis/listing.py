"""ListShards: pages, tokens, filters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headrace.pipeline.local.errors import AwsError, invalid_argument, resource_not_found
from headrace.pipeline.local.fields import (
    SHARD_ID,
    Request,
    choice,
    maybe_instant,
    maybe_mapping,
    maybe_number,
    maybe_text,
)
from headrace.pipeline.local.kinesis.region import Region
from headrace.pipeline.local.kinesis.shard import LocalShard
from headrace.pipeline.local.kinesis.stream import State, Stream
from headrace.pipeline.local.sealed import NotSealedError, seal, unseal

# MaxResults may ask for more; AWS answers with at most this many.
PAGE = 1000
# AWS: tokens expire after 300 seconds.
TOKEN_SECONDS = 300
_TIMED = frozenset({"AT_TIMESTAMP", "FROM_TIMESTAMP"})
_TYPES = _TIMED | {"AFTER_SHARD_ID", "AT_LATEST", "AT_TRIM_HORIZON", "FROM_TRIM_HORIZON"}
_NOT_WITH_TOKEN = ("StreamName", "ExclusiveStartShardId", "StreamCreationTimestamp", "ShardFilter")


@dataclass(frozen=True, slots=True)
class ShardFilter:
    """The filter of a ListShards request."""

    kind: str = "FROM_TRIM_HORIZON"
    instant: float = 0.0
    shard_id: str = ""

    @classmethod
    def of(cls, request: Request) -> ShardFilter:
        """Read a filter; each type has the parameter that it needs, and no other."""
        given = maybe_mapping(request, "ShardFilter")
        if given is None:
            return cls()
        kind = choice(given, "Type", _TYPES)
        instant, shard_id = maybe_instant(given, "Timestamp"), maybe_text(given, "ShardId", SHARD_ID)
        if (instant is not None) != (kind in _TIMED):
            raise invalid_argument(
                f"ShardFilter: Timestamp goes with AT_TIMESTAMP and FROM_TIMESTAMP, not {kind}."
            )
        if (shard_id is not None) != (kind == "AFTER_SHARD_ID"):
            raise invalid_argument(
                f"ShardFilter: ShardId goes with AFTER_SHARD_ID only, which needs it, not {kind}."
            )
        return cls(kind, instant or 0.0, shard_id or "")

    def keeps(self, shard: LocalShard, horizon: float) -> bool:
        """Tell whether a listed shard belongs in the answer."""
        closed, opened = shard.closed_at, shard.opened_at
        # A time before the oldest kept record counts as the time of that record.
        instant = max(self.instant, horizon)
        match self.kind:
            case "AT_LATEST":
                return closed is None
            case "AT_TRIM_HORIZON":
                # The end is exclusive: a parent and its child are never both open, so ranges are covered once.
                return opened <= horizon and (closed is None or closed > horizon)
            case "AT_TIMESTAMP":
                return opened <= instant and (closed is None or closed >= instant)
            case "FROM_TIMESTAMP":
                return closed is None or closed >= instant
            case "AFTER_SHARD_ID":
                return shard.shard_id > self.shard_id
            case _:
                return True


def list_shards(region: Region, request: Request) -> dict[str, Any]:
    """List a stream's shards by index, at most 1,000 a page."""
    now = region.clock()
    page = min(maybe_number(request, "MaxResults", least=1, most=10_000) or PAGE, PAGE)
    token = maybe_text(request, "NextToken")
    if token is not None:
        stream, after, shard_filter = _continued(region, request, token, now)
    else:
        stream = region.stream(request, now)
        shard_filter, after = (
            ShardFilter.of(request),
            maybe_text(request, "ExclusiveStartShardId", SHARD_ID) or "",
        )
        _check_creation(request, stream)
    region.limits.call("ListShards", stream.name, now)
    if stream.state in {State.CREATING, State.DELETING}:
        raise stream.wrong_state()
    horizon = stream.horizon(now)
    rest = [s for s in stream.shards if not s.gone and s.shard_id > after and shard_filter.keeps(s, horizon)]
    answer: dict[str, Any] = {"Shards": [shard.described() for shard in rest[:page]]}
    if len(rest) > page:
        kind, instant, start = shard_filter.kind, repr(shard_filter.instant), shard_filter.shard_id
        last = rest[page - 1].shard_id
        answer["NextToken"] = seal("shards", stream.stream_id, last, kind, instant, start, repr(now))
    return answer


def _continued(region: Region, request: Request, token: str, now: float) -> tuple[Stream, str, ShardFilter]:
    forbidden = [field for field in _NOT_WITH_TOKEN if request.get(field) is not None]
    if forbidden:
        raise invalid_argument(f"NextToken and {forbidden[0]} cannot be provided together.")
    try:
        stream_id, last, kind, instant, start, created = unseal("shards", token)
    except NotSealedError as error:
        raise invalid_argument("Invalid NextToken.") from error
    if now - float(created) > TOKEN_SECONDS:
        raise AwsError(
            "ExpiredNextTokenException", f"NextToken expired: it is older than {TOKEN_SECONDS} seconds."
        )
    stream = region.find_by_id(stream_id, now)
    if stream is None:
        raise resource_not_found("The stream of the NextToken was not found.")
    if request.get("StreamARN") is not None and region.named(request) != stream.name:
        raise invalid_argument("StreamARN does not match the stream of the NextToken.")
    return stream, last, ShardFilter(kind, float(instant), start)


def _check_creation(request: Request, stream: Stream) -> None:
    # The creation time tells streams of the same name apart. Some clients send it in whole seconds.
    given = maybe_instant(request, "StreamCreationTimestamp")
    if given is not None and int(given) != int(stream.created_at):
        raise resource_not_found(f"Stream {stream.name} created at {given} not found.")
