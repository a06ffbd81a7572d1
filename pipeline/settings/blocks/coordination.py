"""The settings of the coordination tables: `coordination`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.pipeline.settings.choices import Billing, Create
from headrace.pipeline.settings.knob import knob


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinationSettings:
    lease_table: str | None = knob(
        doc="Name of the lease table. Default: the application's name.", kcl="tableName"
    )
    worker_table: str | None = knob(
        doc="Name of the worker table. Default: <application>-WorkerMetricStats.",
        kcl="workerMetricsTableConfig",
    )
    state_table: str | None = knob(
        doc="Name of the coordinator table. Default: <application>-CoordinatorState.",
        kcl="coordinatorStateTableConfig",
    )
    create: Create = knob(
        Create.AUTO,
        doc="auto: the leader creates missing tables. never: a missing table is an error, which names the command "
        "that creates it.",
    )
    billing: Billing = knob(
        Billing.ON_DEMAND,
        doc="DynamoDB's billing mode of created tables: PAY_PER_REQUEST or PROVISIONED.",
        kcl="billingMode",
    )
    read_capacity: int = knob(
        10,
        doc="With `billing: PROVISIONED`: read capacity units of a created table.",
        kcl="initialLeaseTableReadCapacity",
    )
    write_capacity: int = knob(
        10,
        doc="With `billing: PROVISIONED`: write capacity units of a created table.",
        kcl="initialLeaseTableWriteCapacity",
    )
    point_in_time_recovery: bool = knob(
        default=False,
        doc="Created tables have continuous backups (point-in-time recovery).",
        kcl="leaseTablePitrEnabled",
    )
    deletion_protection: bool = knob(
        default=False,
        doc="Created tables have DynamoDB's deletion protection: DynamoDB refuses to delete them.",
        kcl="leaseTableDeletionProtectionEnabled",
    )
    tags: Mapping[str, str] = knob(factory=dict, doc="Tags of created tables.", kcl="tags")
    cleanup: bool = knob(
        default=True,
        doc="The leader deletes the lease rows of shards that were read to their end, once no child shard needs them.",
        kcl="cleanupLeasesUponShardCompletion",
    )
