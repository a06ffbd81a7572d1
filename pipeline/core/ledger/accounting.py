"""What became of the rows of a parsed range, as the ledger of a typed table keeps it.

A range of a typed table has the kind `parsed`, and its `why` is the text of an Accounting. The text names the
staged files of the rows that go to the quarantine table: the typed table's commit decides about them, and the
quarantine table's commit only does what the text says.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.pipeline.errors import WrongShape

# A text of another form is refused: counts that are read wrongly would let rows pass for accounted ones.
_FORM = 1


@dataclass(frozen=True, slots=True)
class Accounting:
    rows: int
    """The range's rows in the lake table; of a redrive, the shard's rows in the files of the quarantine table that it
    took. With a range of the kind `generation`: the rows that come into the quarantine table."""
    parsed: int
    quarantined: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict)
    """Reason -> rows that are in neither table."""
    version: str = ""
    """The version of the parsing, from the settings."""
    schema: int = 0
    """The number of the typed table's schema."""
    aside: tuple[str, ...] = ()
    """Staged files of the quarantine table with the range's quarantined rows, named as below the table's data folder.
    They may have rows of other ranges of the same commit, too."""
    taken: tuple[str, ...] = ()
    """The data files of the quarantine table whose rows a redrive or a replacement decided about, named in the same
    way. All their rows leave the quarantine table; those that stay there come back in the files of `aside`."""
    code: str = ""
    """What parsed the rows, with digests of the code and of the schema."""
    window: str = ""
    """The id of the window whose range a replacement parsed again; empty where the range isn't a replacement's."""
    removed: tuple[int, int] = (0, 0)
    """How many older rows of the range a replacement takes out of the typed table, and how many out of the quarantine
    table."""

    @property
    def is_complete(self) -> bool:
        """Whether each row was parsed, set aside or dropped, and none counts twice."""
        counts = (self.rows, self.parsed, self.quarantined, *self.dropped.values())
        accounted = self.parsed + self.quarantined + sum(self.dropped.values())
        # A quarantined row without a staged file would be lost with this commit, and a staged file without
        # such a row would bring rows into quarantine that no ledger claims.
        return min(counts) >= 0 and accounted == self.rows and bool(self.aside) == bool(self.quarantined)

    def text(self) -> str:
        content: dict[str, object] = {
            "form": _FORM,
            "rows": self.rows,
            "parsed": self.parsed,
            "quarantined": self.quarantined,
            # Sorted, here and below, so that equal accountings give equal texts.
            "dropped": dict(sorted(self.dropped.items())),
            "version": self.version,
            "schema": self.schema,
            "aside": sorted(self.aside),
        }
        # Only redrives and replacements have these. A ledger is copied by each later commit, so that its
        # texts have to stay short.
        if self.taken:
            content["taken"] = sorted(self.taken)
        if self.code:
            content["code"] = self.code
        if self.window:
            content |= {"window": self.window, "removed": self.removed}
        return json.dumps(content, separators=(",", ":"), ensure_ascii=True)


def all_dropped(tallies: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The number of dropped rows by reason, over all parts together, in the order of the reasons' texts."""
    total: Counter[str] = Counter()
    for dropped in tallies:
        total.update(dropped)
    return dict(sorted(total.items()))


def read_accounting(text: str) -> Accounting:
    """The accounting of a range, read from its text in the ledger. Raises WrongShape for a text that this
    version's `Accounting.text` can't have made.
    """
    try:
        content = json.loads(text)
        if content["form"] != _FORM:
            raise WrongShape(
                f"the accounting of a parsed range has the form {content['form']!r}, "
                f"and this Headrace reads form {_FORM}. Nothing was "
                "changed; upgrade Headrace in this deployment"
            )
        return Accounting(
            int(content["rows"]),
            int(content["parsed"]),
            int(content["quarantined"]),
            {str(reason): int(rows) for reason, rows in content["dropped"].items()},
            str(content["version"]),
            int(content["schema"]),
            tuple(map(str, content["aside"])),
            tuple(map(str, content.get("taken", ()))),
            str(content.get("code", "")),
            str(content.get("window", "")),
            _two(content.get("removed", (0, 0))),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise WrongShape(f"the accounting of a parsed range can't be read ({error!r})") from error


def _two(counts: Any) -> tuple[int, int]:
    typed, aside = counts
    return int(typed), int(aside)
