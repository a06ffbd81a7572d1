"""What rows of ended shards cost, as docs/reference/costs.md tells it."""

from pathlib import Path

import pytest

from headrace.pipeline.cost.sizing import scanned
from headrace.pipeline.settings.model import Settings, StreamSettings, WorkerSettings

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "costs.md"


@pytest.mark.parametrize(
    ("rows", "told"), [(1000, "cost {} read units an hour at 512 bytes"), (365, "a year: {} units an hour")]
)
def test_the_page_tells_what_the_leaders_scans_of_ended_rows_cost(rows: int, told: str) -> None:
    settings = Settings(
        application="app", streams=(StreamSettings(name="orders"),), workers=(WorkerSettings(id="w1"),)
    )
    units = round(scanned(settings, rows=rows) * 3600)
    assert told.format(f"{units:,}") in " ".join(PAGE.read_text().split())
