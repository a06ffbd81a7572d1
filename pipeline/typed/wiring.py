"""The duties of typed tables, put together from settings and ports: parsing, the columns that payloads would make, and redrives.

    Wiring.targets ──► parsing      for Dagster's sensors and assets, and `headrace parse`
                   ├─► inferring    for `headrace parse --infer`
                   └─► redriving    for Dagster's redrive jobs, and `headrace redrive`

Importing this module imports neither Dagster nor boto3, pyiceberg or Spark.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.pipeline.duties.waves.expire import Expiring
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.settings.parse_block import ParseSettings
from headrace.pipeline.typed.check_wave import ParseChecking
from headrace.pipeline.typed.duplicates import Deduplicating
from headrace.pipeline.typed.infer import Inferring
from headrace.pipeline.typed.ports import KeptTable, ParsePorts, TypedPorts
from headrace.pipeline.typed.quarantine.redrive import Redriving
from headrace.pipeline.typed.quarantine.settle import Settling
from headrace.pipeline.typed.values import WaveLimits
from headrace.pipeline.typed.wave import Parsing


@dataclass(frozen=True, slots=True)
class TargetWiring:
    settings: Settings
    ports: TypedPorts

    def parsing(self, target: ParseSettings, run_id: str, *, accepts_difference: bool = False) -> Parsing:
        """The parsing of one target. `run_id`: the run that parses, for the ledger. `accepts_difference`: whether a person has said that
        the rows which are there are to be parsed, though the ledgers of the lake table state others."""
        parts, wave = self.ports.parsing(target, run_id), self.settings.wave
        return Parsing(
            settings=target,
            source=parts.source,
            table=parts.table,
            settling=Settling(table=parts.table, quarantine=parts.quarantine, run=run_id),
            parser=parts.parser,
            dropped_as=parts.dropped_as,
            checking=ParseChecking(
                name=target.name,
                source=parts.source,
                table=parts.table,
                landings=self.ports.lineage("parse"),
                lineage=parts.lineage,
                retention=self.settings.upkeep.retention,
                clock=self.ports.clock,
                accepts_difference=accepts_difference,
            ),
            deduplicating=_deduplicating(target, parts),
            limits=WaveLimits(wave.records, wave.bytes),
            clock=self.ports.clock,
            expiring=tuple(map(self.expiring_of, parts.kept)),
            run=run_id,
            code=parts.code,
            check_settings=parts.check_settings,
        )

    def inferring(self, target: ParseSettings) -> Inferring:
        """Which columns the payloads of a target would make."""
        parts, wave = self.ports.parsing(target, "infer"), self.settings.wave
        return Inferring(
            settings=target,
            source=parts.source,
            inferrer=parts.inferrer,
            limits=WaveLimits(wave.records, wave.bytes),
        )

    def redriving(self, target: ParseSettings, run_id: str) -> Redriving:
        """The redrive of one target's quarantine table. `run_id`: the run that parses, for the ledger."""
        parts, wave = self.ports.parsing(target, run_id), self.settings.wave
        return Redriving(
            settings=target,
            table=parts.table,
            settling=Settling(table=parts.table, quarantine=parts.quarantine, run=run_id),
            source=parts.set_aside,
            redriver=parts.redriver,
            dropped_as=parts.dropped_as,
            deduplicating=_deduplicating(target, parts),
            limits=WaveLimits(wave.records, wave.bytes),
            run=run_id,
            code=parts.code,
            check_settings=parts.check_settings,
        )

    def expiring_of(self, kept: KeptTable) -> Expiring:
        """The expiry of the snapshots of a typed table, or of a quarantine table."""
        return Expiring(
            table=kept.table,
            lineage=kept.lineage,
            settings=self.settings.upkeep,
            clock=self.ports.clock,
            what=kept.name,
        )


def _deduplicating(target: ParseSettings, parts: ParsePorts) -> Deduplicating | None:
    within = target.unique.within
    return (
        Deduplicating(table=parts.typed.table, name=target.table, within=within)
        if within is not None
        else None
    )
