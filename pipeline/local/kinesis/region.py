"""One region's streams, and how a request names one of them."""

from __future__ import annotations

import string
from dataclasses import dataclass, field
from random import Random

from headrace.pipeline.local.clock import Clock
from headrace.pipeline.local.errors import invalid_argument, not_allowed, over_limit, resource_not_found
from headrace.pipeline.local.faults import FaultPlan
from headrace.pipeline.local.fields import STREAM_NAME, Request, maybe_text
from headrace.pipeline.local.kinesis.limits import RegionLimits
from headrace.pipeline.local.kinesis.stream import ACCOUNT, State, Stream

_ID_LETTERS = string.ascii_lowercase + string.digits


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of the simulator."""

    # Seconds that CREATING, UPDATING and DELETING last.
    transition: float = 0.5
    # Whether the limits on requests and bytes a second are enforced.
    throttle: bool = False
    # Open shards a region; AWS's own default is 500 or less.
    shard_limit: int = 20_000
    # Seconds after which a subscription without new records sends an event all the same.
    heartbeat: float = 5.0


@dataclass(slots=True, eq=False)
class Region:
    """The streams and limits of one region."""

    name: str
    clock: Clock
    dice: Random
    options: Options
    faults: FaultPlan
    limits: RegionLimits = field(init=False)
    committed_at: float | None = None
    """When the account committed itself to a minimum throughput (the on-demand advantage mode); None: it hasn't."""
    _streams: dict[str, Stream] = field(default_factory=dict)
    _by_id: dict[str, Stream] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Make a region without streams, with full token buckets."""
        self.limits = RegionLimits(enforced=self.options.throttle)

    def arn(self, name: str) -> str:
        """Give the ARN that a stream of this name has here."""
        # The partition of an ARN follows from the region: AWS has clouds of its own in China and for
        # governments.
        partition = {"cn": "aws-cn", "us-gov": "aws-us-gov"}.get(self.name.rsplit("-", 2)[0], "aws")
        return f"arn:{partition}:kinesis:{self.name}:{ACCOUNT}:stream/{name}"

    def add(self, name: str, now: float) -> Stream:
        """Register a new stream."""
        letters = "".join(self.dice.choices(_ID_LETTERS, k=23))
        stream_id = f"{letters[:20]}-{letters[20:]}"
        stream = Stream(name, self.arn(name), stream_id, now, self.options.transition)
        self._streams[name] = self._by_id[stream_id] = stream
        return stream

    def names(self, now: float) -> list[str]:
        """Give every stream's name in order."""
        # Over a copy of the names, because `find` removes streams that are gone.
        return sorted(name for name in list(self._streams) if self.find(name, now) is not None)

    def streams(self, now: float) -> list[Stream]:
        """Give every stream by name."""
        return [stream for name in self.names(now) if (stream := self.find(name, now)) is not None]

    def find(self, name: str, now: float) -> Stream | None:
        """Find a stream by name, in the state that it has by now."""
        return self._settled(self._streams.get(name), now)

    def find_by_id(self, stream_id: str, now: float) -> Stream | None:
        """Find a stream by the id in a token. A recreated stream has another id."""
        return self._settled(self._by_id.get(stream_id), now)

    def named(self, request: Request) -> str:
        """Give the stream's name, from StreamName or StreamARN: at least one, and both of them the same."""
        names = {maybe_text(request, "StreamName", STREAM_NAME)}
        arn = maybe_text(request, "StreamARN")
        if arn is not None:
            names.add(self._name_in(arn))
        stream_id = maybe_text(request, "StreamId")
        if stream_id is not None:
            # No answer tells one.
            raise resource_not_found(f"StreamId {stream_id} under account {ACCOUNT} not found.")
        names.discard(None)
        if len(names) != 1:
            problem = "do not match" if names else "are absent: one of them must be present"
            raise invalid_argument(f"StreamName and StreamARN {problem}")
        return names.pop() or ""

    def stream(self, request: Request, now: float) -> Stream:
        """Find the stream that a request names."""
        name = self.named(request)
        stream = self.find(name, now)
        if stream is None:
            raise self.no_stream(name)
        return stream

    def made_stream(self, request: Request, now: float) -> Stream:
        """Find a stream that has shards: while CREATING, records and shards are not found."""
        stream = self.stream(request, now)
        if stream.state is State.CREATING:
            raise self.no_stream(stream.name)
        return stream

    def active_stream(self, request: Request, operation: str, now: float) -> Stream:
        """Find an ACTIVE stream for an operation whose calls are counted for the account."""
        self.limits.call(operation, "", now)
        stream = self.stream(request, now)
        stream.need_active()
        return stream

    def check_shard_limit(self, more: int, now: float) -> None:
        """Refuse an operation that would give the account more open shards than its limit."""
        count, limit = self.open_shard_count(now), self.options.shard_limit
        if count + more > limit:
            raise over_limit(
                f"This request would exceed the shard limit for the account {ACCOUNT} in {self.name}. "
                f"Current shard count for the account: {count}. Limit: {limit}. "
                f"Number of additional shards that would have resulted from this request: {more}."
            )

    def open_shard_count(self, now: float) -> int:
        """Count the open shards, which the account's limit is about."""
        return sum(len(self._streams[name].open_shards) for name in self.names(now))

    @staticmethod
    def no_stream(name: str) -> Exception:
        """Say that there is no such stream."""
        return resource_not_found(f"Stream {name} under account {ACCOUNT} not found.")

    def _name_in(self, arn: str) -> str:
        name = arn.rpartition("/")[2]
        if STREAM_NAME.fullmatch(name) is None or not arn.startswith("arn:") or ":stream/" not in arn:
            raise invalid_argument(f"StreamARN {arn[:200]} is not a stream's ARN")
        if arn.split(":")[4] != ACCOUNT:
            # As IAM answers for a stream of another account that has no policy for the caller, whether it
            # exists or not.
            raise not_allowed(arn[:200])
        if arn != self.arn(name):
            raise resource_not_found(f"Stream {arn[:200]} not found in {self.name} under account {ACCOUNT}.")
        return name

    def _settled(self, stream: Stream | None, now: float) -> Stream | None:
        if stream is None:
            return None
        stream.settle(now)
        if not stream.gone:
            return stream
        del self._streams[stream.name], self._by_id[stream.stream_id]
        return None
