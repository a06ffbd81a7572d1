"""Landing and upkeep that go on while another engine works on the same table, and the judge of what came out.

Each shard's records are numbered from 1, so that a wave reads on at the table's position, and each number has to be in the table once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import uuid4

import pyarrow as pa

from headrace.pipeline.aws.reading.pages_decode import record_schema
from headrace.pipeline.clock import SystemClock
from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.errors import HeadraceError
from headrace.pipeline.lake.files.stage_files import CantWrite
from headrace.pipeline.lake.table.catalog import asking
from headrace.pipeline.lake.table.lake_table import IcebergTable
from headrace.pipeline.settings.blocks.upkeep import UpkeepSettings
from tests.eventually import eventually
from tests.lake.samples import a_key, a_range
from tests.lake.written import write_files
from tests.upkeep.compactions import InProcess
from tests.upkeep.upkeeps import upkeep_of

KEYS = tuple(a_key(number) for number in range(3))
_RECORDS = 5
"""Records of a shard in one wave."""
_FEW = UpkeepSettings(keep_snapshots=5, keep_for=timedelta(seconds=10), orphans_after=timedelta(days=1))


class FastClock(SystemClock):
    """The clock of the upkeep job, for which half a day passes at each look: files grow old enough within seconds."""

    def __init__(self) -> None:
        self._looks = 0

    def now(self) -> datetime:
        self._looks += 1
        return super().now() + self._looks * timedelta(hours=12)


def a_batch(key: ShardKey, numbers: range, arrival: datetime) -> pa.RecordBatch:
    rows = [
        {
            "stream": key.stream.name,
            "stream_epoch": key.stream.epoch,
            "shard_id": key.shard_id,
            "sequence_number": str(number),
            "sub_sequence_number": 0,
            "partition_key": f"customer-{number}",
            "arrival_ts": arrival,
            "data": f"record {number}".encode(),
        }
        for number in numbers
    ]
    return pa.RecordBatch.from_pylist(rows, schema=record_schema())


def land_once(table: IcebergTable, *, keys: tuple[ShardKey, ...] = KEYS) -> int:
    """One wave, as a run does it: look at the table, read on from its positions, stage a file, commit. Returns how many ranges landed."""
    table.ensure(create=False)
    positions = table.load().positions
    spec = table.staging_spec()
    now = table.clock.now()
    stands = {key: at.sequence or 0 if (at := positions.of(key)) else 0 for key in keys}
    batches = {key: [a_batch(key, range(n + 1, n + 1 + _RECORDS), now)] for key, n in stands.items()}
    with asking("the storage"):
        try:
            files = write_files(batches, spec, now=lambda: now, fresh=lambda: uuid4().hex)
        except CantWrite as unwritten:
            # As the task that stages does: the wave lands nothing, and the next one reads the records again.
            raise unwritten.error from unwritten
    ranges = tuple(
        a_range(key, n or None, n + _RECORDS, rows=_RECORDS, files=files) for key, n in stands.items()
    )
    return len(table.commit(Proposal(ranges, files)).landing.page.ranges)


@dataclass
class Landing:
    """What goes on in the background. `handle` opens the table as another process does."""

    handle: Callable[[], IcebergTable]
    pause: float = 0.5
    """Seconds between two waves, and between two upkeeps."""
    landed: int = 0
    """Waves that landed."""
    kept: int = 0
    """Upkeeps that ended well."""
    compacted: int = 0
    """Groups of files that upkeep has rewritten as one file."""
    stops: list[HeadraceError] = field(default_factory=list)
    """What waves said that landed nothing."""
    upkeep_stops: list[HeadraceError] = field(default_factory=list)
    deleted: set[str] = field(default_factory=set)
    """The files that upkeep has deleted."""
    broken: list[BaseException] = field(default_factory=list)
    """Errors that no wave and no upkeep may end with."""
    _over: threading.Event = field(default_factory=threading.Event)

    def goes_on(self) -> None:
        """Wait until two further waves have landed, and an upkeep that began after this call has ended well."""
        landed, kept = self.landed, self.kept
        eventually(
            lambda: self.broken or (self.landed >= landed + 2 and self.kept >= kept + 2),
            "waves land",
            within=60,
        )
        self.raise_broken()

    def says(self, words: str) -> HeadraceError:
        """Wait until a wave ends with an error that has these words."""
        seen = len(self.stops)
        eventually(
            lambda: self.broken or any(words in str(each) for each in self.stops[seen:]),
            f"a wave says {words!r}, not {self.stops[-1:]}",
            within=60,
        )
        self.raise_broken()
        return next(each for each in self.stops[seen:] if words in str(each))

    def raise_broken(self) -> None:
        if self.broken:
            raise AssertionError("a wave or an upkeep ended with an unexpected error") from self.broken[0]

    @contextmanager
    def going_on(self) -> Iterator[Landing]:
        threads = [threading.Thread(target=work, daemon=True) for work in (self._land, self._keep)]
        for each in threads:
            each.start()
        try:
            yield self
        finally:
            self._over.set()
            for each in threads:
                each.join(timeout=60)
        self.raise_broken()

    def _land(self) -> None:
        table = self.handle()

        def wave() -> None:
            try:
                self.landed += land_once(table) > 0
            except HeadraceError as error:
                self.stops.append(error)

        self._again_and_again(wave)

    def _keep(self) -> None:
        table, clock = self.handle(), FastClock()
        # Snapshots expire by the real clock: what expiry commits and records has times that other engines see.
        job = upkeep_of(table, _FEW, clock, expires_by=table.clock, rewriter=InProcess(table))

        def upkeep() -> None:
            try:
                report = job.run()
                self.deleted |= {each.path for each in report.deleted}
                self.compacted += len(report.compacted.done)
                self.upkeep_stops += report.troubles
                self.kept += not report.troubles
            except HeadraceError as error:
                self.upkeep_stops.append(error)

        self._again_and_again(upkeep)

    def _again_and_again(self, work: Callable[[], None]) -> None:
        while not self._over.wait(self.pause):
            try:
                work()
            except BaseException as error:  # noqa: BLE001 - the test raises it
                self.broken.append(error)
                return


def numbers_of(table: IcebergTable) -> dict[str, int]:
    """For each shard, how many of its records have to be in the table: up to the table's position."""
    return {key.shard_id: at.sequence or 0 for key, at in table.load().positions.shards.items()}
