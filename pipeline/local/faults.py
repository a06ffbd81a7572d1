"""The plan of faults, each of which changes the answers of some calls.

| kind     | the caller sees                                                       |
|----------|-----------------------------------------------------------------------|
| throttle | the service's throttling error; nothing was done                      |
| error    | `code` with HTTP `status`; nothing was done                           |
| delay    | the answer, `seconds` later                                           |
| lost     | a closed connection, though everything was done                       |
| empty    | GetRecords: a page without records although there are some            |
| partial  | PutRecords: each record drawn fails with the throttling error         |

These strike in place of an event of SubscribeToShard, and so the event's records are lost on their way:

| kind      | the caller sees                                                      |
|-----------|----------------------------------------------------------------------|
| silence   | nothing more, on an open connection                                  |
| bad_crc   | the event with a wrong CRC, then the end                             |
| exception | the exception `code` in the stream, then the end                     |
| cut       | half of the event, then a closed connection (HTTP/2: a reset stream) |
| end       | the end of the subscription, as after five minutes                   |
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, fields
from math import inf
from random import Random
from types import NoneType
from typing import Any

from headrace.pipeline.local.errors import AwsError

# Kinds that are applied to an event of a subscription.
WITHIN = frozenset({"silence", "bad_crc", "exception", "cut", "end"})
KINDS = frozenset({"throttle", "error", "delay", "lost", "empty", "partial"}) | WITHIN
# Kinds that are applied to the connection, not to the operation.
AROUND = frozenset({"throttle", "error", "delay", "lost"})


# Faults come as JSON from other processes: their values are checked here, so that they can't break a later call.
_TYPES: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("operation", "service", "resource", "shard", "code", "message"), (str,)),
    "count": (int, NoneType),
    "skip": (int,),
    "status": (int,),
    "probability": (int, float),
    "seconds": (int, float),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault for the calls that match its fields; an empty field matches every call."""

    kind: str
    # Such as GetRecords or UpdateItem; for S3 the HTTP method.
    operation: str = ""
    # One of kinesis, dynamodb, s3 and sts.
    service: str = ""
    # The name of a stream or table; for S3 the beginning of the path, /bucket/key.
    resource: str = ""
    shard: str = ""
    # How many of the matching calls get the fault; None: all.
    count: int | None = None
    # How many matching calls pass before the first one gets the fault.
    skip: int = 0
    probability: float = 1.0
    seconds: float = 0.0
    code: str = "InternalFailure"
    status: int = 500
    message: str = "injected by the fault plan"

    def __post_init__(self) -> None:
        """Refuse an unknown kind of fault, which would have no effect."""
        if self.kind not in KINDS:
            raise ValueError(f"fault kind {self.kind!r} is none of {', '.join(sorted(KINDS))}")
        for name, types in _TYPES.items():
            value = getattr(self, name)
            # A bool is an int in Python, but true is no count.
            if isinstance(value, bool) or not isinstance(value, types):
                raise TypeError(f"fault: {name} can't be {value!r}")
        if not (0 <= self.probability <= 1 and 0 <= self.seconds < inf and 400 <= self.status <= 599):
            raise ValueError("fault: probability is 0 to 1, seconds are not negative, status is 400 to 599")

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Fault:
        """Read a fault from JSON. An unknown field is refused, because a misspelled field would silently have
        no effect."""
        unknown = set(given) - {item.name for item in fields(cls)}
        if unknown or "kind" not in given:
            problem = f"unknown fields {sorted(unknown)}" if unknown else "the field 'kind' is missing"
            raise ValueError(f"fault: {problem}")
        return cls(**given)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The facts about a call to which faults are matched."""

    service: str
    operation: str
    resource: str = ""
    shard: str = ""


@dataclass(slots=True)
class _Planned:
    fault: Fault
    matched: int = 0
    taken: int = 0

    def matches(self, call: Call) -> bool:
        fault = self.fault
        on_resource = call.resource.startswith(fault.resource) if call.service == "s3" else (
            fault.resource in {"", call.resource}
        )  # fmt: skip
        return (
            on_resource
            and fault.operation in {"", call.operation}
            and fault.service in {"", call.service}
            and fault.shard in {"", call.shard}
        )

    @property
    def spent(self) -> bool:
        return self.fault.count is not None and self.taken >= self.fault.count


class FaultPlan:
    """The list of faults. For each call, faults are tried in the order in which they were added."""

    def __init__(self, dice: Random) -> None:
        """Make a plan without faults."""
        self._dice = dice
        self._planned: list[_Planned] = []

    def __bool__(self) -> bool:
        """Tell whether any fault can still apply, so that calls without faults cost nothing extra."""
        return bool(self._planned)

    def add(self, fault: Fault) -> None:
        """Add a fault."""
        self._planned.append(_Planned(fault))

    def clear(self) -> None:
        """Remove all faults."""
        self._planned.clear()

    def draw(self, kinds: Collection[str], call: Call) -> Fault | None:
        """Give the first fault of these kinds that applies to a call; None where none does."""
        for planned in self._planned:
            fault = planned.fault
            if fault.kind not in kinds or planned.spent or not planned.matches(call):
                continue
            planned.matched += 1
            # For a certain fault no number is drawn, so that it doesn't change the luck of the others.
            if planned.matched > fault.skip and (
                fault.probability >= 1 or self._dice.random() < fault.probability
            ):
                planned.taken += 1
                return fault
        return None

    def described(self) -> list[dict[str, Any]]:
        """Give the list of faults, with how often each fault matched and was applied."""
        return [asdict(item.fault) | {"seen": item.matched, "taken": item.taken} for item in self._planned]


_THROTTLED_READS_AND_WRITES = frozenset({"GetRecords", "GetShardIterator", "PutRecord", "PutRecords"})


def error_of_fault(fault: Fault, call: Call) -> AwsError | None:
    """Give the error with which a call is answered because of a fault; None for a fault with which the call is
    carried out.
    """
    if fault.kind == "error":
        return AwsError(fault.code, fault.message, fault.status)
    if fault.kind != "throttle":
        return None
    if call.service == "s3":
        return AwsError("SlowDown", "Please reduce your request rate.", 503)
    plain = call.service == "kinesis" and call.operation not in _THROTTLED_READS_AND_WRITES
    code = "LimitExceededException" if plain else "ProvisionedThroughputExceededException"
    return AwsError(code, f"Rate exceeded for {call.operation}: {fault.message}")
