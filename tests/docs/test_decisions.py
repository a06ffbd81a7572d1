"""docs/decisions.md: each entry is in the index once, with a status, and the index names nothing else."""

import re
from collections import Counter

from tests.docs.pages import ROOT, anchor

INDEX, ENTRIES = (
    (ROOT / "docs" / "decisions.md").read_text(encoding="utf-8").split("<!-- end of index -->", maxsplit=1)
)
TITLES = re.findall(r"^## (\d{4}-\d{2}-\d{2} .+)$", ENTRIES, re.MULTILINE)
LINES = re.findall(r"^- \[(.+)\]\(#([\w-]+)\): (.+)$", INDEX.partition("<!-- index -->")[2], re.MULTILINE)
_STATUS = re.compile(r"stands|open|(?:amended|replaced) by \[.+\]\(#([\w-]+)\)")


def test_every_entry_is_in_the_index_once_and_the_index_names_nothing_else() -> None:
    listed = Counter(to for _, to, _ in LINES)
    written = Counter(anchor(title) for title in TITLES)
    assert written - listed == Counter(), "entries that the index lacks: add a line under their subject"
    assert listed - written == Counter(), "lines of the index without an entry"


def test_the_index_calls_entries_by_their_titles() -> None:
    assert [(said, to) for said, to, _ in LINES if not to.endswith(anchor(said))] == []


def test_every_entry_has_a_status_and_names_the_entry_that_amends_or_replaces_it() -> None:
    anchors = {anchor(title) for title in TITLES}
    for said, _, status in LINES:
        match = _STATUS.fullmatch(status)
        assert match, f"{said}: {status!r} is no status"
        assert match[1] is None or match[1] in anchors


def test_entries_are_in_the_order_of_their_dates() -> None:
    days = [title[:10] for title in TITLES]
    assert days == sorted(days)
