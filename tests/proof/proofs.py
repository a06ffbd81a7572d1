"""A lake table with a split and a merge, proofs of it, and the hands that damage its files and its ledgers.

0 ---- ends ---> 2 ------------------
          `----> 3 ---- ends --.
1 ----------------------- ends -'---> 4 ---
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.ledger.arrivals import ALL, Window
from headrace.pipeline.core.ledger.ledger import Kind, ParentIs, ParentReason, Range
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.core.shards.shard import MAX_HASH_KEY, HashRange, Shard
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.errors import Unreachable
from headrace.pipeline.lake.table.lake_table import IcebergTable
from headrace.pipeline.lineage.table import IcebergLineage
from headrace.pipeline.ports.base import Clock
from headrace.pipeline.ports.reading import StreamFacts
from headrace.pipeline.ports.tasks import Tasks
from headrace.pipeline.proof.prove import Proving
from headrace.pipeline.proof.spark import IcebergProof
from headrace.pipeline.proof.verdict import Proof
from headrace.pipeline.settings.blocks.upkeep import UpkeepSettings
from headrace.pipeline.upkeep.live_table import IcebergLive
from tests.lake.samples import NOON, ORIGIN, STREAM, a_file, a_key
from tests.lake.tables import IcebergLake, delete_as_others
from tests.memory.tasks import LocalTasks

FIRST, SECOND, LEFT, RIGHT, MERGED = (a_key(n) for n in range(5))
_QUARTER = (MAX_HASH_KEY + 1) // 4
DAY = timedelta(days=1)
Rows = list[dict[str, Any]]


def _keys(first: int, after: int) -> HashRange:
    return HashRange(first * _QUARTER, after * _QUARTER - 1)


def listing() -> dict[str, Shard]:
    shards = (
        Shard(FIRST.shard_id, hash_range=_keys(0, 2), closed=True),
        Shard(SECOND.shard_id, hash_range=_keys(2, 4), closed=True),
        Shard(LEFT.shard_id, (FIRST.shard_id,), _keys(0, 1)),
        Shard(RIGHT.shard_id, (FIRST.shard_id,), _keys(1, 2), closed=True),
        Shard(MERGED.shard_id, (RIGHT.shard_id, SECOND.shard_id), _keys(1, 4)),
    )
    return {shard.shard_id: shard for shard in shards}


@dataclass
class ListedStream:
    """Kinesis, as far as a proof asks it."""

    shards: dict[str, Shard] = field(default_factory=listing)
    stream: StreamId = STREAM
    is_there: bool = True

    def describe(self, name: str) -> StreamFacts:
        if not self.is_there:
            raise Unreachable(f"Kinesis didn't answer about {name}")
        return StreamFacts(self.stream, DAY, NOON)

    def list_shards(self, _stream: StreamId) -> tuple[Shard, ...]:
        return tuple(self.shards.values())


def proving_without_kinesis(
    lake: IcebergTable, clock: Clock, settings: UpkeepSettings | None = None
) -> Proving:
    """A proof by the tables alone, in this process: Kinesis doesn't answer."""
    return Proving(
        table=IcebergProof(lake, LocalTasks(clock)),
        lineage=IcebergLineage(lake),
        source=lambda: ListedStream(is_there=False),  # type: ignore[arg-type, return-value] # it isn't asked for more
        settings=settings or UpkeepSettings(),
        clock=clock,
    )


class Family:
    def __init__(self, folder: Path) -> None:
        self.lake = IcebergLake(folder)
        self.lake.clock.at = datetime.now(UTC) + timedelta(hours=1)
        self.source = ListedStream()
        self.tasks: Tasks = LocalTasks(self.lake.clock)
        self.settings = UpkeepSettings()
        self.lake.iceberg.commit(ORIGIN)
        self.land((FIRST, 10), (SECOND, 105))
        self.land((FIRST, 20), (SECOND, 110), ends={FIRST: (LEFT, RIGHT)})
        self.land((LEFT, 35), parents=(FIRST,))
        self.land((RIGHT, 45), (SECOND, 120), ends={RIGHT: (MERGED,), SECOND: (MERGED,)}, parents=(FIRST,))
        self.land((LEFT, 38))
        self.land((MERGED, 60), parents=(RIGHT, SECOND))

    @property
    def table(self) -> IcebergTable:
        return self.lake.iceberg

    def land(
        self,
        *upto: tuple[ShardKey, int],
        ends: dict[ShardKey, tuple[ShardKey, ...]] | None = None,
        parents: tuple[ShardKey, ...] = (),
        arrival: datetime = NOON,
        extra: Callable[[Range], Range] = lambda each: each,
    ) -> None:
        """One wave with a file of its own. A shard's first range has five records."""
        positions = self.lake.handle().load().positions
        stands = {key: positions.of(key) for key, _ in upto}
        rows = {
            key: list(range((at.sequence or 0) + 1 if (at := stands[key]) else last - 4, last + 1))
            for key, last in upto
        }
        file = replace(a_file(self.table.staging_spec(), rows, arrival=arrival), staged_at=self.lake.clock.at)
        named = tuple(ParentReason(each.shard_id, ParentIs.ENDED) for each in parents)
        ranges = tuple(
            extra(
                Range(
                    Kind.LANDED,
                    key,
                    stands[key],
                    Position(
                        last,
                        ended=key in (ends or {}),
                        children=tuple(c.shard_id for c in (ends or {}).get(key, ())),
                        arrival=arrival,
                    ),
                    run="run-1",
                    claim="run-1/c",
                    rows=len(rows[key]),
                    first_arrival=arrival,
                    last_arrival=arrival,
                    files=(Path(file.path).name,),
                    parents=named if stands[key] is None else (),
                )
            )
            for key, last in upto
        )
        committed = self.lake.handle().commit(Proposal(ranges, (file,)))
        assert not committed.landing.refused

    def move(
        self, key: ShardKey, upto: int | None, kind: Kind, *, skipped_until: datetime | None = None
    ) -> None:
        """A range without rows, such as a gap."""
        at = self.table.load().positions.of(key)
        end = Position(upto, arrival=NOON, skipped_until=skipped_until)
        moved = Range(kind, key, at, end, run="r", claim="r", why="the test's reason")
        assert not self.lake.handle().commit(Proposal((moved,))).landing.refused

    # --- proofs -----------------------------------------------------------------------------------------------

    def proving(self) -> Proving:
        lake = self.lake.handle()
        return Proving(
            table=IcebergProof(lake, self.tasks),
            lineage=IcebergLineage(lake),
            source=lambda: self.source,  # type: ignore[arg-type, return-value] # a proof asks for nothing else
            settings=self.settings,
            clock=self.lake.clock,
        )

    def prove(self, window: Window = ALL, *, anew: bool = False) -> Proof:
        return self.proving().run(window, anew=anew)

    def wrong(self, *, anew: bool = False) -> list[str]:
        return [text for check in self.prove(anew=anew).lake.checks for text in check.wrong]

    # --- damage -----------------------------------------------------------------------------------------------

    def paths(self) -> list[str]:
        return [each.path.removeprefix("file://") for each in IcebergLive(self.lake.handle()).live().files]

    def path_with(self, key: ShardKey, number: int) -> str:
        return next(path for path in self.paths() if any(map(_is(key, number), _read(path)[1])))

    def change_rows(self, key: ShardKey, number: int, change: Callable[[dict[str, Any]], Rows]) -> str:
        """Write the data file with this record anew, where it is, with other rows in the record's place."""
        path = self.path_with(key, number)
        found, rows = _read(path)
        changed = [new for row in rows for new in (change(row) if _is(key, number)(row) else [row])]
        pq.write_table(pa.Table.from_pylist(changed, found.schema), path, compression="zstd")
        return Path(path).name

    def change_ledgers(self, change: Callable[[dict[str, Any]], Rows]) -> None:
        """Record all ledgers, then change the rows of the lineage table."""
        lineage = IcebergLineage(self.lake.handle())
        lineage.record()
        table = lineage.find()
        assert table is not None
        found = table.scan().to_arrow()
        changed = [new for row in found.to_pylist() for new in change(row)]
        table.overwrite(pa.Table.from_pylist(changed, found.schema))

    def compact(self) -> None:
        """As upkeep does, whatever the number of files is."""
        from headrace.pipeline.upkeep.rewrite_plan import FileGroup
        from tests.upkeep.compactions import InProcess

        live = IcebergLive(self.lake.handle())
        look = live.live()
        for day in sorted({each.day or "" for each in look.files}):
            group = FileGroup(day, tuple(each for each in look.files if each.day == day), look.schema)
            rewritten = InProcess(self.lake.handle())([group])
            assert live.replace(rewritten).done

    def drop_days(self, before: date) -> None:
        assert IcebergLive(self.lake.handle()).drop(before)

    def delete_day_as_others(self, day: date) -> None:
        for file in IcebergLive(self.lake.handle()).live().files:
            if file.day == day.isoformat():
                delete_as_others(self.table.open(), file.path)


def ranges_of(key: ShardKey, upto: int) -> Callable[[dict[str, Any]], bool]:
    """Whether a row of the lineage table is the range of this shard up to this sequence number."""
    return lambda row: (
        row["entry"] == "range"
        and row["shard_id"] == key.shard_id
        and row["upto"]["sequence_number"] == str(upto)
    )


def _is(key: ShardKey, number: int) -> Callable[[dict[str, Any]], bool]:
    return lambda row: (row["shard_id"], row["sequence_number"]) == (key.shard_id, str(number))


def _read(path: str) -> tuple[pa.Table, Rows]:
    found = pq.read_table(path, partitioning=None)
    return found, found.to_pylist()
