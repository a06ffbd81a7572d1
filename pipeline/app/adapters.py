"""The real ports of an application: DynamoDB, Kinesis, Iceberg and Spark, as its settings name them.

    Adapters                                                      is
      ProofAdapters       proof, proved_tables, other_side            on
        ProcessorAdapters   processing                                on
          TypedAdapters       parsing, windows, replaying, unpacking  on
            LakeAdapters        table, lineage, files, live, stage... on
              AwsAdapters         leases, workers, lock, source, pages...

Each port is made when it is first needed, and kept as long as the process uses the settings
(`headrace.pipeline.app.made_once`).
"""

from __future__ import annotations

from headrace.pipeline.app.proof_adapters import ProofAdapters


class Adapters(ProofAdapters):
    """The ports of one application (`headrace.pipeline.app.ports.Ports`). Dagster runs sensors in several threads, and
    all of them may share this object."""
