"""The console as one file: one reading of the tables, or two that are compared, with every shard's page."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from headrace.pipeline.console.details import details_of
from headrace.pipeline.console.page import whole_page
from headrace.pipeline.console.server import Console
from headrace.pipeline.errors import BadSetting, Unreachable

MOST_PAGES: Final = 500
"""Shards whose pages are in the file. Of more shards, the pages of those that need a person are."""
MOST_READ_OF_THE_LAKE: Final = 50
"""Shards for which the lake table's ledgers are read: each takes a moment."""


def write_once(console: Console, out: Path) -> str:
    """Write the console's newest picture into one file. Returns a sentence that says what was written."""
    report = console.watch.report(at_once=True)
    if report.picture is None:
        raise Unreachable(
            f"{report.trouble.sentence if report.trouble else 'there is no picture yet'}; no file was written"
        )
    look = console.documents.of(report)
    urgent_first = sorted(report.picture.shards, key=lambda shard: -shard.level)
    lake = console.lake if len(urgent_first) <= MOST_READ_OF_THE_LAKE else None
    pages = {shard.kin.key: details_of(report, shard.kin.key, lake) for shard in urgent_first[:MOST_PAGES]}
    text = whole_page({"look": look, "shards": pages})
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadSetting(
            f"{out} can't be written ({error.strerror}); name another file with --once"
        ) from error
    return f"written: {out} ({len(text.encode()) / 1e6:.1f} MB); {report.picture.conclusion}"
