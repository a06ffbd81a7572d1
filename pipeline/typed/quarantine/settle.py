"""Brings the quarantine table up to its typed table: rows that a commit of the typed table has set aside become
rows of the quarantine table.

The typed table's ledger names the staged files with these rows. So any later process can do this, also one with
another version of the parser, because nothing is parsed again. The quarantine table has positions of its own, so
that each row lands in it once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.ledger.author import Author
from headrace.pipeline.core.ledger.batch import StagedFile
from headrace.pipeline.core.ledger.ledger import Range
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.errors import Transient, WrongShape
from headrace.pipeline.typed.done_wave import Wave
from headrace.pipeline.typed.ports import Exchange, ParsedTable, QuarantineTable
from headrace.pipeline.typed.quarantine.settle_plan import Unsettled, is_settled, plan_settling

_TRIES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Settling:
    table: ParsedTable
    quarantine: QuarantineTable
    run: str

    def is_settled(self) -> bool:
        return is_settled(self.table.load().positions, self.quarantine.load().positions)

    def settle(self) -> int:
        """Put into the quarantine table what commits of the typed table have decided. Returns how many rows it got."""
        for _ in range(_TRIES):
            # Both are loaded anew for each try: another process may have carried out a part of it
            # meanwhile.
            table, quarantine = self.table.load().positions, self.quarantine.load().positions
            plan = plan_settling(table, quarantine, self.table.pages())
            if not plan:
                return 0
            files = tuple(self._files(plan))
            ranges = tuple(self._range(unsettled, files) for unsettled in plan)
            origins = tuple((s, o) for s, o in table.origins.items() if s not in quarantine.origins)
            # In the commit of the positions: once a position has come, nothing is settled before it any more.
            exchange = self._exchange(plan)
            proposal = Proposal(ranges, (*files, *exchange.added), origins, whole=True, gone=exchange.gone)
            committed = self.quarantine.commit(proposal)
            if not committed.landing.refused:
                return sum(file.rows for file in files)
        raise Transient(
            f"the quarantine table couldn't be brought up to the typed table: {_TRIES} times another run was faster. "
            "Nothing is lost; the next wave tries again"
        )

    def after(self, wave: Wave) -> Wave:
        """Put into the quarantine table what the commit of this wave has decided, and return the wave."""
        self.settle()
        return wave

    def _exchange(self, plan: Iterable[Unsettled]) -> Exchange:
        """How the rows leave that redrives have decided about. Those that stay are in the files that the plan names."""
        redriven = [unsettled for unsettled in plan if unsettled.taken]
        if not redriven:
            return Exchange()
        taken = frozenset(name for unsettled in redriven for name in unsettled.taken)
        return self.quarantine.without(taken, frozenset(unsettled.key for unsettled in redriven))

    def _files(self, plan: Iterable[Unsettled]) -> Iterator[StagedFile]:
        shards: dict[str, set[ShardKey]] = {}
        expected = 0
        for unsettled in plan:
            expected += unsettled.quarantined
            for name in unsettled.files:
                shards.setdefault(name, set()).add(unsettled.key)
        staged = [self.quarantine.staged(name, frozenset(keys)) for name, keys in sorted(shards.items())]
        # Before the commit: a file that something else has changed would bring other rows than were decided about.
        if (rows := sum(file.rows for file in staged)) != expected:
            raise WrongShape(
                f"the files that the typed table has set aside hold {rows:,} rows, and its ledger tells of "
                f"{expected:,}. Nothing was changed; report this as an error of Headrace"
            )
        yield from staged

    def _range(self, unsettled: Unsettled, files: Iterable[StagedFile]) -> Range:
        return Author(self.run).range(
            unsettled.ranges[0].kind,
            unsettled.key,
            unsettled.after,
            unsettled.upto,
            rows=unsettled.quarantined,
            files=files,
            account=unsettled.ranges[0].account if len(unsettled.ranges) == 1 else "",
        )
