"""The whole observation as a dictionary for JSON. Later versions may add names, but never change or remove one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from headrace.pipeline.inspect.balance import Share, cluster_by_rule
from headrace.pipeline.inspect.findings import conclusion, findings_of
from headrace.pipeline.inspect.lease_rows import COLUMNS, lease_rows_of
from headrace.pipeline.inspect.observation import Observation, WorkerSeen
from headrace.pipeline.inspect.progress import progress_of

# Raised only if a name has to change after all.
FORMAT: Final = 1


def document_of(observation: Observation) -> dict[str, Any]:
    findings = findings_of(observation)
    shares = {share.name: share for share in (*observation.balance.workers, *observation.balance.leavers)}
    return {
        "format": FORMAT,
        "table": observation.last.tables.lease_table,
        "at": observation.last.read_at.isoformat(timespec="milliseconds"),
        "watched_seconds": _seconds(observation.watched),
        "layout": {
            "kind": observation.layout.kind.value,
            "sentence": observation.layout.sentence,
            "repair": observation.layout.repair,
        },
        "leases": _leases(observation),
        "leader": _leader(observation),
        "spread": observation.balance.spread,
        "workers": [_worker(worker, shares, observation.cluster_by) for worker in observation.workers],
        "clusters": [_cluster(share) for share in observation.balance.clusters],
        **_places_in_trouble(observation),
        "odd_rows": [
            {"table": row.table, "key": row.key, "why": row.why, "broken": row.broken}
            for row in observation.last.odd
        ],
        "findings": [
            {"code": f.code, "needs_person": f.needs_person, "sentence": f.sentence, "names": list(f.names)}
            for f in findings
        ],
        "needs_person": any(finding.needs_person for finding in findings),
        "conclusion": conclusion(observation, findings),
        "lags": [
            {"lease": shard.lease, "worker": shard.worker, "lag_seconds": _seconds(shard.lag)}
            for shard in progress_of(observation)
        ],
        # Last, because it is by far the longest.
        "rows": [dict(zip(COLUMNS, row, strict=True)) for row in lease_rows_of(observation)],
    }


def _leases(observation: Observation) -> dict[str, Any]:
    open_ones = len(observation.open_ones)
    return {
        "rows": len(observation.last.leases),
        "open": open_ones,
        "ended": len(observation.last.leases) - open_ones,
        "unowned": len(observation.unowned),
        "handover": len(observation.pending),
    }


def _places_in_trouble(observation: Observation) -> dict[str, Any]:
    """Leases, shards and hash keys of which the findings may tell, each by its name."""
    return {
        "handovers": [
            {
                "lease": handover.lease,
                "from": handover.holder,
                "to": handover.to,
                "all_the_while": handover.all_the_while,
            }
            for handover in observation.pending
        ],
        "uncovered": [
            {"stream": uncovered.stream, "start": str(uncovered.gap.start), "end": str(uncovered.gap.end)}
            for uncovered in observation.uncovered
        ],
        "finished": [{"stream": over.stream, "leases": over.leases} for over in observation.finished],
        "early": [{"child": early.child, "parent": early.parent} for early in observation.early],
        "unowned": list(observation.unowned),
        "left": list(observation.still_unowned),
        "still": list(observation.still),
        "dropped": list(observation.dropped),
        "failing": [
            {
                "lease": failure.lease,
                "worker": failure.worker,
                "since": failure.since.isoformat(timespec="milliseconds"),
                "why": failure.why,
            }
            for failure in observation.failing
        ],
    }


def _leader(observation: Observation) -> dict[str, Any] | None:
    if observation.leader is None:
        return None
    return {
        "worker": observation.leader.worker_id,
        "promised_seconds": _seconds(observation.leader.promised),
        "beats": observation.leader.beats,
        "assigned": None if observation.watched is None else observation.leader.assigned,
    }


def _worker(worker: WorkerSeen, shares: Mapping[str, Share], rule: re.Pattern[str]) -> dict[str, Any]:
    share = shares.get(worker.worker_id)
    return {
        "worker": worker.worker_id,
        "cluster": cluster_by_rule(worker.worker_id, rule),
        "leases": share.leases if share else 0,
        "share": share.share if share else 0.0,
        "ended": share.ended if share else 0,
        "kbps": share.kbps if share else 0.0,
        "has_row": worker.has_row,
        "row_age_seconds": _seconds(worker.age),
        "moved": worker.moved,
        "stopping": worker.stopping,
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
