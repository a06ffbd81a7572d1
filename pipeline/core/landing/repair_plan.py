"""Rebuilds the positions of a lake table whose chain of snapshots is broken, from all that the table still has.

    only cherry-picks broke it   The positions below the cherry-picks count, with the cherry-picked ranges landed on top. A range
                                 that doesn't begin at its shard's position stops the repair: rows between are missing,
                                 or rows are there twice. Then only a rollback to before the cherry-pick helps
                                 (`headrace.pipeline.core.landing.picked_trouble`).
    older metadata is lost       A shard with rows gets the position of its last row; it has ended if a descendant has rows.
                                 A shard without rows gets its position from the newest known snapshot of Headrace that
                                 wasn't rolled back. A shard with neither gets no position, even if a descendant has
                                 rows, because it may have ended before the origin; but it gets an END if one of its
                                 parents gets one. A shard that is read again from its start leaves its descendants
                                 without a position.
    no snapshot on main is       Only the rows count. What other snapshots landed isn't in the table, and is read again.
    Headrace's

A person sees the plan before it is carried out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from headrace.pipeline.core.landing.landing import Landing, Proposal, decide_landing
from headrace.pipeline.core.landing.picked_trouble import picked_trouble, way_back
from headrace.pipeline.core.ledger.author import Author
from headrace.pipeline.core.ledger.ledger import Kind, LedgerPage
from headrace.pipeline.core.order.parents import Family
from headrace.pipeline.core.order.start_of_reading import Stop
from headrace.pipeline.core.shards.position import Origin, Position, Positions, is_forward
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.core.words.words import counted


@dataclass(frozen=True, slots=True)
class LastRow:
    """The row of a shard with the highest sequence number in the table and, of its user records, the highest
    sub-sequence number.
    """

    sequence: int
    arrival: datetime | None = None
    sub: int = 0


@dataclass(frozen=True, slots=True)
class Picked:
    """A cherry-picked snapshot on main, newer than the newest snapshot there that has positions."""

    snapshot: int
    page: LedgerPage | None
    """The ledger of the snapshot that was cherry-picked; None where no metadata file describes that snapshot any
    more."""
    before: int | None = None
    """The snapshot below it on main; None where nothing tells."""


@dataclass(frozen=True, slots=True)
class KnownState:
    """A snapshot of Headrace that a metadata file still describes, whether it is on main or not."""

    snapshot: int
    positions: Positions
    page: LedgerPage


@dataclass(frozen=True, slots=True)
class TableEvidence:
    """What a table whose chain of snapshots is broken still has: rows, cherry-picks and known snapshots."""

    head: int | None
    """The newest snapshot of main."""
    reached: Positions | None
    """The positions of the newest snapshot of Headrace on main, below any cherry-picks; None where older metadata is
    lost before such a snapshot is reached."""
    picked: tuple[Picked, ...]
    """The cherry-picks above that snapshot, oldest first."""
    rows: Mapping[ShardKey, LastRow]
    known: tuple[KnownState, ...]
    """Newest first."""
    is_whole: bool = False
    """Main is known down to its first snapshot, and none of them is Headrace's: main was rolled back to before
    Headrace's first commit, or replaced."""
    unknown_rows: int = 0
    """The number of rows that can't have landed: of streams that neither the settings nor any snapshot of Headrace
    knows, or without a shard, an epoch or a sequence number. Another engine has inserted them."""


@dataclass(frozen=True, slots=True)
class Repair:
    """The planned commit, and the sentences that tell a person what it changes."""

    on: int | None
    """The newest snapshot of main at the time of planning. The commit is refused if main has moved since."""
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
    """Plan the positions that the table gets, or say why it can't get any.

    `origins`: the origins that the person names, for streams of which no snapshot knows the origin. `gone`: shards
    that Kinesis has forgotten.
    """
    if evidence.reached is None and evidence.picked:
        first = evidence.picked[0]
        return Stop(
            f"snapshot {first.snapshot} is a cherry-pick, "
            "and the snapshots below it aren't known any more, so nothing tells whether rows between "
            f"them are missing, or are there twice. Nothing was changed. {way_back(first.before)}; then repair again"
        )
    rows, known_shards = evidence.rows, _newest(evidence.known).shards
    # Shards that Kinesis has forgotten can't be read again, so they need no position.
    forgotten = {key: last for key, last in rows.items() if key not in known_shards and key in gone}
    evidence = replace(evidence, rows={key: rows[key] for key in rows.keys() - forgotten.keys()})
    if evidence.reached is not None:
        rebuilt = _with_cherry_picks(evidence, evidence.reached)
    else:
        rebuilt = _from_rows(evidence, families, origins)
    if isinstance(rebuilt, Stop):
        return rebuilt
    without = sorted({key.stream for key in evidence.rows if key.stream not in rebuilt.origins})
    if without:
        return Stop(_no_origin(without))
    if not rebuilt.origins:
        return Stop(_no_origin(families))
    before = _newest(evidence.known)
    ranges = tuple(
        Author(run).range(Kind.REPAIR, key, before.shards.get(key), position, why=why)
        for key, position in sorted(rebuilt.shards.items())
    )
    page = LedgerPage(ranges, tuple(sorted(rebuilt.origins.items())))
    sentences = (
        *_sentences(before, rebuilt, evidence),
        *_sentence_on_forgotten(forgotten, _ancestors(rows, families)),
    )
    return Repair(evidence.head, Landing(page, (), (), rebuilt), sentences)


def _no_origin(streams: Collection[StreamId]) -> str:
    """Why a repair without an origin stops. `streams`: the streams without one that Kinesis or the table's rows
    know."""
    # Positions without any origin must not be committed: no run decides an origin in a table that was used before, and
    # a second repair would find nothing to repair.
    if not streams:
        return (
            "no snapshot that is still known says where the reading of a stream started, "
            "and Kinesis knows none of the streams in the "
            "settings and the lease rows. Nothing was changed; check their names and aws.region, then repair again"
        )
    return (
        f"no snapshot that is still known says where the reading of {min(streams)} started. "
        "Nothing was changed; name the start "
        "with --origin: TRIM_HORIZON, or the moment that LATEST or AT_TIMESTAMP stood for"
    )


def _sentence_on_forgotten(
    forgotten: Mapping[ShardKey, LastRow], ended: Collection[ShardKey]
) -> tuple[str, ...]:
    """A sentence on the forgotten shards of which no row of a descendant proves that they ended; nothing where there
    are none."""
    last = [f"{key} (last row: {forgotten[key].sequence})" for key in sorted(forgotten.keys() - set(ended))]
    if not last:
        return ()
    sentence = (
        f"{counted(len(last), 'shard')} {'gets' if len(last) == 1 else 'get'} no position, "
        "because neither Kinesis nor a snapshot "
        f"knows {'it' if len(last) == 1 else 'them'} any more; "
        f"records after the last rows may be lost: {', '.join(last)}"
    )
    return (sentence,)


def _ancestors(rows: Collection[ShardKey], families: Mapping[StreamId, Family]) -> frozenset[ShardKey]:
    """The ancestors of the shards with rows. They have ended: a child's records land only after its parents' END
    (I3)."""
    placed = Positions({}, dict.fromkeys(rows, Position()))
    return frozenset(
        ShardKey(stream, above) for stream, family in families.items() for above in family.passed(placed)
    )


def _with_cherry_picks(evidence: TableEvidence, positions: Positions) -> Positions | Stop:
    """The positions after the cherry-picked ranges, each of which is judged as a commit of a run would be."""
    for pick in evidence.picked:
        if pick.page is None:
            return Stop(
                f"snapshot {pick.snapshot} is a cherry-pick of a snapshot that isn't known any more, "
                "so nothing tells which records it brought. "
                f"Nothing was changed. {way_back(pick.before)}; then landing goes on by itself"
            )
        # A cherry-pick brings the rows of a snapshot and not its summary, so only its source tells which ranges these
        # are.
        moves = tuple(recorded for recorded in pick.page.ranges if recorded.moves)
        landing = decide_landing(positions, Proposal(moves, origins=pick.page.origins))
        if landing.refused:
            return Stop(picked_trouble(pick.snapshot, landing.refused[0], before=pick.before))
        positions = landing.positions
    # Another engine may have inserted rows of Headrace's streams. Reading on from the positions would land them twice.
    for key, last in sorted(evidence.rows.items()):
        position = positions.of(key)
        stands = Position(last.sequence, last.sub)
        if position is not None and not is_forward(stands, replace(position, ended=False)):
            return Stop(
                f"the table holds rows of {key} up to {stands}, but its position is {position}: "
                "reading on would land these rows twice. Nothing was "
                "changed. No ledger tells who wrote the rows after the position: "
                "roll main back to before the snapshot of another engine that "
                "brought them. Or delete them, if the stream still has their "
                "records (`headrace status` tells how long it keeps them), so that "
                "they are read again; then repair again"
            )
    return positions


def _from_rows(
    evidence: TableEvidence, families: Mapping[StreamId, Family], origins: Mapping[StreamId, Origin]
) -> Positions:
    newest = _newest(evidence.known)
    with_rows = {key: _position_at(newest.of(key), last) for key, last in evidence.rows.items()}
    ended = _ancestors(with_rows, families)
    # Rows win over snapshots. Where main was rolled back to before Headrace's first commit, no snapshot counts for
    # positions.
    trusted = () if evidence.is_whole else _trusted(evidence)
    shards = {**_newest(trusted).shards, **with_rows}
    for key in _descendants(newest.shards.keys() - shards.keys() - ended, families):
        shards.pop(key, None)
    for key in _to_be_ended(ended, shards, families):
        children = families[key.stream].children.get(key.shard_id, frozenset())
        position = shards.get(key, Position())
        shards[key] = replace(position, ended=True, children=position.children or tuple(sorted(children)))
    return Positions({**origins, **newest.origins}, shards)


def _descendants(keys: Collection[ShardKey], families: Mapping[StreamId, Family]) -> frozenset[ShardKey]:
    """The descendants of shards that are read again from their start. They get no position, whatever a snapshot says that main has
    left: with it the shard above would count as ended (`core.order.parents`), and its records would be passed over."""
    return frozenset(
        ShardKey(key.stream, below)
        for key in keys
        if key.stream in families
        for below in families[key.stream].below(key.shard_id)
    )


def _to_be_ended(
    ended: Collection[ShardKey], placed: Collection[ShardKey], families: Mapping[StreamId, Family]
) -> list[ShardKey]:
    """The shards that get an END: those with a position, and their descendants as far as these are ancestors of shards
    with rows."""
    # A child that an END names counts as unread without a position, as soon as clean-up has removed the ENDs of its own
    # descendants: so it gets an END too. Ancestors without a position stay without one: nothing names them, and nothing
    # proves that they were read.
    to_end = {key for key in ended if key in placed}
    todo = list(to_end)
    while todo:
        key = todo.pop()
        children = families[key.stream].children.get(key.shard_id, frozenset())
        below = ({ShardKey(key.stream, child) for child in children} & set(ended)) - to_end
        to_end |= below
        todo += below
    return sorted(to_end)


def _position_at(earlier: Position | None, last: LastRow) -> Position:
    """The position of a shard whose last row is this one."""
    # A snapshot with the same record knows more than the row does: the shard's end, its children, and `seen`.
    # Not where it was inside an aggregate of which the row is a later user record.
    position = Position(last.sequence, last.sub, arrival=last.arrival)
    return (
        earlier
        if earlier is not None and earlier.sequence == last.sequence and is_forward(position, earlier)
        else position
    )


def _trusted(evidence: TableEvidence) -> list[KnownState]:
    """The known snapshots, with the positions that count for shards without rows.

    A snapshot that was built on a landing whose rows the table doesn't have was rolled back. Rows of other shards may
    be missing too, so from such a snapshot only positions without a record count.
    """
    # For each shard, the lowest end of a range whose rows the table lacks.
    missing: dict[ShardKey, int] = {}
    for state in evidence.known:
        for recorded in state.page.ranges:
            upto, last = recorded.upto.sequence, evidence.rows.get(recorded.key)
            if recorded.rows and upto is not None and (last is None or last.sequence < upto):
                missing[recorded.key] = min(upto, missing.get(recorded.key, upto))
    return [
        replace(state, positions=_without_records(state.positions))
        if any(_has_passed(state.positions.of(key), upto) for key, upto in missing.items())
        else state
        for state in evidence.known
    ]


def _has_passed(position: Position | None, sequence: int) -> bool:
    return position is not None and position.sequence is not None and position.sequence >= sequence


def _without_records(positions: Positions) -> Positions:
    return replace(
        positions,
        shards={k: position for k, position in positions.shards.items() if position.sequence is None},
    )


def _newest(states: Sequence[KnownState]) -> Positions:
    """Each shard's position from the newest snapshot that has one, and all origins, which never change. `states`:
    newest first."""
    positions = Positions()
    # From the oldest on, so that newer positions replace older ones; an origin never changes, so that any one
    # will do.
    for state in reversed(states):
        positions = Positions(
            {**state.positions.origins, **positions.origins}, {**positions.shards, **state.positions.shards}
        )
    return positions


def _sentences(before: Positions, after: Positions, evidence: TableEvidence) -> list[str]:
    sentences = []
    for key, position in sorted(after.shards.items()):
        was = before.of(key)
        if was is not None and was.token != position.token and is_forward(position, was):
            sentences.append(
                f"{key}: its position goes back from {was} to {position}; the records between are read again"
            )
        elif was is None or was.token != position.token:
            remark = f" (a snapshot says {was})" if was else ""
            sentences.append(f"{key}: its position is {position}, by its rows{remark}")
        elif evidence.reached is None and key not in evidence.rows and position.sequence is not None:
            sentences.append(
                f"{key}: its position is {position}, as a snapshot says; "
                "the table has no row of the shard, and no record up to there "
                "is read again"
            )
    same = len(after.shards) - len(sentences)
    sentences.append(f"{counted(same, 'shard')} unchanged")
    # Where positions were reached on main, a shard that only older snapshots know had an END that was removed since: no
    # loss.
    lost = sorted(before.shards.keys() - after.shards.keys()) if evidence.reached is None else ()
    sentences += [
        f"{key}: gets no position, because the table has no row of the shard; "
        f"a snapshot says {before.of(key)}, and the shard is "
        "read again from its start"
        for key in lost
    ]
    if evidence.unknown_rows:
        sentences.append(
            f"{counted(evidence.unknown_rows, 'row')} that no landing of this application wrote: left as found"
        )
    return sentences
