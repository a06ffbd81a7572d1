"""Windows whose aggregates are taken apart in the lake table. What Spark's tasks do is done in this process."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from headrace.pipeline.demo.aggregate import aggregated
from headrace.pipeline.lake.table import plain_read as read
from headrace.pipeline.lineage.table import IcebergLineage
from headrace.pipeline.typed.source import IcebergSource
from headrace.pipeline.typed.values import WaveLimits
from headrace.pipeline.windows.make import Asked, Numbers
from headrace.pipeline.windows.ports import Unpacker, UnpackPorts
from headrace.pipeline.windows.table import IcebergWindows
from headrace.pipeline.windows.unpack import Unpacking
from headrace.pipeline.windows.unpacker import TaskUnpacker
from headrace.pipeline.windows.window import ReplayWindow
from headrace.pipeline.windows.windows import WindowRequest
from tests.memory.tasks import LocalTasks
from tests.proof.proofs import ListedStream
from tests.typed.parsings import A, B, Killed, good
from tests.windows.replacements import ReplaceBed


def packed(*numbers: int) -> bytes:
    """An aggregate of good payloads."""
    return aggregated("key", [good(number) for number in numbers])


ALL_OF_A = Numbers(A.shard_id)
TO_THREE = Numbers(A.shard_id, None, 3)
KEPT = [
    (1, 0, good(1)),
    (2, 0, packed(21, 22, 23)),
    (3, 0, packed(31, 32)),
    (4, 0, packed(41)),
    (5, 0, good(5)),
    (10, 0, packed(101, 102)),
]
APART_TO_THREE = [
    KEPT[0],
    *((2, sub, good(21 + sub)) for sub in range(3)),
    *((3, sub, good(31 + sub)) for sub in range(2)),
    *KEPT[3:],
]


def local_unpacker(bed: ReplaceBed) -> Unpacker:
    """The real unpacker, whose tasks run in this process."""
    return TaskUnpacker(tasks=LocalTasks(bed.clock), table=bed.lake.handle())


class UnpackBed(ReplaceBed):
    def to_unpack(self, asked: Asked) -> ReplayWindow:
        return self.windowing().create(WindowRequest(asked, how="a test", unpack=True))

    def unpacking(
        self,
        window: ReplayWindow,
        *,
        limits: WaveLimits | None = None,
        kill: str = "",
        at: Callable[[str], None] = lambda _: None,
        kinesis: ListedStream | None = None,
    ) -> Unpacking:
        def on_step(arrow: str) -> None:
            at(arrow)
            if arrow == kill:
                raise Killed(arrow)

        lake = self.lake.handle()
        return Unpacking(
            id=window.id,
            windows=IcebergWindows(lake),
            ports=UnpackPorts(
                source=IcebergSource(lake),
                table=lake,
                unpacker=local_unpacker(self),
                lineage=IcebergLineage(lake),
                typed={self.settings.name: self.typed()},
            ),
            kinesis=lambda: kinesis or ListedStream({}),  # type: ignore[arg-type, return-value] # it isn't asked for more
            limits=limits or WaveLimits(1_000_000, 2**30),
            clock=self.clock,
            run=f"run-{next(self._runs)}",
            on_step=on_step,
        )

    def unpack(self, window: ReplayWindow, **how: Any) -> list[str]:
        """Take the window's aggregates apart as a whole. Returns what each wave told."""
        return [f"{wave}" for wave in self.unpacking(window, **how).waves()]

    def notes(self, window: ReplayWindow, **how: Any) -> str:
        return "; ".join(note for wave in self.unpacking(window, **how).waves() for note in wave.notes)

    def payloads(self) -> list[tuple[int, int, bytes]]:
        """Sequence number, sub-sequence number and payload of each row of the lake table."""
        columns = ("sequence_number", "sub_sequence_number", "data")
        rows = read.rows(self.lake.handle(), columns).to_pylist()
        return sorted((int(r["sequence_number"]), r["sub_sequence_number"], r["data"]) for r in rows)


def at_arrow(arrow: str, act: Callable[[], object]) -> Callable[[str], None]:
    return lambda at: (act(), None)[1] if at == arrow else None


def kept(folder: Path) -> UnpackBed:
    """Shard A in two waves, and shard B; records 2, 3, 4 and 10 are aggregates, and 3 is the last one of its range."""
    bed = UnpackBed(folder)
    bed.land(A, {1: good(1), 2: packed(21, 22, 23), 3: packed(31, 32)})
    bed.land(B, {10: packed(101, 102)})
    bed.land(A, {4: packed(41), 5: good(5)})
    assert bed.payloads() == KEPT
    return bed
