"""The coordination tables in DynamoDB: who reads which shard, who leads, and how to give a shard to another worker.

Headrace's own sensors and assets work on the same object, `wiring`, so that an asset of yours sees what they see.
"""

from typing import Any

import dagster as dg

from headrace.pipeline.app.wiring import Wiring
from headrace.pipeline.core.leases.election import LockRow
from headrace.pipeline.core.leases.lease import Lease, run_of_claim
from headrace.pipeline.core.leases.worker import Worker
from headrace.pipeline.core.shards.partition import meant_by, partition_of
from headrace.pipeline.errors import Unknown
from headrace.pipeline.settings.model import Settings
from headrace.resources.aws import AwsResource, aws_fields
from headrace.resources.stated import refuse_changes


class LeaseTablesResource(AwsResource):
    """The lease table, and the rows of workers and of the leader's lock. Each method asks DynamoDB anew.

    A shard is named as in Dagster and on the command line: by its partition (`shardId-000000000001`,
    `orders@123456789012:1764160000/1`), its lease key, or in short (`orders/1`). A name that fits no shard, or several,
    raises `Unknown`.
    """

    application: str
    lease_table: str
    worker_table: str
    state_table: str
    wiring: dg.ResourceDependency[Wiring]

    @classmethod
    def of(cls, settings: Settings, wiring: dg.ResourceDefinition) -> "LeaseTablesResource":
        return cls(**_stated(settings), wiring=wiring)

    def leases(self) -> tuple[Lease, ...]:
        """The lease rows of all shards, including those that have ended. This scans the lease table."""
        return self.wiring.leases().scan().leases

    def lease(self, shard: str) -> Lease:
        """The lease row of one shard."""
        keys = meant_by(
            shard, [lease.key for lease in self.leases()], only_stream=self.wiring.settings.only_stream
        )
        row = self.wiring.leases().get(keys[0]) if len(keys) == 1 else None
        if row is None:
            why = f"{len(keys)} shards fit this name" if len(keys) > 1 else "no lease row fits this name"
            raise Unknown(f"{shard!r}: {why}; `headrace status` names all shards")
        return row

    def owner(self, shard: str) -> str | None:
        """The worker that may read the shard now; None where the leader has assigned it to nobody yet."""
        return self.lease(shard).holder

    def workers(self) -> tuple[Worker, ...]:
        """The rows of all workers, with their beats and how busy they are; including workers of KCL, and those
        that are gone.
        """
        return self.wiring.ports.workers().listing().workers

    def lock(self) -> LockRow | None:
        """The row of the leader's lock, which names the leader; None where nobody leads."""
        return self.wiring.ports.lock().read()

    def claims(self) -> dict[str, str]:
        """The shards that a run reads now: partition -> the run's id."""
        return {
            partition_of(lease.key): run_of_claim(lease.run_claim)
            for lease in self.leases()
            if lease.run_claim is not None
        }

    def hand_over(self, shard: str, to: str) -> str:
        """Give the shard to the worker `to`. A run that reads it finishes its wave first, so that no record is lost or
        read twice. Returns what happens now, as a sentence.

        Later the leader may move the shard again, to balance the workers. Raises BadSetting where the shard can't be
        given to this worker, and Transient where another process has changed the row meanwhile; then nothing was
        written.
        """
        return self.wiring.decisions.handing_over().hand_over(self.lease(shard), to)

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        # Sensors and other runs go by the settings file. A table that was typed into the launchpad
        # would have one shard read from two tables.
        refuse_changes(self, _stated(self.wiring.settings))


def _stated(settings: Settings) -> dict[str, Any]:
    return {
        **aws_fields(settings.aws.of("dynamodb")),
        "application": settings.application,
        "lease_table": settings.lease_table,
        "worker_table": settings.worker_table,
        "state_table": settings.state_table,
    }
