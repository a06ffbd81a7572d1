"""A wave of a typed table: records that the lake table has and the typed table lacks are parsed, and land in one
commit.

So each record is parsed into one row, set aside once, or dropped for a reason that the ledger names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

from headrace.pipeline.core.ledger.accounting import Accounting
from headrace.pipeline.core.ledger.ledger import Kind
from headrace.pipeline.core.shards.position import Positions
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.errors import WrongShape
from headrace.pipeline.settings.blocks.parse import ParseSettings
from headrace.pipeline.typed.account import account, told_reasons, why_stop
from headrace.pipeline.typed.done_wave import Does, Wave, wave_of
from headrace.pipeline.typed.duplicates import Deduplicating
from headrace.pipeline.typed.former_lives import by_lives
from headrace.pipeline.typed.lake_wave import Basis, LakeWaves
from headrace.pipeline.typed.latest.merging import LatestMerging
from headrace.pipeline.typed.ports import ParsePorts, Parser
from headrace.pipeline.typed.values import Parsed, WavePlan, Wishes
from headrace.pipeline.typed.wave_engine import ReadyWave, accounted_ranges


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsing(LakeWaves):
    does: ClassVar[Does] = Does.PARSE
    past: ClassVar[str] = "parsed"

    settings: ParseSettings
    ports: ParsePorts
    deduplicating: Deduplicating | None = None
    """None where all rows stay, also those of the same event."""
    merging: LatestMerging | None = None
    """None where the table has a row for each record."""
    on_wave: Callable[[Wave], None] = lambda _: None
    """Called with what a wave did that had something to parse."""

    @property
    def surveyor(self) -> Parser:
        return self.ports.parser

    def wishes(self, source: Positions, target: Positions) -> Wishes:
        wishes = LakeWaves.wishes(self, source, target)
        return wishes if self.merging is None else by_lives(wishes)

    def in_the_way(self) -> tuple[str, ...]:
        """The reasons why no wave can parse some of the landed records now, as sentences for people."""
        has_tables = self.ports.source.exists() and self.ports.table.exists()
        return self._wishes_now().notes if has_tables else ()

    def lacks_records(self) -> bool:
        """Whether landed records are left to parse, including those that no wave can parse now."""
        return self.is_behind() or (self.ports.source.exists() and bool(self._wishes_now().held_back))

    def stage(self, plan: Basis) -> ReadyWave:
        basis, wave = plan, plan.plan
        comparison = self.deduplicating.plan(wave) if self.deduplicating else None
        parsed, schema = self.ports.parser.parse(wave, basis.wishes, comparison)
        # Each row that was read has to come back, or to be dropped for a reason that the target has: else nothing is
        # committed.
        accounts = self._accounts(wave, parsed, schema)
        reasons = told_reasons(parsed, self.settings)
        if why := why_stop(accounts.values(), self.settings.stop_above, reasons):
            raise WrongShape(
                f"{self.settings.name}: {why}. Nothing was committed, no record was moved aside, "
                "and no position moved. Correct the schema or the parser, or raise stop_above of this target, "
                "and run it again"
            )
        merged = None
        if self.merging is not None:
            keys = frozenset(planned.key for planned in wave.ranges)
            merged = self.merging.merge(parsed, keys, basis.wishes.streams)
            parsed = merged.parsed
            accounts = self._accounts(wave, parsed, schema)
        # After the parsing, when the user's modules have been read: this is the code that parsed.
        code = self.ports.code()
        ranges = tuple(accounted_ranges(Kind.PARSED, wave, accounts, parsed.files, run=self.run, code=code))
        compared = comparison.positions if comparison else merged.positions if merged else None
        gone = merged.gone if merged else ()
        proposal = self.proposal(
            basis, wave, ranges, parsed.files, aside=parsed.aside, compared=compared, gone=gone
        )
        done = wave_of(Does.PARSE, wave.rows, accounts.values(), is_last=wave.is_last)
        done = replace(done, settled=basis.settled, notes=basis.notes, reasons=reasons)
        return ReadyWave(self.ports.table, proposal, done, self._follow)

    def _accounts(self, wave: WavePlan, parsed: Parsed, schema: int) -> dict[ShardKey, Accounting]:
        version = self.settings.version
        return account(wave, parsed, dropped_as=self.ports.dropped_as, version=version, schema=schema)

    def _follow(self, wave: Wave) -> Wave:
        done = self.settling.after(wave)
        self.on_wave(done)
        return done
