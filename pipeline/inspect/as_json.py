"""The whole observation as a dictionary for JSON. Names are never changed or removed, only added."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from headrace.pipeline.inspect.balance import Share, cluster_of
from headrace.pipeline.inspect.findings import conclusion, findings_of
from headrace.pipeline.inspect.lease_rows import COLUMNS, rows_of
from headrace.pipeline.inspect.observation import Observation, WorkerSeen

FORMAT: Final = 1


def document_of(seen: Observation) -> dict[str, Any]:
    findings = findings_of(seen)
    open_ones = len(seen.open_ones)
    shares = {share.name: share for share in (*seen.balance.workers, *seen.balance.leavers)}
    return {
        "format": FORMAT,
        "table": seen.last.tables.lease_table,
        "at": seen.last.at.isoformat(timespec="milliseconds"),
        "watched_seconds": _seconds(seen.watched),
        "layout": {
            "kind": seen.layout.kind.value,
            "sentence": seen.layout.sentence,
            "repair": seen.layout.repair,
        },
        "leases": {
            "rows": len(seen.last.leases),
            "open": open_ones,
            "ended": len(seen.last.leases) - open_ones,
            "unowned": len(seen.unowned),
            "handover": len(seen.pending),
        },
        "leader": _leader(seen),
        "spread": seen.balance.spread,
        "workers": [_worker(each, shares, seen.cluster_by) for each in seen.workers],
        "clusters": [_cluster(share) for share in seen.balance.clusters],
        "handovers": [
            {"lease": each.lease, "from": each.holder, "to": each.to, "all_the_while": each.all_the_while}
            for each in seen.pending
        ],
        "uncovered": [
            {"stream": each.stream, "start": str(each.gap.start), "end": str(each.gap.end)}
            for each in seen.uncovered
        ],
        "early": [{"child": each.child, "parent": each.parent} for each in seen.early],
        "unowned": list(seen.unowned),
        "left": list(seen.left),
        "still": list(seen.still),
        "dropped": list(seen.dropped),
        "failing": [
            {
                "lease": each.lease,
                "worker": each.worker,
                "since": each.since.isoformat(timespec="milliseconds"),
                "why": each.why,
            }
            for each in seen.failing
        ],
        "odd_rows": [
            {"table": row.table, "key": row.key, "why": row.why, "broken": row.broken}
            for row in seen.last.odd
        ],
        "findings": [
            {"code": f.code, "needs_person": f.needs_person, "sentence": f.sentence, "names": list(f.names)}
            for f in findings
        ],
        "needs_person": any(finding.needs_person for finding in findings),
        "conclusion": conclusion(seen, findings),
        "rows": [dict(zip(COLUMNS, row, strict=True)) for row in rows_of(seen)],
    }


def _leader(seen: Observation) -> dict[str, Any] | None:
    if seen.leader is None:
        return None
    return {
        "worker": seen.leader.worker_id,
        "promised_seconds": _seconds(seen.leader.promised),
        "beats": seen.leader.beats,
        "assigned": None if seen.watched is None else seen.leader.assigned,
    }


def _worker(seen: WorkerSeen, shares: Mapping[str, Share], rule: re.Pattern[str]) -> dict[str, Any]:
    share = shares.get(seen.worker_id)
    return {
        "worker": seen.worker_id,
        "cluster": cluster_of(seen.worker_id, rule),
        "leases": share.leases if share else 0,
        "share": share.share if share else 0.0,
        "ended": share.ended if share else 0,
        "kbps": share.kbps if share else 0.0,
        "has_row": seen.has_row,
        "row_age_seconds": _seconds(seen.age),
        "moved": seen.moved,
        "stopping": seen.stopping,
    }


def _cluster(share: Share) -> dict[str, Any]:
    return {
        "cluster": share.name,
        "workers": share.workers,
        "leases": share.leases,
        "share": share.share,
        "mean": share.mean,
        "ended": share.ended,
        "kbps": share.kbps,
    }


def _seconds(period: timedelta | None) -> float | None:
    return None if period is None else period.total_seconds()
