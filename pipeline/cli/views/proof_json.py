"""The JSON that `headrace prove --json` prints. docs/use/proof.md describes the form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.pipeline.cli.views.json_output import id_json, time_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.pipeline.proof.verdict import Check, Proof, TableProof


def proof_document(proof: Proof) -> dict[str, Any]:
    return {
        "holds": proof.holds,
        "sentence": str(proof),
        "snapshot": id_json(proof.snapshot),
        "since_snapshot": id_json(proof.lake.since),
        "records": proof.records,
        "unproved_records": proof.unproved_records,
        "shards": proof.shards,
        "first_arrival": time_json(proof.first),
        "last_arrival": time_json(proof.last),
        "rows_read": proof.lake.rows,
        "files_read": proof.lake.files,
        "files_unchanged": proof.lake.unchanged,
        "reads_again_because": proof.lake.forgotten or None,
        "checks": _checks(proof.lake.checks),
        "tables": [_table(table) for table in proof.tables],
    }


def _checks(checks: Iterable[Check]) -> list[dict[str, Any]]:
    """A check as JSON. Of its mistakes the first are told, and all are counted."""
    return [
        {
            "promise": check.promise,
            "looked_at": check.looked_at,
            "holds": not check.wrong,
            "mistakes": check.count,
            "wrong": list(check.wrong),
            "unproved": list(check.unproved),
        }
        for check in checks
    ]


def _table(table: TableProof) -> dict[str, Any]:
    return {
        "table": table.name,
        "holds": table.holds,
        "counts": table.counts,
        "is_behind": table.is_behind,
        "rows_read": table.rows,
        "files_read": table.files,
        "files_unchanged": table.unchanged,
        "reads_again_because": table.forgotten or None,
        "checks": _checks(table.checks),
    }
