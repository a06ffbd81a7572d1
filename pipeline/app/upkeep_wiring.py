"""The upkeep of all tables, put together from settings and ports: expiry, deletion and compaction.

    Wiring.upkeep ──► run         for Dagster's upkeep job, and `headrace upkeep`
                  └─► expiring    for the leader's sensor and for runs, which expire snapshots of the lake table in between

Importing this module imports neither Dagster nor boto3, pyiceberg or Spark.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date

from headrace.pipeline.app.ports import Ports
from headrace.pipeline.duties.waves.expire import Expiring
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.settings.parse_block import ParseSettings
from headrace.pipeline.typed.quarantine.settle import Settling
from headrace.pipeline.typed.upkeep import failed, run_upkeep_of, run_upkeep_of_target
from headrace.pipeline.typed.wiring import TargetWiring
from headrace.pipeline.upkeep.compact import Compacting
from headrace.pipeline.upkeep.delete import Deleting
from headrace.pipeline.upkeep.upkeep import Upkeep, UpkeepReport, together
from headrace.pipeline.windows.window import kept_days


@dataclass(frozen=True, slots=True)
class UpkeepWiring:
    settings: Settings
    ports: Ports
    targets: TargetWiring

    def run(self, *, dry_run: bool = False) -> UpkeepReport:
        """The upkeep of the lake table, and then that of the typed tables and their quarantine tables."""
        # The lake table first: what typed tables still need of it decides what its retention may remove.
        lake = self.settings.landing.table
        reports = [(lake, run_upkeep_of(lake, self.of_lake_table(), dry_run=dry_run))]
        for target in self.settings.parse:
            reports += self._of_target(target, dry_run=dry_run)
        return together(reports)

    def _of_target(self, target: ParseSettings, *, dry_run: bool) -> list[tuple[str, UpkeepReport]]:
        try:
            parsing = self.targets.parsing(target, "upkeep")
            upkeeps = self._upkeeps(target, parsing.settling)
            return list(run_upkeep_of_target(parsing, upkeeps, dry_run=dry_run))
        except Exception as error:  # noqa: BLE001 - the upkeep of other targets goes on, and the report has the error
            return [(target.table, failed(target.table, error))]

    def of_lake_table(self) -> Upkeep:
        """The upkeep of the lake table alone."""
        ports = self.ports
        settings = self.settings.upkeep
        # The lineage table, too: its recordings leave files behind as landings do.
        files = (ports.files("upkeep"), ports.lineage_files("upkeep"))
        return Upkeep(
            table=ports.table("upkeep"),
            deleting=tuple(Deleting(files=each, settings=settings, clock=ports.clock) for each in files),
            expiring=self.expiring("upkeep"),
            compacting=self.compacting(),
            settings=settings,
        )

    def expiring(self, user: str) -> Expiring:
        """The expiry of the lake table's snapshots. `user`: the duty or run that expires them."""
        ports = self.ports
        return Expiring(
            table=ports.table(user),
            lineage=lambda: ports.lineage(user),
            settings=self.settings.upkeep,
            clock=ports.clock,
        )

    def compacting(self) -> Compacting:
        """The compaction of the lake table."""
        ports = self.ports
        return Compacting(
            table=ports.live("upkeep"),
            rewriter=ports.rewriter,
            settings=self.settings.upkeep,
            clock=ports.clock,
            needed=self._needed_before,
            kept_days=lambda before: kept_days(ports.windows().all(), before),
        )

    def _needed_before(self, day: date) -> str:
        """The targets that may still have to parse rows from before this day."""
        targets = self.settings.parse
        return ", ".join(
            each.name for each in targets if self.targets.parsing(each, "upkeep").needs_before(day)
        )

    def _upkeeps(self, target: ParseSettings, settling: Settling) -> Iterator[tuple[str, Upkeep]]:
        # How long the lake table keeps its rows says nothing about other tables.
        settings = replace(self.settings.upkeep, retention=None)
        clock = self.ports.clock
        for each in self.ports.parsing(target, "upkeep").kept:
            yield (
                each.name,
                Upkeep(
                    table=each.table,
                    deleting=tuple(
                        Deleting(files=files, settings=settings, clock=clock)
                        for files in each.files(settling.settle)
                    ),
                    expiring=self.targets.expiring_of(each),
                    compacting=Compacting(
                        table=each.live,
                        rewriter=each.rewriter,
                        settings=settings,
                        clock=clock,
                        name=each.name,
                    ),
                    settings=settings,
                    name=each.name,
                ),
            )
