"""`<application>_prove`: the job that proves that the lake table holds each record of its ledgers once.

The job fails if something is wrong, and names what it is. It changes nothing in the table, and can run beside
everything else. The setting `dagster.schedules.proof` says when the job runs by itself; a person may start it at
any time.
"""

import dagster as dg

from headrace.assets.changes import by_proving, proof_metadata
from headrace.assets.failure import RunFailed
from headrace.assets.names import resource_key, slug
from headrace.assets.one_op_job import job_of
from headrace.pipeline.app.wiring import Wiring
from headrace.pipeline.errors import HeadraceError


def build_prove(wiring: Wiring) -> dg.JobDefinition:
    @dg.op(
        name=f"prove_{slug(wiring.settings.application)}",
        # The resource `spark` ends the Spark session together with the run.
        required_resource_keys={resource_key(wiring.settings, "spark")},
        pool=wiring.settings.dagster.pools.get("proof"),
        config_schema={
            "all": dg.Field(
                bool,
                default_value=False,
                description="Read all rows, also those that an earlier proof has read.",
            )
        },
        description="Prove that the lake table holds each record of its ledgers once.",
    )
    def prove(context: dg.OpExecutionContext) -> dg.Output[None]:
        try:
            proof = wiring.proofs.proving().run(anew=context.op_config["all"])
        except HeadraceError as error:
            raise RunFailed(str(error), {}) from error
        for line in proof.lines():
            context.log.info(line)
        for event in by_proving(wiring.settings, proof):
            context.log_event(event)
        if not proof.holds:
            raise RunFailed(str(proof), proof_metadata(proof))
        return dg.Output(None, metadata=proof_metadata(proof))

    return job_of(
        prove,
        f"{slug(wiring.settings.application)}_prove",
        description=(
            "Proves that the tables have each record of the ledgers once. It fails where something is wrong, and names it. It "
            "changes nothing in the tables, and may be started at any time."
        ),
    )
