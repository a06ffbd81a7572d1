"""A lake table, and a processor's table of it. What Spark's tasks do is done in this process; the processor has real processes."""

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from headrace.pipeline.core.ledger.generation import shard_of
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.lake.table import plain_read as read
from headrace.pipeline.lineage.table import IcebergLineage
from headrace.pipeline.processors.account import read_account
from headrace.pipeline.processors.code import ProcessorCode
from headrace.pipeline.processors.host import TaskHost
from headrace.pipeline.processors.ports import ProcessorPorts
from headrace.pipeline.processors.redrive import ProcessorRedriving
from headrace.pipeline.processors.redrive_host import TaskRedriveHost
from headrace.pipeline.processors.stops_table import IcebergStops
from headrace.pipeline.processors.wave import Processing
from headrace.pipeline.settings.blocks.parse import Written
from headrace.pipeline.settings.blocks.processors import ProcessorSettings
from headrace.pipeline.typed.check_wave import ParseChecking
from headrace.pipeline.typed.quarantine.redrive_plan import ALL, Selection
from headrace.pipeline.typed.quarantine.settle import Settling
from headrace.pipeline.typed.source import IcebergSource
from headrace.pipeline.typed.table import IcebergQuarantine, IcebergTyped
from headrace.pipeline.typed.values import WaveLimits
from tests.memory.tasks import LocalTasks
from tests.typed.parsings import Bed, Killed

SCHEMA = "word STRING, total BIGINT"
PROCESSORS = str(Path(__file__).parent / "users_code")


class ProcessorBed:
    def __init__(self, folder: Path, **settings: Any) -> None:
        self.lake = Bed(folder)
        self.land = self.lake.land
        self.settings = replace(
            ProcessorSettings(
                name="words",
                table="lake.words",
                callable="counting:rows",
                schema=SCHEMA,
                written=Written(PROCESSORS),
            ),
            **settings,
        )
        self._runs = count(1)

    def table(self) -> IcebergTyped:
        lake = self.lake
        return IcebergTyped(lake.lake.properties, self.settings.table, state=lake.state, clock=lake.clock)

    def quarantine(self) -> IcebergQuarantine:
        lake = self.lake
        return IcebergQuarantine(
            lake.lake.properties, self.settings.quarantine, state=lake.state, clock=lake.clock
        )

    def ports(self) -> ProcessorPorts:
        table, aside, source = self.table(), self.quarantine(), self.lake.lake.handle()
        code = ProcessorCode(self.settings)
        parts: Any = {
            "settings": self.settings,
            "code": code,
            "tasks": LocalTasks(self.lake.clock),
            "table": table,
            "quarantine": aside,
        }
        return ProcessorPorts(
            source=IcebergSource(source),
            table=table,
            quarantine=aside,
            set_aside=IcebergSource(aside),
            host=TaskHost(source=source, **parts),
            redriver=TaskRedriveHost(source=aside, **parts),
            stops=IcebergStops(table),
            lineage=IcebergLineage(table),
            code=code.text,
            check_settings=code.check,
        )

    def processing(
        self, *, limits: WaveLimits | None = None, on_step: Callable[[str], None] = lambda _: None
    ) -> Processing:
        ports, run = self.ports(), f"run-{next(self._runs)}"
        return Processing(
            settings=self.settings,
            ports=ports,
            settling=Settling(table=ports.table, quarantine=ports.quarantine, run=run),
            checking=ParseChecking(
                name=self.settings.name,
                ports=ports,
                landings=IcebergLineage(self.lake.lake.handle()),
                retention=None,
                clock=self.lake.clock,
            ),
            limits=limits or WaveLimits(1_000_000, 2**30),
            clock=self.lake.clock,
            run=run,
            on_step=on_step,
        )

    def redriving(
        self,
        *,
        limits: WaveLimits | None = None,
        on_step: Callable[[str], None] = lambda _: None,
        of_window: str = "",
    ) -> ProcessorRedriving:
        ports, run = self.ports(), f"run-{next(self._runs)}"
        return ProcessorRedriving(
            settings=self.settings,
            ports=ports,
            settling=Settling(table=ports.table, quarantine=ports.quarantine, run=run),
            limits=limits or WaveLimits(1_000_000, 2**30),
            clock=self.lake.clock,
            run=run,
            on_step=on_step,
            of_window=of_window,
        )

    def redrive(self, selection: Selection = ALL, **how: Any) -> list[str]:
        return [str(portion) for portion in self.redriving(**how).portions(selection)]

    def catch_up(self, **how: Any) -> list[str]:
        """What the waves tell until nothing is left."""
        return [str(wave) for wave in self.processing(**how).waves()]

    def rows(self) -> list[tuple[str, int, str, int]]:
        """Shard, sequence number, word and total of each row."""
        names = ("shard_id", "sequence_number", "row_number", "word", "total")
        found = read.rows(self.table(), names).to_pylist()
        found.sort(key=lambda row: (row["shard_id"], int(row["sequence_number"]), row["row_number"]))
        return [(row["shard_id"], int(row["sequence_number"]), row["word"], row["total"]) for row in found]

    def words(self) -> list[tuple[str, int]]:
        return [(word, total) for _, _, word, total in self.rows()]

    def aside(self) -> dict[int, str]:
        rows = read.rows(self.quarantine(), ("sequence_number", "reason")).to_pylist()
        return {int(row["sequence_number"]): row["reason"] for row in rows}

    def state(self, key: ShardKey) -> str | None:
        for page in self.table().pages():
            for recorded in page.ranges:
                if shard_of(recorded.key) == key and (account := read_account(recorded.account)).decides:
                    return account.state
        return None


def dying(place: str) -> Callable[[str], None]:
    def on_step(arrow: str) -> None:
        if arrow == place:
            raise Killed(arrow)

    return on_step
