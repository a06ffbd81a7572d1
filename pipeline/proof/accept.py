"""`headrace prove --accept-foreign`: a person accepts rows that a snapshot of another engine has brought. From
then on a proof no longer calls them wrong, but lists them as not proved.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from headrace.pipeline.core.ledger.arrivals import ALL
from headrace.pipeline.core.ledger.filter import Joining
from headrace.pipeline.errors import Unknown, WrongShape
from headrace.pipeline.ports.lineage import LineageTable
from headrace.pipeline.proof.accepted import Accepted, sentence
from headrace.pipeline.proof.memory import ledgers_up_to
from headrace.pipeline.proof.ports import ProofTable
from headrace.pipeline.proof.spans import ShardSpans, plan_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepting:
    """Stores a person's decision that rows of another engine may stay in the lake table."""

    table: ProofTable
    lineage: LineageTable
    by: str
    """Who accepts: a user and a host, for people."""

    def accept(self, snapshot: int, *, why: str) -> str:
        """Store that the rows of this snapshot may stay. Returns a sentence for people."""
        # A second word would allow the same number of rows once more.
        if any(earlier.snapshot == snapshot for earlier in self.table.accepted()):
            return f"the rows of snapshot {snapshot} were accepted before; nothing was changed"
        files = self.table.inserted_by(snapshot)
        if not files:
            raise Unknown(f"snapshot {snapshot} has added no data file; nothing was changed")
        rows: Counter[str] = Counter()
        for count in self.table.count(files, self._spans()):
            # A number that is too small would leave rows wrong, and one that is guessed would hide others.
            if count.error:
                raise WrongShape(
                    f"the rows of snapshot {snapshot} can't be counted any more: {count.path}: {count.error}. "
                    "Nothing was changed"
                )
            rows.update(dict(count.strange))
        if not rows:
            raise WrongShape(
                f"nothing of snapshot {snapshot} can be accepted: each row of it is in a range of the ledgers. "
                "Where such a row is in the table twice, `headrace prove` names it; remove the second one. "
                "Nothing was changed"
            )
        accepted = Accepted(snapshot, dict(rows), why, self.by)
        self.table.accept(accepted)
        return sentence(accepted)

    def _spans(self) -> tuple[ShardSpans, ...]:
        """Where the ledgers claim rows, as a proof asks: only the other rows are accepted."""
        upto = self.table.look().sequence
        story = ledgers_up_to(self.lineage, upto, None, Joining(upto + 1)).story
        return plan_rows(story, window=ALL).spans
