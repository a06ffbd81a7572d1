"""Putting a run's parts together: from Dagster's resources, or from the shell's, to a run at work."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from assets.waves import Run
from pipeline.clock import SystemClock, SystemIds
from pipeline.core.change import Applied, assign
from pipeline.duties.claims import Claims
from pipeline.duties.consume import Consumption
from pipeline.duties.wave import Arrow, OnArrow, WaveReport
from pipeline.errors import Unknown
from pipeline.ports import Runs
from pipeline.settings import Settings
from resources.beating import beating
from resources.lake import LakeResource
from resources.lease_tables import LeaseTablesResource
from resources.spark import SparkResource
from resources.stream import StreamResource


def _unheard(_arrow: Arrow, _keys: tuple[str, ...]) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    settings: Settings
    lease_tables: LeaseTablesResource
    stream: StreamResource
    lake: LakeResource
    spark: SparkResource
    runs: Runs

    @contextmanager
    def reading(
        self,
        worker_id: str,
        run_id: str,
        *,
        on_wave: Callable[[WaveReport], None],
        on_arrow: OnArrow = _unheard,
        over: frozenset[str] = frozenset(),
        later: frozenset[str] = frozenset(),
        due: frozenset[str] = frozenset(),
    ) -> Iterator[Run]:
        """A run, with its beat beside it. What fails inside ends the beat, and the silence tells the rest."""
        consumption = self._consumption(worker_id, run_id, over=over, later=later, due=due, on_arrow=on_arrow)

        def is_stopping() -> bool:
            row = consumption.workers.get(worker_id)
            return row is not None and row.stopping

        run = Run(
            consumption=consumption,
            settings=self.settings,
            clock=consumption.clock,
            pause=time.sleep,
            on_wave=on_wave,
            is_stopping=is_stopping,
        )
        with beating(consumption.beat, self.settings.times.lease_duration / 4):
            yield run

    def _consumption(
        self,
        worker_id: str,
        run_id: str,
        *,
        over: frozenset[str],
        later: frozenset[str],
        due: frozenset[str],
        on_arrow: OnArrow,
    ) -> Consumption:
        leases, workers, clock = self.lease_tables.leases(), self.lease_tables.workers(), SystemClock()
        source = self.stream.source()
        claims = Claims(
            me=worker_id,
            claim=f"{run_id}/{SystemIds().fresh()}",
            leases=leases,
            workers=workers,
            runs=self.runs,
            clock=clock,
            times=self.settings.times,
            over=over,
        )
        return Consumption(
            run_id=run_id,
            settings=self.settings,
            claims=claims,
            leases=leases,
            workers=workers,
            source=source,
            table=self.lake.landing_table(worker_id, source),
            stage=self.spark.stage(worker_id, self.stream.pages()),
            clock=clock,
            on_arrow=on_arrow,
            later=later,
            due=due,
        )

    def workers_of(self, keys: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
        """Which configured worker reads which of these shards: their owners; unowned ones go to the first here."""
        leases = self.lease_tables.leases()
        here = [w.id for w in self.settings.workers]
        found: dict[str, list[str]] = {}
        for key in keys:
            row = leases.get(key)
            if row is None:
                raise Unknown(f"there is no shard {key!r}: its lease row is gone; nothing was read")
            owner = row.holder
            if owner is None:
                match leases.apply(assign(row, here[0], f"unowned, and asked for by name: -> {here[0]}")):
                    case Applied():
                        owner = here[0]
                    case lost:
                        owner = (lost.found.holder if lost.found else None) or here[0]
            if owner not in here:
                raise Unknown(
                    f"{key} is read by worker {owner}, which isn't configured here (here: {', '.join(here)}); nothing "
                    "was read. Materialize it where that worker is, or stop that worker first"
                )
            found.setdefault(owner, []).append(key)
        return {worker: tuple(its) for worker, its in found.items()}
