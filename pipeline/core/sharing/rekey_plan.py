"""Give lease rows the form of the other `streams_mode`: which rows are made and which are deleted, with the reasons.

    single -> multi   each row gets the name of its stream, which the lake table tells from the row's `streamEpoch`; rows of an
                      earlier life of that stream that the lake table has dropped are deleted
    multi -> single   the rows of one stream lose the name; those of streams of which nothing has landed are deleted

The lake table isn't touched: its positions have no form (`headrace.pipeline.core.leases.lease_form`). All rows are made
before the first one is deleted, and a row is deleted only where one of the new form stands for its shard. So a command
that is killed between two writes leaves each shard with a row, and goes on when it is run again. The way back is the
same plan for the other mode.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from headrace.pipeline.core.leases.change import Change, create, delete_garbage
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.leases.lease_form import is_of_form, mode_of, of_other_form
from headrace.pipeline.core.order.start_of_reading import Stop
from headrace.pipeline.core.shards.position import Positions
from headrace.pipeline.core.shards.stream import ShardKey, StreamId, lease_key, name_of_serialized
from headrace.pipeline.core.sharing.former_streams import newest_lives
from headrace.pipeline.core.words.words import counted

_NOTHING = "Nothing was changed"


@dataclass(frozen=True, slots=True)
class Rekey:
    """The changes that give lease rows another form, and sentences that describe them."""

    creations: tuple[Change, ...]
    """The changes that make the rows of the new form. They are all written before anything is deleted."""
    deleted: tuple[Change, ...]
    sentences: tuple[str, ...]

    @property
    def changes(self) -> tuple[Change, ...]:
        return (*self.creations, *self.deleted)


@dataclass(frozen=True, slots=True)
class RekeyScene:
    """The values from which a rekeying is planned: the lease rows, the positions and the settings."""

    rows: tuple[Lease, ...]
    """All lease rows of the application, of both forms."""
    positions: Positions
    """The positions of the lake table."""
    names: tuple[str, ...]
    """The names of the streams in the settings."""
    reads_former: bool = True
    """Whether streams that the settings don't name are read on for good."""
    chosen: str | None = None
    """The name of the stream to which rows without a name belong, where a person has said so."""


def plan_rekey(scene: RekeyScene, *, multi: bool) -> Rekey | Stop:
    """The changes after which all rows have the form of this mode. Without rows of the other form there are none."""
    other_rows = of_other_form(scene.rows, multi=multi)
    if not other_rows:
        return Rekey((), (), (f"all lease rows have the form of streams_mode: {mode_of(multi=multi)}",))
    if foreign := [row.key for row in other_rows if row.stream_epoch is None]:
        other_mode = mode_of(multi=not multi)
        return Stop(
            f"{counted(len(foreign), 'lease row')} ({foreign[0]}, ...) of streams_mode: "
            f"{other_mode} {_are(foreign)} of another program, which may go "
            f"by the keys. {_NOTHING}. To take that application over, "
            f"set streams_mode: {other_mode} and use `headrace adopt`"
        )
    return _to_multi(scene, other_rows) if multi else _to_single(scene, other_rows)


# --- single -> multi ------------------------------------------------------------------------------------------------


def _to_multi(scene: RekeyScene, other_rows: tuple[Lease, ...]) -> Rekey | Stop:
    arn = _stream_of(scene, other_rows)
    if isinstance(arn, Stop):
        return arn
    name = StreamId(arn, 0).name
    table_lives = scene.positions.streams()
    # A row tells the creation of its stream, but not its name: the table knows both.
    lives = {row: StreamId(arn, row.stream_epoch or 0) for row in other_rows}
    targets = {row: _with_stream(row, life) for row, life in lives.items() if life in table_lives}
    # Nobody can read that life any more: the stream was deleted, and created again as the one whose life the lake table
    # knows.
    dropped = {
        row: f"the row is of an earlier life of {name}, which the lake table has dropped"
        for row, life in lives.items()
        if life not in table_lives
    }
    sentences = [f"the rows without a stream's name are of the stream {name}"]
    if dropped:
        sentences.append(
            f"{counted(len(dropped), 'lease row')} of an earlier life of {name}, "
            "which the lake table has dropped, will be deleted"
        )
    if name not in scene.names:
        fate = (
            "is read on as a former stream"
            if scene.reads_former
            else "is a former stream: its rows go after former_streams_wait"
        )
        sentences.append(
            f"the settings don't name {name} under `streams`: unless discovery finds it, it {fate}"
        )
    return _plan(scene, targets, dropped, sentences, multi=True)


def _stream_of(scene: RekeyScene, other_rows: tuple[Lease, ...]) -> str | Stop:
    """The ARN of the only stream that these rows can belong to. Headrace commits the origin of a stream before it makes
    the first row, so the lake table knows each life that rows name; a repair may have dropped lives, but never the
    newest one."""
    epochs = sorted({row.stream_epoch or 0 for row in other_rows})
    # A newest life that isn't known may be one that a rollback has taken from the table.
    fitting = (
        _knowing(scene.positions, epochs)
        or _knowing(scene.positions, epochs[-1:])
        or _reading_later_life(scene, epochs[-1])
    )
    chosen = [arn for arn in fitting if scene.chosen in {None, StreamId(arn, 0).name}]
    if len(chosen) == 1:
        return chosen[0]
    names = ", ".join(StreamId(arn, 0).name for arn in fitting)
    if chosen:
        return Stop(
            "the lease rows don't tell to which stream they belong: "
            f"{names} were created in the same second, and all of them are in the lake "
            f"table. {_NOTHING}. Name the stream that was read with streams_mode: single, with --stream"
        )
    if fitting:
        return Stop(
            f"the lease rows aren't of the stream {scene.chosen}, but of {names}. "
            f"{_NOTHING}. Run the command without --stream, or name that "
            "stream"
        )
    return Stop(
        f"the lake table knows no stream that was created when the newest lease row says ({_newest(other_rows).key}; "
        f"{epochs[-1]} seconds after 1970), so "
        "their stream can't be told: landing.table or landing.catalog names another table than before, "
        f"or the table was rolled back. {_NOTHING}. "
        "Correct the setting; or, if it is the right table and "
        "nobody reads these rows any more, delete them in DynamoDB"
    )


def _newest(rows: tuple[Lease, ...]) -> Lease:
    return max(rows, key=lambda row: row.stream_epoch or 0)


def _knowing(positions: Positions, epochs: list[int]) -> list[str]:
    """The ARNs of the streams of which the lake table knows a life that began at each of these times."""
    lives = positions.streams()
    arns = {stream.arn for stream in lives}
    return sorted(arn for arn in arns if all(StreamId(arn, epoch) in lives for epoch in epochs))


def _reading_later_life(scene: RekeyScene, epoch: int) -> list[str]:
    """The ARN of the only stream that rows of the new form name, where they are of a life that began after this time:
    the rows of the other form are left over from an earlier one, after a command that was killed near its end."""
    named = {row.stream for row in scene.rows if is_of_form(row, multi=True)}
    lives = [stream for stream in scene.positions.streams() if stream.serialized in named]
    arns = {stream.arn for stream in lives}
    return sorted(arns) if len(arns) == 1 and max(lives).epoch > epoch else []


def _with_stream(row: Lease, stream: StreamId) -> Lease:
    key = lease_key(ShardKey(stream, row.shard_id), multi=True)
    return replace(_at_rest(row), key=key, stream=stream.serialized, shard=row.shard_id)


# --- multi -> single ------------------------------------------------------------------------------------------------


def _to_single(scene: RekeyScene, other_rows: tuple[Lease, ...]) -> Rekey | Stop:
    lives = newest_lives(other_rows)
    chosen = sorted(life for life in lives.values() if name_of_serialized(life) in scene.names)
    has_own = any(is_of_form(row, multi=False) for row in scene.rows)
    # After a command that was killed near its end, only rows of streams that go may be left.
    if len(chosen) > 1 or not (chosen or has_own):
        read = ", ".join(sorted(map(name_of_serialized, lives.values())))
        return Stop(
            f"streams_mode: single reads one stream, and the lease rows are of {read}; "
            f"the settings name {', '.join(scene.names)}. "
            f"{_NOTHING}. Name one of these streams under `streams`"
        )
    landed = _landed_streams(scene.positions)
    lost = sorted(life for ident, life in lives.items() if life not in chosen and ident in landed)
    if lost:
        names = ", ".join(map(name_of_serialized, lost))
        return Stop(
            f"records of {names} have landed, and with streams_mode: "
            f"single nobody would read {_it(lost)} on: there is no way back any more. "
            f"{_NOTHING}. Keep streams_mode: multi. "
            f"If {_it(lost)} shall not be read any more, take {_it(lost)} out of the settings with "
            "former_streams: auto, and run this command once the rows are gone"
        )
    name = ", ".join(scene.names)
    targets = {
        row: replace(_at_rest(row), key=row.shard_id, stream=None, shard=None)
        for row in other_rows
        if row.stream in chosen
    }
    dropped = {row: _why_dropped(row, name) for row in other_rows if row.stream not in chosen}
    return _plan(
        scene,
        targets,
        dropped,
        [f"the rows of the stream {name} get keys without the stream's name"],
        multi=False,
    )


def _why_dropped(row: Lease, stream: str) -> str:
    name = name_of_serialized(row.stream or "")
    if name == stream:
        return f"the row is of an earlier life of {name}"
    return f"nothing of {name} has landed, and streams_mode: single reads {stream} only"


def _landed_streams(positions: Positions) -> frozenset[str]:
    """`account:name` of each stream of which records have landed."""
    moved = (
        key.stream
        for key, position in positions.shards.items()
        if position.sequence is not None or position.ended
    )
    return frozenset(f"{stream.account}:{stream.name}" for stream in moved)


# --- both ways ------------------------------------------------------------------------------------------------------


def _at_rest(row: Lease) -> Lease:
    """The row without what its worker has written for its own runs: the command runs while no worker does."""
    return replace(row, owner=None, checkpoint_owner=None, run_claim=None, wanted_by=None, assigned_at=None)


def _plan(
    scene: RekeyScene,
    targets: Mapping[Lease, Lease],
    dropped: Mapping[Lease, str],
    sentences: Iterable[str],
    *,
    multi: bool,
) -> Rekey | Stop:
    existing = {row.key: row for row in scene.rows if is_of_form(row, multi=multi)}
    ahead = [
        old.key
        for old, new in targets.items()
        if new.key in existing and _is_ahead(old, scene.positions, new)
    ]
    if ahead:
        return Stop(
            f"{counted(len(ahead), 'lease row')} ({ahead[0]}, "
            f"...) {_are(ahead)} ahead of the lake table, and {_have(ahead)} a row of the other form "
            "that isn't: the table was rolled back meanwhile, or another program writes to this lease table. "
            f"{_NOTHING}. Set streams_mode: "
            f"{mode_of(multi=not multi)} again, and decide with `headrace reposition` first"
        )
    why = f"streams_mode is {mode_of(multi=multi)}"
    creations = tuple(
        create(new, f"{why}: it takes the place of {old.key}")
        for old, new in targets.items()
        if new.key not in existing
    )
    gone = {**{old: f"{why}: {new.key} takes its place" for old, new in targets.items()}, **dropped}
    deleted = tuple(
        delete_garbage(row, reason) for row, reason in sorted(gone.items(), key=lambda item: item[0].key)
    )
    counts = f"{counted(len(creations), 'lease row')} to make, {counted(len(deleted), 'lease row')} to delete"
    return Rekey(
        creations, deleted, (*sentences, counts, "the lake table and its positions stay as they are")
    )


def _is_ahead(row: Lease, positions: Positions, new: Lease) -> bool:
    """Whether the row tells of more than the lake table has. `new`: the row of the other form, of which one names the
    stream."""
    life = row.stream or new.stream
    own_positions = [
        position
        for key, position in positions.shards.items()
        if (key.stream.serialized, key.shard_id) == (life, row.shard_id)
    ]
    if not own_positions:
        return row.checkpoint.is_digits  # the END of a shard that nothing needs any more leaves the table
    stands = own_positions[0].checkpoint
    return (row.checkpoint.is_digits or row.has_ended) and (stands is None or stands < row.checkpoint)


def _are(keys: list[str]) -> str:
    return "is" if len(keys) == 1 else "are"


def _it(names: list[str]) -> str:
    return "it" if len(names) == 1 else "them"


def _have(keys: list[str]) -> str:
    return "has" if len(keys) == 1 else "have"
