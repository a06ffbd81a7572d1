"""The coordination tables: through this resource the assets reach lease, worker and coordinator rows."""

import dagster as dg

from headrace.pipeline.app.ports import Ports
from headrace.pipeline.ports.leases import LeaderLock, LeaseStore, Tables, WorkerStore
from headrace.pipeline.settings.model import Settings
from headrace.resources.aws import AwsResource, place_of


class LeaseTablesResource(AwsResource):
    """The table names are for Dagster to show. The ports come from the process's own `Adapters`."""

    application: str
    lease_table: str
    worker_table: str
    state_table: str
    ports: dg.ResourceDependency[Ports]

    @classmethod
    def of(cls, settings: Settings, ports: dg.ResourceDefinition) -> "LeaseTablesResource":
        return cls(
            **place_of(settings.aws),
            application=settings.application,
            lease_table=settings.lease_table,
            worker_table=settings.worker_table,
            state_table=settings.state_table,
            ports=ports,
        )

    def leases(self) -> LeaseStore:
        return self.ports.leases()

    def workers(self) -> WorkerStore:
        return self.ports.workers()

    def lock(self) -> LeaderLock:
        return self.ports.lock()

    def tables(self) -> Tables:
        return self.ports.tables()
