"""The leases of any KCL application as a pandas data frame: which worker and which cluster owns which lease."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.pipeline.inspect.balance import BEFORE_THE_FIRST_DASH
from headrace.pipeline.inspect.lease_rows import COLUMNS, lease_rows_of
from headrace.pipeline.inspect.looking import look_at_tables

if TYPE_CHECKING:
    import pandas as pd
    from mypy_boto3_dynamodb import DynamoDBClient


def observe_frame(
    client: DynamoDBClient, table: str, *, cluster_by: str = BEFORE_THE_FIRST_DASH
) -> pd.DataFrame:
    """Read the tables once, and return one row for each lease. The function writes nothing."""
    import pandas as pd

    observation = look_at_tables(client, table, cluster_by=cluster_by)
    return pd.DataFrame(list(lease_rows_of(observation)), columns=list(COLUMNS)).astype(COLUMNS)
