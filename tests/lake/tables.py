"""The implementations of the lake table that the contract suites run on, with methods by which a test disturbs them."""

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol
from uuid import uuid4

import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from sqlalchemy import create_engine, text

import tests.avro_forms  # noqa: F401 - importing it spares each test a seventh of its CPU time
from headrace.pipeline.core.ledger.batch import StagedFile
from headrace.pipeline.core.ledger.ledger import LedgerPage
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.lake.table import plain_read as read
from headrace.pipeline.lake.table.append import prepare
from headrace.pipeline.lake.table.catalog import embedded_catalog
from headrace.pipeline.lake.table.data_files import data_files, ids_of
from headrace.pipeline.lake.table.lake_table import IcebergTable
from headrace.pipeline.ports.landing import LakeTable
from headrace.pipeline.ports.staging import StagingSpec
from tests.lake.samples import STREAM, StandingClock, a_file, a_key, numbers_in
from tests.memory.table import LostOnTheWay, MemoryTable, Way

NAME = "lake.records"


class Lake(Protocol):
    """One table, with what can be seen of it from outside."""

    table: LakeTable
    clock: StandingClock

    def handle(self, application: str = "") -> LakeTable:
        """Open the same table as another process does, of this application."""
        ...

    def lose(self, way: Way, *, times: int = 1) -> None:
        """Lose the next requests, or their answers."""
        ...

    def before_next_swap(self, act: Callable[[], object]) -> None:
        """Call a function between loading the table and the commit request."""
        ...

    def after_next_swap(self, act: Callable[[], object]) -> None:
        """Call a function between the commit request that landed and the next loading of the table."""
        ...

    def remove(self, file: StagedFile) -> None:
        """Delete a staged file, as a process other than Headrace might."""
        ...

    def numbers(self) -> dict[str, list[int]]:
        """For each shard id, the sequence numbers that a reader finds in the table."""
        ...

    def pages(self) -> list[LedgerPage]:
        """The ranges of the ledger, oldest first."""
        ...

    def append_as_others(self, *, rows: bool = True) -> None:
        """Commit as another engine does: insert a row, or without rows a compaction."""
        ...

    def rollback(self, steps: int) -> None:
        """Set main back by some snapshots, as a person does."""
        ...

    def cherry_pick(self, snapshot: int) -> None:
        """Cherry-pick a snapshot that isn't part of main."""
        ...

    def expire_all_but_the_head(self, *, forget: bool) -> None:
        """Expire all snapshots but the head. `forget`: also delete the metadata files that name them."""
        ...


class MemoryLake:
    """The lake table in memory."""

    def __init__(self, folder: Path) -> None:
        self.clock = StandingClock()
        self.memory = MemoryTable(self.clock, str(folder / "data"))
        self.memory.rows_of = rows_in_file
        self.table: LakeTable = self.memory

    def handle(self, application: str = "") -> LakeTable:
        self.memory.application = application
        return self.table

    def lose(self, way: Way, *, times: int = 1) -> None:
        left = times

        def fault(now: Way) -> None:
            nonlocal left
            if now == way and left:
                left -= 1
                raise LostOnTheWay(way)

        self.memory.fault = fault

    def before_next_swap(self, act: Callable[[], object]) -> None:
        def fault(now: Way) -> None:
            if now == "request":
                self.memory.fault = lambda _: None
                act()

        self.memory.fault = fault

    def after_next_swap(self, act: Callable[[], object]) -> None:
        def fault(now: Way) -> None:
            if now == "answer":
                self.memory.fault = lambda _: None
                act()

        self.memory.fault = fault

    def remove(self, file: StagedFile) -> None:
        self.memory.removed.add(file.path)

    def numbers(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for file in self.memory.files_at(self.memory.head):
            for shard, numbers in numbers_in(pq.read_table(file.path)).items():
                found[shard] = sorted(found.get(shard, []) + numbers)
        return dict(sorted(found.items()))

    def pages(self) -> list[LedgerPage]:
        return [snapshot.page for snapshot in self.memory.history(self.memory.head)][::-1]

    def append_as_others(self, *, rows: bool = True) -> None:
        self.memory.append_as_others((a_file(self.memory.staging_spec(), {a_key(999): [1]}),) if rows else ())

    def rollback(self, steps: int) -> None:
        self.memory.rollback([s.id for s in self.memory.history(self.memory.head)][steps])

    def cherry_pick(self, snapshot: int) -> None:
        self.memory.cherry_pick(snapshot)

    def expire_all_but_the_head(self, *, forget: bool) -> None:
        if forget:
            self.memory.forget(*(set(self.memory.snapshots) - {self.memory.head or 0}))


@dataclass(frozen=True)
class NewTable:
    """What is in the folder of a table that was just made: making one anew takes ten times as long as copying it."""

    folder: str
    table_uuid: str
    metadata: str
    """The path of the metadata file in the folder."""
    files: Mapping[str, bytes]
    modes: Mapping[str, int]

    def put_into(self, folder: Path) -> None:
        for place, mode in self.modes.items():
            if place not in self.files:
                (folder / place).mkdir(exist_ok=True)
            elif place == self.metadata:
                text = self.files[place].decode().replace(self.folder, str(folder))
                (folder / place).write_text(text.replace(self.table_uuid, str(uuid4())))
            else:
                (folder / place).write_bytes(self.files[place])
            (folder / place).chmod(mode)
        with closing(sqlite3.connect(folder / "catalog.db")) as database, database:
            change = "UPDATE iceberg_tables SET metadata_location = replace(metadata_location, ?, ?)"
            database.execute(change, (self.folder, str(folder)))


@cache
def a_new_table() -> NewTable:
    with TemporaryDirectory() as made:
        folder = Path(made).resolve()
        table = IcebergTable(
            embedded_catalog(folder), NAME, state=str(folder / "state"), clock=StandingClock()
        )
        table.ensure(create=True)
        places = {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*"))}
        return NewTable(
            str(folder),
            str(table.open().metadata.table_uuid),
            next(place for place in places if place.endswith(".metadata.json")),
            {place: path.read_bytes() for place, path in places.items() if path.is_file()},
            {place: path.stat().st_mode for place, path in places.items()},
        )


class IcebergLake:
    """A real Iceberg table with its files in a folder, and with a SQLite catalog there too, or with the catalog of the given
    properties."""

    def __init__(self, folder: Path, catalog: Mapping[str, str] | None = None, *, name: str = NAME) -> None:
        self.clock = StandingClock()
        self.folder = folder
        self.properties = catalog or embedded_catalog(folder)
        self.name = name
        self.iceberg = self.handle()
        if catalog is None and name == NAME and not (folder / "catalog.db").exists():
            a_new_table().put_into(folder.resolve())
        else:
            self.iceberg.ensure(create=True)
        self.table: LakeTable = self.iceberg

    def handle(self, application: str = "") -> IcebergTable:
        return IcebergTable(
            self.properties,
            self.name,
            state=str(self.folder / "state"),
            clock=self.clock,
            application=application,
        )

    def lose(self, way: Way, *, times: int = 1) -> None:
        lose(self.iceberg.catalog, way, times=times)

    def before_next_swap(self, act: Callable[[], object]) -> None:
        before_next_swap(self.iceberg.catalog, act)

    def after_next_swap(self, act: Callable[[], object]) -> None:
        after_next_swap(self.iceberg.catalog, act)

    def remove(self, file: StagedFile) -> None:
        Path(file.path.removeprefix("file://")).unlink()

    def numbers(self) -> dict[str, list[int]]:
        return numbers_in(read.rows(self.handle()))

    def pages(self) -> list[LedgerPage]:
        return [entry.page for entry in read.ledger(self.handle())]

    def append_as_others(self, *, rows: bool = True) -> None:
        if rows:
            append_as_others(self.iceberg.open())
        else:
            commit_nothing(self.iceberg.open())

    def rollback(self, steps: int) -> None:
        table, links = self.iceberg.open(), list(self.iceberg.history())
        table.manage_snapshots().set_current_snapshot(links[steps].snapshot).commit()

    def cherry_pick(self, snapshot: int) -> None:
        table = self.iceberg.open()
        source = table.snapshot_by_id(snapshot)
        assert source is not None
        entries = [e for m in source.manifests(table.io) for e in m.fetch_manifest_entry(table.io)]
        with (
            table.transaction() as change,
            change.update_snapshot(
                snapshot_properties={"source-snapshot-id": str(snapshot)}
            ).fast_append() as append,
        ):
            for entry in entries:
                if entry.snapshot_id == snapshot:
                    append.append_data_file(entry.data_file)

    def expire_all_but_the_head(self, *, forget: bool) -> None:
        expire_all_but_the_head(self.iceberg, forget=forget)


def rows_in_file(file: StagedFile) -> Iterable[tuple[ShardKey, int]]:
    for row in pq.read_table(file.path).select(["stream_epoch", "shard_id", "sequence_number"]).to_pylist():
        yield (
            ShardKey(StreamId(STREAM.arn, row["stream_epoch"]), row["shard_id"]),
            int(row["sequence_number"]),
        )


def expire_all_but_the_head(of: IcebergTable, *, forget: bool) -> None:
    table = of.open()
    if "headrace" in table.refs():
        table.manage_snapshots().remove_tag("headrace").commit()
    table = of.open()
    table.maintenance.expire_snapshots().older_than(datetime.now(UTC) + timedelta(days=1)).commit()
    if forget:
        for entry in of.open().metadata.metadata_log:
            Path(entry.metadata_file.removeprefix("file://")).unlink()


def append_as_others(table: Table, *, number: int = 1, summary: dict[str, str] | None = None) -> None:
    """Insert a row of an unknown shard by pyiceberg alone, as another engine does."""
    spec = StagingSpec(f"{table.location()}/data", tuple(ids_of(table.schema()).items()))
    row = a_file(spec, {a_key(999): [number]})
    with (
        table.transaction() as change,
        change.update_snapshot(snapshot_properties=summary or {}).fast_append() as append,
    ):
        append.append_data_file(next(data_files((row,), table.metadata)))


def rewrite_as_others(table: Table, path: str) -> str:
    """Write the rows of a data file into another one without positions, as the compaction of another engine does. Returns its path."""
    (file,) = (task.file for task in table.scan().plan_files() if task.file.file_path == path)
    other = path.replace(".parquet", "-rewritten.parquet")
    shutil.copyfile(path.removeprefix("file://"), other.removeprefix("file://"))
    added = DataFile(*(other if file[n] == path else file[n] for n in range(len(file))))
    added.spec_id = file.spec_id
    # pyiceberg by itself doesn't commit what it calls a replacement.
    now_ms = table.metadata.last_updated_ms + 1
    prepare(table, (added,), {}, now_ms=now_ms, replaced=(file,), operation=Operation.REPLACE).send(table)
    return other


def delete_as_others(table: Table, path: str, *, branch: str = "main") -> None:
    """Delete all rows of a data file by pyiceberg alone, as another engine does by copy-on-write."""
    (file,) = (task.file for task in table.scan().plan_files() if task.file.file_path == path)
    with table.transaction() as change, change.update_snapshot(branch=branch).overwrite() as overwrite:
        overwrite.delete_data_file(file)


def commit_nothing(table: Table) -> None:
    """A snapshot by pyiceberg alone that changes no row, as a compaction is."""
    with table.transaction() as change, change.update_snapshot().fast_append():
        pass


def rewrite_metadata(
    lake: IcebergLake, change: Callable[[dict[str, Any]], object], of: IcebergTable | None = None
) -> None:
    """Commit a metadata file that pyiceberg wouldn't write, as an engine in another language may. `of`: a table beside the lake table."""
    table = (of or lake.iceberg).open()
    content = json.loads(Path(table.metadata_location).read_text())
    change(content)
    path = Path(table.metadata_location).parent / f"90000-{uuid4()}.metadata.json"
    path.write_text(json.dumps(content))
    move_metadata(lake, str(path), table.name()[-1])


def move_metadata(lake: IcebergLake, path: str, table: str = "records") -> None:
    """Point the catalog's row of the table to another metadata file, by SQL."""
    with create_engine(f"sqlite:///{lake.folder / 'catalog.db'}").begin() as database:
        database.execute(
            text(
                "UPDATE iceberg_tables SET previous_metadata_location = metadata_location, metadata_location = :path "
                "WHERE table_name = :table"
            ),
            {"path": path, "table": table},
        )


def patch(thing: object, name: str, method: Callable[..., Any]) -> None:
    """Put a fault into an object that belongs to one test."""
    setattr(thing, name, method)


def lose(catalog: Catalog, way: Way, *, times: int = 1) -> None:
    """Lose the request or its answer, as a broken connection does, without saying which."""
    commit, left = catalog.commit_table, times

    def lose_request_or_answer(*args: Any) -> Any:
        nonlocal left
        if not left:
            return commit(*args)
        left -= 1
        if way == "answer":
            commit(*args)
        raise ConnectionResetError(f"the {way} was lost")

    patch(catalog, "commit_table", lose_request_or_answer)


def before_next_swap(catalog: Catalog, act: Callable[[], object]) -> None:
    commit = catalog.commit_table

    def act_and_commit(*args: Any) -> Any:
        patch(catalog, "commit_table", commit)
        act()
        return commit(*args)

    patch(catalog, "commit_table", act_and_commit)


def after_next_swap(catalog: Catalog, act: Callable[[], object]) -> None:
    commit = catalog.commit_table

    def commit_and_act(*args: Any) -> Any:
        patch(catalog, "commit_table", commit)
        answer = commit(*args)
        act()
        return answer

    patch(catalog, "commit_table", commit_and_act)


def summary_of(lake: IcebergLake) -> dict[str, str]:
    """The summary of main's newest snapshot."""
    head = lake.iceberg.open().current_snapshot()
    assert head is not None
    assert head.summary is not None
    return head.summary.additional_properties
