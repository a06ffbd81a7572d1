"""The quarantine table follows its typed table: what a commit of the typed table has set aside becomes rows of the quarantine table.

The typed table's ledger names the staged files of these rows. Any later process carries the commit out, also one with another version of
the parser, because nothing is parsed again. The quarantine table has positions of its own, so that each row lands in it once.
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
        """Bring the quarantine table up to the typed table. Returns how many rows it got."""
        for _ in range(_TRIES):
            table, quarantine = self.table.load().positions, self.quarantine.load().positions
            plan = plan_settling(table, quarantine, self.table.pages())
            if not plan:
                return 0
            files = tuple(self._files(plan))
            ranges = tuple(self._range(each, files) for each in plan)
            origins = tuple((s, o) for s, o in table.origins.items() if s not in quarantine.origins)
            exchange = self._exchange(plan)
            proposal = Proposal(ranges, (*files, *exchange.added), origins, whole=True, gone=exchange.gone)
            committed = self.quarantine.commit(proposal)
            if not committed.landing.refused:
                return sum(each.rows for each in files)
        raise Transient(
            f"the quarantine table couldn't be brought up to the typed table: {_TRIES} times another run was faster. Nothing is lost; the next "
            "wave tries again"
        )

    def _exchange(self, plan: Iterable[Unsettled]) -> Exchange:
        """How the rows leave that redrives have decided about. Those that stay are in the files that the plan names."""
        redriven = [each for each in plan if each.taken]
        if not redriven:
            return Exchange()
        taken = frozenset(name for each in redriven for name in each.taken)
        return self.quarantine.without(taken, frozenset(each.key for each in redriven))

    def _files(self, plan: Iterable[Unsettled]) -> Iterator[StagedFile]:
        shards: dict[str, set[ShardKey]] = {}
        wanted = 0
        for each in plan:
            wanted += each.quarantined
            for name in each.files:
                shards.setdefault(name, set()).add(each.key)
        found = [self.quarantine.staged(name, frozenset(keys)) for name, keys in sorted(shards.items())]
        if (rows := sum(each.rows for each in found)) != wanted:
            raise WrongShape(
                f"the files that the typed table has set aside hold {rows:,} rows, and its ledger tells of {wanted:,}. Nothing was changed; report "
                "this as an error of Headrace"
            )
        yield from found

    def _range(self, each: Unsettled, files: Iterable[StagedFile]) -> Range:
        return Author(self.run).range(
            each.ranges[0].kind,
            each.key,
            each.after,
            each.upto,
            rows=each.quarantined,
            files=files,
            account=each.ranges[0].account if len(each.ranges) == 1 else "",
        )
