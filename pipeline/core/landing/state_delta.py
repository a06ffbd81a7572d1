"""How the positions of a table with very many shards (its state) are kept: a full state in one file, and what has
changed since in another.

    full state A          all positions, written seldom
    snapshot 11           A, and the 100 shards that moved since A
    snapshot 12           A, and the 190 shards that moved since A: never "snapshot 11, and 100 more"
    snapshot 13           full state B

Each snapshot leads to its state by itself, so that it can be read after every other snapshot has expired.

A digest protects against a delta that lacks a shard. It comes from the digest of the snapshot below and the
ledger, while the positions come from the full state and the delta; whoever reads them compares (I34 of
docs/reference/protocol.md). It is a sum over shards and origins, so that a landing changes only its own part.
Pure functions on values.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from headrace.pipeline.core.landing.landing import Landing
from headrace.pipeline.core.shards.position import Origin, Position, Positions
from headrace.pipeline.core.shards.stream import ShardKey, StreamId

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
# The digest is a sum of SHA-256 numbers: a commit subtracts the former numbers of its shards and adds the new
# ones.
_MODULUS = 2**256


@dataclass(frozen=True, slots=True)
class FullState:
    """All positions of a table at one snapshot, as a full file has them."""

    positions: Positions
    numbers: Mapping[ShardKey, int]
    """What each shard adds to the digest. Kept, because each delta against this state subtracts some of them."""
    digest: int

    @classmethod
    def of(cls, positions: Positions) -> FullState:
        numbers = {key: _of_shard(key, position) for key, position in positions.shards.items()}
        return cls(positions, numbers, (sum(numbers.values()) + _of_origins(positions)) % _MODULUS)


@dataclass(frozen=True, slots=True)
class Delta:
    """All positions that differ from a full state."""

    origins: Mapping[StreamId, Origin] = field(default_factory=dict)
    """All origins, whether they changed or not: a table has few of them."""
    moved: Mapping[ShardKey, Position] = field(default_factory=dict)
    """The shards that are new or have another position."""
    dropped: frozenset[ShardKey] = frozenset()
    """The shards of the full state that have no position any more."""
    spent: int = 0
    """The shards in all deltas that were written since the full state, this delta included."""


@dataclass(frozen=True, slots=True)
class TiedState:
    """The positions of one snapshot, with the digest that shows that they agree with the ledgers, and with the
    full state and the delta that they were made of. The delta of the next snapshot is made from it.
    """

    full: FullState
    delta: Delta
    digest: int
    positions: Positions


def as_full(positions: Positions) -> TiedState:
    """The state of a snapshot that writes all positions into a new full file."""
    return unchanged(FullState.of(positions))


def unchanged(full: FullState) -> TiedState:
    return TiedState(full, Delta(full.positions.origins), full.digest, full.positions)


def restored(full: FullState, delta: Delta, digest: int) -> TiedState | None:
    """The positions that the full state and the delta give together. None where their digest isn't `digest`."""
    if _digest_with(full, delta) != digest:
        return None
    return TiedState(full, delta, digest, _applied(full, delta))


def plan_state(base: TiedState, landing: Landing) -> TiedState:
    """What to write for a landing on this base: a delta against the base's full state, or a full state of its own.

    A full state is due when the deltas together would have more shards than it has itself. So a table whose shards all
    move at each commit writes full states only, one of whose shards few move writes them seldom, and neither writes
    more than twice what the best choice of moments would have written.
    """
    page, full = landing.page, base.full.positions.shards
    touched = {r.key for r in page.ranges if r.moves} | set(page.dropped)
    moved: dict[ShardKey, Position] = {}
    dropped: set[ShardKey] = set()
    for key in touched | base.delta.moved.keys() | base.delta.dropped:
        position = landing.positions.of(key)
        # A shard that came and went since the full state needs no mention.
        if position is None:
            if key in full:
                dropped.add(key)
        elif position != full.get(key):
            moved[key] = position
    spent = base.delta.spent + len(moved) + len(dropped)
    delta = Delta({**dict(page.origins), **base.delta.origins}, moved, frozenset(dropped), spent)
    # By the ledger and not by the positions: so an error in either of the two shows.
    digest = _digest_by_ledger(base, landing, touched)
    # What was spent decides, and no fixed number of commits, which would be right for one traffic only.
    if spent > len(full):
        planned = as_full(landing.positions)
        agree = planned.digest == digest
    else:
        planned = TiedState(base.full, delta, digest, landing.positions)
        agree = _applied(base.full, delta) == landing.positions
    if not agree:
        raise ValueError("a landing's positions aren't those of its base with its ledger applied")
    return planned


def _digest_by_ledger(base: TiedState, landing: Landing, touched: Iterable[ShardKey]) -> int:
    """The digest of the base with the landing's ledger applied."""
    before = ((key, base.positions.of(key)) for key in touched)
    after = ((key, landing.positions.of(key)) for key in touched)
    digest = base.digest - _of_shards(before) + _of_shards(after)
    return (digest + sum(_of_origin(*decided) for decided in landing.page.origins)) % _MODULUS


def _applied(full: FullState, delta: Delta) -> Positions:
    return Positions(delta.origins, full.positions.with_shards(delta.moved, delta.dropped).shards)


def _digest_with(full: FullState, delta: Delta) -> int:
    changed = (*delta.moved, *delta.dropped)
    gone = sum(full.numbers.get(key, 0) for key in changed)
    digest = full.digest - gone + _of_shards(delta.moved.items())
    if delta.origins != full.positions.origins:
        digest += _of_origins(Positions(delta.origins)) - _of_origins(full.positions)
    return digest % _MODULUS


def _of_shards(shards: Iterable[tuple[ShardKey, Position | None]]) -> int:
    return sum(_of_shard(key, position) for key, position in shards if position is not None)


def _of_shard(key: ShardKey, position: Position) -> int:
    # Times in milliseconds, as the file has them: what is read later has to give the same digest.
    start = "" if position.start is None else f"from {_ms(position.start.at)}"
    skipped = "" if position.skipped_until is None else f"\nskipped {_ms(position.skipped_until)}"
    return _number(
        f"{key.stream.arn}\n{key.stream.epoch}\n{key.shard_id}\n{position.sequence}\n{position.sub}\n{position.ended:d}\n{position.gap_accepted:d}\n"
        f"{_ms(position.arrival)}\n{_ms(position.seen)}\n{start}\n{','.join(position.children)}\n{position.inside:d}{skipped}"
    )


def _of_origins(positions: Positions) -> int:
    return sum(_of_origin(stream, origin) for stream, origin in positions.origins.items())


def _of_origin(stream: StreamId, origin: Origin) -> int:
    return _number(f"{stream.arn}\n{stream.epoch}\n{_ms(origin.start.at)}\n{_ms(origin.decided)}")


def _ms(when: datetime | None) -> int | None:
    return None if when is None else (when - _EPOCH) // _MILLISECOND


def _number(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest())
