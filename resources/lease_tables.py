"""The coordination tables: the only way from assets and sensors to lease, worker and coordinator rows."""

from datetime import timedelta
from enum import StrEnum
from typing import Any

from pipeline.clock import SystemClock
from pipeline.ports import LeaderLock, LeaseStore, Tables, WorkerStore
from pipeline.settings import Billing, CoordinationSettings, Create, Heartbeat, Layout, Settings
from resources.aws import AwsResource, where
from resources.told import told

_PATIENCE = timedelta(seconds=30)
"""For tables in the making: below the deadline of a leader's tick, which looks again at its next one."""
_WORDS: dict[str, type[StrEnum]] = {
    "layout": Layout,
    "create": Create,
    "billing": Billing,
    "heartbeat": Heartbeat,
}


class LeaseTablesResource(AwsResource):
    """The application's name and its `coordination` settings, in a form that Dagster can show."""

    application: str
    coordination: dict[str, Any]

    @classmethod
    def of(cls, settings: Settings) -> "LeaseTablesResource":
        return cls(
            **where(settings.aws),
            application=settings.application,
            coordination=told(settings.coordination),
        )

    def leases(self) -> LeaseStore:
        from pipeline.aws.clients import dynamodb_client
        from pipeline.aws.leases import DynamoLeaseStore

        return DynamoLeaseStore(dynamodb_client(self.aws), self._settings.lease_table)

    def workers(self) -> WorkerStore:
        from pipeline.aws.clients import dynamodb_client
        from pipeline.aws.workers import DynamoWorkerStore

        return DynamoWorkerStore(dynamodb_client(self.aws), self._settings.worker_table, clock=SystemClock())

    def lock(self) -> LeaderLock:
        from pipeline.aws.clients import dynamodb_client
        from pipeline.aws.leader_lock import DynamoLeaderLock

        return DynamoLeaderLock(dynamodb_client(self.aws), self._settings.state_table)

    def tables(self) -> Tables:
        from pipeline.aws.clients import dynamodb_client
        from pipeline.aws.tables import DynamoTables

        return DynamoTables(dynamodb_client(self.aws), self._settings, patience=_PATIENCE)

    @property
    def _settings(self) -> Settings:
        how: dict[str, Any] = {
            name: _WORDS[name](value) if name in _WORDS else value
            for name, value in self.coordination.items()
        }
        return Settings(application=self.application, streams=(), coordination=CoordinationSettings(**how))
