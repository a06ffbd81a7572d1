"""A person accepts rows that a snapshot of another engine has brought: a proof no longer calls them wrong, and names them as not proved."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from headrace.pipeline.core.proof_accepted import Accepted, sentence
from headrace.pipeline.errors import Unknown, WrongShape
from headrace.pipeline.proof_ports import ProofTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepting:
    table: ProofTable
    by: str
    """Who accepts: a user and a host, for people."""

    def accept(self, snapshot: int, *, why: str) -> str:
        """Note that the rows of this snapshot may stay. Returns a sentence for people."""
        if any(each.snapshot == snapshot for each in self.table.accepted()):
            return f"the rows of snapshot {snapshot} were accepted before; nothing was changed"
        files = self.table.inserted_by(snapshot)
        if not files:
            raise Unknown(f"snapshot {snapshot} has added no data file; nothing was changed")
        rows: Counter[str] = Counter()
        # Without a span, no row is in one: each counts by its shard.
        for each in self.table.count(files, ()):
            if each.error:
                raise WrongShape(
                    f"the rows of snapshot {snapshot} can't be counted any more: {each.path}: {each.error}. Nothing was changed"
                )
            rows.update(dict(each.strange))
        accepted = Accepted(snapshot, dict(rows), why, self.by)
        self.table.accept(accepted)
        return sentence(accepted)
