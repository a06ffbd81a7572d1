"""The coordination tables: the only way from assets and sensors to lease, worker and coordinator rows."""

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pipeline.clock import SystemClock
from pipeline.ports import LeaderLock, LeaseStore, Tables, WorkerStore
from pipeline.settings import CoordinationSettings, Settings
from resources.aws import AwsResource, where
from resources.told import heard, told

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

    from pipeline.aws.layout import Places

_PATIENCE = timedelta(seconds=30)
"""For tables in the making: below the deadline of a leader's tick, which looks again at its next one."""


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
        from pipeline.aws.leases import DynamoLeaseStore

        client, settings = self._client(), self._settings
        found = self._places(client)
        return DynamoLeaseStore(
            client,
            settings.lease_table,
            entity_type=lambda: not found().arrangement.lease_rows_only,
            segments=settings.coordination.scan_segments,
        )

    def workers(self) -> WorkerStore:
        from pipeline.aws.workers import DynamoWorkerStore

        client = self._client()
        found = self._places(client)
        return DynamoWorkerStore(
            client, lambda: found().workers, clock=SystemClock(), also=lambda: found().also_workers
        )

    def lock(self) -> LeaderLock:
        from pipeline.aws.leader_lock import DynamoLeaderLock

        client = self._client()
        found = self._places(client)
        return DynamoLeaderLock(client, lambda: found().lock)

    def tables(self) -> Tables:
        from pipeline.aws.tables import DynamoTables

        return DynamoTables(self._client(), self._settings, patience=_PATIENCE)

    def _client(self) -> "DynamoDBClient":
        from pipeline.aws.clients import dynamodb_client

        return dynamodb_client(self.aws)

    def _places(self, client: "DynamoDBClient") -> "Callable[[], Places]":
        """Asked when a row is, so that trouble is the tick's to tell."""
        from pipeline.aws.layout import places

        settings = self._settings
        return lambda: places(client, settings)

    @property
    def _settings(self) -> Settings:
        how = heard(CoordinationSettings, self.coordination)
        return Settings(application=self.application, streams=(), coordination=how)
