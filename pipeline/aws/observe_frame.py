"""The leases of any KCL application as a pandas data frame: which worker and which cluster owns what."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pipeline.aws.observing import Observer, names_of
from pipeline.clock import SystemClock
from pipeline.core.observe import observe
from pipeline.core.observe_balance import BEFORE_THE_FIRST_DASH
from pipeline.core.observe_rows import COLUMNS, rows_of

if TYPE_CHECKING:
    import pandas as pd
    from mypy_boto3_dynamodb import DynamoDBClient


def observe_frame(
    client: DynamoDBClient, table: str, *, cluster_by: str = BEFORE_THE_FIRST_DASH
) -> pd.DataFrame:
    """One row a lease, of one look. Nothing is written."""
    import pandas as pd

    rule = re.compile(cluster_by)
    seen = observe(Observer(client, names_of(table), clock=SystemClock()).look(), cluster_by=rule)
    return pd.DataFrame(list(rows_of(seen, cluster_by=rule)), columns=list(COLUMNS)).astype(COLUMNS)
