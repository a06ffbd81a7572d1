"""What runs have used of AWS and CPU, from observations in Dagster's storage: `assets.reporter` writes one for
each run.
"""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import dagster as dg

from headrace.pipeline.cost.spent import Spent

KEY = "headrace/used"
"""Name of the metadata with everything that a run has used, as JSON."""
_PAGE = 500


def spent_in(dagster_home: Path, asset: dg.AssetKey, since: datetime, until: datetime) -> Iterator[Spent]:
    """The usage of the runs that ended between these times, as far as Dagster still has them."""
    with dg.DagsterInstance.from_config(str(dagster_home)) as instance:
        wanted = dg.AssetRecordsFilter(
            asset_key=asset, after_timestamp=since.timestamp(), before_timestamp=until.timestamp()
        )
        cursor: str | None = None
        while True:
            found = instance.fetch_observations(wanted, limit=_PAGE, cursor=cursor)
            for record in found.records:
                told = record.asset_observation.metadata.get(KEY) if record.asset_observation else None
                if isinstance(told, dg.JsonMetadataValue) and isinstance(told.data, dict):
                    yield Spent.from_json(told.data)
            if not found.has_more:
                return
            cursor = found.cursor
