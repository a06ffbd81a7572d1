"""The duties of typed tables, put together from settings and ports: parsing, inferring the columns of payloads,
and redrives.

    Wiring.targets ──► parsing      for Dagster's sensors and assets, and `headrace parse`
                   ├─► inferring    for `headrace parse --infer`
                   └─► redriving    for Dagster's redrive jobs, and `headrace redrive`

Importing this module imports neither Dagster nor boto3, pyiceberg or Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from headrace.pipeline.duties.waves.expire import Expiring
from headrace.pipeline.ports.base import Clock
from headrace.pipeline.ports.lineage import LineageTable
from headrace.pipeline.settings.blocks.parse import ParseSettings
from headrace.pipeline.settings.blocks.upkeep import UpkeepSettings
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.typed.check_wave import ParseChecking
from headrace.pipeline.typed.done_wave import Wave
from headrace.pipeline.typed.duplicates import Deduplicating
from headrace.pipeline.typed.infer import Inferring
from headrace.pipeline.typed.latest.merging import LatestMerging
from headrace.pipeline.typed.ports import KeptTable, ParsePorts
from headrace.pipeline.typed.quarantine.redrive import Redriving
from headrace.pipeline.typed.quarantine.settle import Settling
from headrace.pipeline.typed.values import WaveLimits
from headrace.pipeline.typed.wave import Parsing


def _ignore(_target: str, _wave: Wave) -> None: ...


@dataclass(frozen=True, slots=True)
class TargetWiring:
    """Puts the duties of typed tables together, from the settings and the ports."""

    settings: Settings
    clock: Clock
    ports_of: Callable[[ParseSettings, str], ParsePorts]
    """The ports of one target, for the run with this id."""
    lineage: Callable[[str], LineageTable]
    """The ledgers of the lake table, for the duty with this name."""
    on_wave: Callable[[str, Wave], None] = _ignore
    """Called with the name of a target, and what a wave of it did."""

    def parsing(self, target: ParseSettings, run_id: str, *, accepts_difference: bool = False) -> Parsing:
        """The parsing of one target. `run_id`: the run that parses, for the ledger. `accepts_difference`: whether
        a person has decided to parse the rows that the lake table has, though its ledgers state other rows.
        """
        parse_ports, wave = self.ports_of(target, run_id), self.settings.wave
        return Parsing(
            settings=target,
            ports=parse_ports,
            settling=Settling(table=parse_ports.table, quarantine=parse_ports.quarantine, run=run_id),
            checking=ParseChecking(
                name=target.name,
                ports=parse_ports,
                landings=self.lineage("parse"),
                retention=self.settings.upkeep.retention,
                clock=self.clock,
                accepts_difference=accepts_difference,
            ),
            deduplicating=_deduplicating(target, parse_ports),
            merging=_merging(target, parse_ports),
            limits=WaveLimits(wave.records, wave.bytes),
            clock=self.clock,
            expiring=expiring_all(parse_ports.kept, self.settings.upkeep, self.clock),
            run=run_id,
            on_wave=partial(self.on_wave, target.name),
        )

    def inferring(self, target: ParseSettings) -> Inferring:
        """The duty that finds out which columns the payloads of a target would make."""
        parse_ports, wave = self.ports_of(target, "infer"), self.settings.wave
        return Inferring(
            settings=target,
            source=parse_ports.source,
            surveyor=parse_ports.parser,
            columns_of=parse_ports.infer,
            limits=WaveLimits(wave.records, wave.bytes),
        )

    def redriving(self, target: ParseSettings, run_id: str) -> Redriving:
        """The redrive of one target's quarantine table. `run_id`: the run that parses, for the ledger."""
        parse_ports, wave = self.ports_of(target, run_id), self.settings.wave
        return Redriving(
            settings=target,
            ports=parse_ports,
            settling=Settling(table=parse_ports.table, quarantine=parse_ports.quarantine, run=run_id),
            deduplicating=_deduplicating(target, parse_ports),
            limits=WaveLimits(wave.records, wave.bytes),
            clock=self.clock,
            run=run_id,
        )


def expiring_all(tables: Iterable[KeptTable], settings: UpkeepSettings, clock: Clock) -> tuple[Expiring, ...]:
    """The expiry of the snapshots of tables that are made of the lake table, and of their quarantine tables."""
    return tuple(
        Expiring(table=kept.table, lineage=kept.lineage, settings=settings, clock=clock, what=kept.name)
        for kept in tables
    )


def _deduplicating(target: ParseSettings, parse_ports: ParsePorts) -> Deduplicating | None:
    within = target.unique.within
    return (
        Deduplicating(table=parse_ports.typed.table, name=target.table, within=within)
        if within is not None
        else None
    )


def _merging(target: ParseSettings, parse_ports: ParsePorts) -> LatestMerging | None:
    rows = parse_ports.latest
    return None if rows is None else LatestMerging(rows=rows, settings=target)
