"""A table whose chain of positions is broken: where does it stand, by all that it still tells?

    only cherry-picks broke it      the positions below them, with the picked ranges landed upon them: each must begin
                                    where its shard stands, or rows between are missing
    the way down is lost            a shard with rows stands at the last of them; with a descendant that has rows it has
                                    ended; one without rows stands where the newest snapshot of ours that is still
                                    known says so, unless that one passed over records that were landed and aren't
                                    here: it was rolled back; one of which neither tells stands nowhere, whoever
                                    descends from it (it may have ended before the start), unless it descends from one
                                    that has ended here
    nothing on main is ours         the rows alone: what other snapshots landed isn't in the table, and is read again

A person looks at the plan before it is done: what stood further before is read again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from pipeline.core.landing import Landing, Proposal, decide_landing
from pipeline.core.lineage import Kind, LedgerPage, Range
from pipeline.core.order import Family
from pipeline.core.position import Origin, Position, Positions, is_forward
from pipeline.core.start_of_reading import Stop
from pipeline.core.stream import ShardKey, StreamId
from pipeline.core.words import counted


@dataclass(frozen=True, slots=True)
class LastRow:
    """The highest sequence number of a shard in the table."""

    sequence: int
    arrival: datetime | None = None


@dataclass(frozen=True, slots=True)
class Picked:
    """A cherry-pick on main, above all positions of ours."""

    snapshot: int
    page: LedgerPage | None
    """What its source said that it landed; None where the source is known no more."""


@dataclass(frozen=True, slots=True)
class KnownState:
    """A snapshot of ours that metadata still knows, on main or not."""

    snapshot: int
    positions: Positions
    page: LedgerPage


@dataclass(frozen=True, slots=True)
class TableEvidence:
    head: int | None
    reached: Positions | None
    """Of the newest snapshot of ours on main, with cherry-picks passed over; None: the way to it is lost."""
    picked: tuple[Picked, ...]
    """Above it, oldest first."""
    rows: Mapping[ShardKey, LastRow]
    known: tuple[KnownState, ...]
    """Newest first."""
    is_whole: bool = False
    """Main is known down to its root, and nothing on it is ours: it was rolled back to before us, or replaced."""
    strangers: int = 0
    """Rows of streams that neither the settings nor any snapshot of ours know."""


@dataclass(frozen=True, slots=True)
class Repair:
    on: int | None
    """The snapshot that this was planned on."""
    landing: Landing
    sentences: tuple[str, ...]


def plan_repair(
    evidence: TableEvidence,
    families: Mapping[StreamId, Family],
    *,
    origins: Mapping[StreamId, Origin],
    gone: Collection[ShardKey] = (),
    why: str,
    run: str,
) -> Repair | Stop:
    """`origins`: what the person says where no snapshot knows it. `gone`: shards that Kinesis has forgotten."""
    if evidence.reached is None and evidence.picked:
        return Stop(
            f"snapshot {evidence.picked[0].snapshot} is a cherry-pick, and what lies below it is lost: whether rows are missing "
            "between can't be told. Nothing was changed; delete its rows, or roll back to before it, then repair again"
        )
    rows, known = evidence.rows, _newest(evidence.known).shards
    # Nothing reads these again: they need no position.
    forgotten = {key: last for key, last in rows.items() if key not in known and key in gone}
    evidence = replace(evidence, rows={key: rows[key] for key in rows.keys() - forgotten.keys()})
    rebuilt = _upon(evidence) if evidence.reached is not None else _from_rows(evidence, families, origins)
    if isinstance(rebuilt, Stop):
        return rebuilt
    without = sorted({str(key.stream) for key in evidence.rows if key.stream not in rebuilt.origins})
    if without:
        return Stop(
            f"no snapshot that is still known says where {without[0]} began. Nothing was changed; say it: --origin "
            "TRIM_HORIZON, or the moment that LATEST or AT_TIMESTAMP stood for"
        )
    before = _newest(evidence.known)
    ranges = tuple(
        Range(
            Kind.REPAIR,
            key,
            after=before.shards.get(key),
            upto=at,
            run=run,
            claim=run,
            why=why,
        )
        for key, at in sorted(rebuilt.shards.items())
    )
    page = LedgerPage(ranges, tuple(sorted(rebuilt.origins.items())))
    told = (*_sentences(before, rebuilt, evidence), *_farewell(forgotten, _ancestors(rows, families)))
    return Repair(evidence.head, Landing(page, (), (), rebuilt), told)


def _farewell(forgotten: Mapping[ShardKey, LastRow], ended: Collection[ShardKey]) -> tuple[str, ...]:
    """The last that is heard of shards that nothing proves ended."""
    last = [f"{key} ({forgotten[key].sequence})" for key in sorted(forgotten.keys() - set(ended))]
    if not last:
        return ()
    told = (
        f"{counted(len(last), 'shard')} {'gets' if len(last) == 1 else 'get'} no position, for Kinesis has forgotten what "
        f"no snapshot knows; nothing tells whether records after the last rows were lost: {', '.join(last)}"
    )
    return (told,)


def _ancestors(rows: Collection[ShardKey], families: Mapping[StreamId, Family]) -> frozenset[ShardKey]:
    """Of shards with rows."""
    placed = Positions({}, dict.fromkeys(rows, Position()))
    return frozenset(
        ShardKey(stream, above) for stream, family in families.items() for above in family.passed(placed)
    )


def _upon(evidence: TableEvidence) -> Positions | Stop:
    """The picked ranges are judged as any landing is."""
    positions = evidence.reached or Positions()
    for pick in evidence.picked:
        if pick.page is None:
            return Stop(
                f"snapshot {pick.snapshot} is a cherry-pick whose source isn't known any more, so what it brought can't be "
                "told. Nothing was changed; delete its rows (or roll back to before it), then repair again"
            )
        moves = tuple(each for each in pick.page.ranges if each.moves)
        landing = decide_landing(positions, Proposal(moves, origins=pick.page.origins))
        if landing.refused:
            bad = landing.refused[0]
            return Stop(
                f"snapshot {pick.snapshot} is a cherry-pick that brought rows of {bad.range.key} from after "
                f"{bad.range.after or 'its start'} up to {bad.range.upto}, but the table stands at {bad.found or 'nothing'}: "
                "what lies between is missing. Nothing was changed; delete these rows (or roll back to before the "
                "cherry-pick), then repair again"
            )
        positions = landing.positions
    for key, last in sorted(evidence.rows.items()):
        at = positions.of(key)
        if at is not None and (at.sequence or -1) < last.sequence:
            return Stop(
                f"the table holds rows of {key} up to {last.sequence}, but its position is {at}: "
                "reading on would land them twice. Nothing was changed; delete the rows beyond, then repair again"
            )
    return positions


def _from_rows(
    evidence: TableEvidence, families: Mapping[StreamId, Family], origins: Mapping[StreamId, Origin]
) -> Positions:
    newest = _newest(evidence.known)
    with_rows = {key: _stands(newest.of(key), last) for key, last in evidence.rows.items()}
    ended = _ancestors(with_rows, families)
    believed = () if evidence.is_whole else _believed(evidence)
    shards = {**_newest(believed).shards, **with_rows}
    for key in _to_be_ended(ended, shards, families):
        children = families[key.stream].children.get(key.shard_id, frozenset())
        at = shards.get(key, Position())
        shards[key] = replace(at, ended=True, children=at.children or tuple(sorted(children)))
    return Positions({**origins, **newest.origins}, shards)


def _to_be_ended(
    ended: Collection[ShardKey], placed: Collection[ShardKey], families: Mapping[StreamId, Family]
) -> list[ShardKey]:
    """Those with a position, and what lies below them: a child that an END names and that has none would be read again
    once its descendants' ENDs are cleared away. Above them nothing is named, and nothing proves an END."""
    found = {key for key in ended if key in placed}
    todo = list(found)
    while todo:
        key = todo.pop()
        children = families[key.stream].children.get(key.shard_id, frozenset())
        below = ({ShardKey(key.stream, child) for child in children} & set(ended)) - found
        found |= below
        todo += below
    return sorted(found)


def _stands(known: Position | None, last: LastRow) -> Position:
    """What is known of the very same record is worth more than the record: its end, and when its tip was seen."""
    if known is not None and known.sequence == last.sequence:
        return known
    return Position(last.sequence, arrival=last.arrival)


def _believed(evidence: TableEvidence) -> list[KnownState]:
    """What each snapshot says of shards without rows. One that was built on a landing that the table doesn't hold was
    rolled back, and the records of other shards may be missing with it: of it only those count that had no record yet.
    """
    missing: dict[ShardKey, int] = {}
    for state in evidence.known:
        for each in state.page.ranges:
            upto, last = each.upto.sequence, evidence.rows.get(each.key)
            if each.rows and upto is not None and (last is None or last.sequence < upto):
                missing[each.key] = min(upto, missing.get(each.key, upto))
    return [
        replace(state, positions=_without_records(state.positions))
        if any(_has_passed(state.positions.of(key), upto) for key, upto in missing.items())
        else state
        for state in evidence.known
    ]


def _has_passed(at: Position | None, sequence: int) -> bool:
    return at is not None and at.sequence is not None and at.sequence >= sequence


def _without_records(positions: Positions) -> Positions:
    return replace(positions, shards={k: at for k, at in positions.shards.items() if at.sequence is None})


def _newest(states: Sequence[KnownState]) -> Positions:
    """Each shard and each origin as the newest snapshot has it that speaks of it."""
    found = Positions()
    for state in reversed(states):
        found = Positions(
            {**state.positions.origins, **found.origins}, {**found.shards, **state.positions.shards}
        )
    return found


def _sentences(before: Positions, after: Positions, evidence: TableEvidence) -> list[str]:
    told = []
    for key, at in sorted(after.shards.items()):
        was = before.of(key)
        if was is not None and was.token != at.token and is_forward(at, was):
            told.append(f"{key}: is read again from {at}; it stood at {was}")
        elif was is None or was.token != at.token:
            told.append(f"{key}: stands at {at}, by its rows" + (f"; it was known at {was}" if was else ""))
        elif evidence.reached is None and key not in evidence.rows and at.sequence is not None:
            told.append(
                f"{key}: stands at {at} as a snapshot says; the table holds no row of it, and nothing before is read again"
            )
    same = len(after.shards) - len(told)
    told.append(f"{counted(same, 'shard')} unchanged")
    # Where the way down is known, older snapshots tell of ENDs that were let go of since.
    lost = sorted(before.shards.keys() - after.shards.keys()) if evidence.reached is None else ()
    told += [
        f"{key}: stands nowhere, for the table holds no row of it; it was known at {before.of(key)}, and is read again from its start"
        for key in lost
    ]
    if evidence.strangers:
        told.append(f"left alone, of streams that aren't ours: {counted(evidence.strangers, 'row')}")
    return told
