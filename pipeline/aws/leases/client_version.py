"""The row `Migration3.0`: which version of KCL's client the workers of an application have agreed on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.pipeline.aws.leases import lock_item
from headrace.pipeline.aws.leases import migration_item as wire
from headrace.pipeline.aws.leases.migration_item import VersionRow
from headrace.pipeline.aws.leases.rows import Place, Rows
from headrace.pipeline.errors import WrongShape
from headrace.pipeline.kcl.layout import CLIENT_VERSION

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


class DynamoClientVersion:
    """The row of KCL's migration to version 3. With the key `leaseKey` the row is in the lease table (layout
    S), and has the attribute entityType."""

    def __init__(
        self, client: DynamoDBClient, table: str | Callable[[], Place], *, key: str = lock_item.KEY
    ) -> None:
        self._rows = Rows(client, table, key=key)

    def read(self) -> VersionRow | None:
        item = self._rows.get(CLIENT_VERSION)
        try:
            return None if item is None else wire.read_version(item)
        except WrongShape as error:
            raise WrongShape(
                f"the row {CLIENT_VERSION} of table {self._rows.table}, which KCL writes, "
                f"can't be understood: {error}. Nothing was written; "
                "check which versions of KCL your workers run"
            ) from error
