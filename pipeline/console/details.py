"""The page of one shard: its facts in words, its records in the lake table, and what was parsed of them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from headrace.pipeline.console.ports import Lake, LandedOfShard
from headrace.pipeline.console.states import STATES
from headrace.pipeline.console.values import ShardView
from headrace.pipeline.console.watch import Report
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.partition import partition_of
from headrace.pipeline.core.words.words import clean
from headrace.pipeline.errors import HeadraceError

Fact = tuple[str, str]


def details_of(report: Report, key: str, lake: Lake | None) -> dict[str, Any] | None:
    """The content of one shard's page, as JSON; None where no shard has this lease key."""
    shard = None if report.picture is None else report.picture.by_key().get(key)
    if shard is None:
        return None
    lease = next((lease for lease in report.leases if lease.key == key), None)
    answer: dict[str, Any] = {
        "key": key,
        "name": clean(partition_of(key)),
        "state": STATES[shard.state].name,
        "level": int(shard.level),
        "sentence": clean(shard.sentence),
        "words": STATES[shard.state].words,
        "facts": [[name, clean(value)] for name, value in shard_facts(shard, lease)],
    }
    if lake is not None and lease is not None:
        try:
            answer["landed"] = _landed(lake(lease))
        except HeadraceError as error:
            answer["landed_trouble"] = clean(" ".join(str(error).split()))
    return answer


def shard_facts(shard: ShardView, lease: Lease | None) -> list[Fact]:
    kin = shard.kin
    facts: list[Fact] = [
        ("Read by", shard.owner or "no worker"),
        *([("To be read by", shard.next_owner)] if shard.next_owner else []),
        ("Checkpoint", shard.checkpoint or "none: there is no lease"),
        ("Record at the checkpoint", _moment(shard.position_at)),
        ("Lag", shard.lag.sentence or "unknown: there is no lease"),
        ("At risk", shard.risk.sentence or "nothing known to be"),
        (
            "Throughput",
            "unknown: the lease row has none" if shard.kbps is None else f"{shard.kbps:,.1f} KB/s",
        ),
        ("Backlog", _backlog(shard.backlog)),
        ("Hash keys", "unknown" if kin.hashes is None else f"{kin.hashes.start} to {kin.hashes.end}"),
        ("Parents", ", ".join(map(partition_of, kin.parents)) or "none known"),
        ("Made", _moment(kin.born)),
        ("Closed", _moment(kin.closed_at) if kin.is_closed or kin.closed_at else "open"),
    ]
    return facts if lease is None else facts + _of_lease(lease)


def _of_lease(lease: Lease) -> list[Fact]:
    facts: list[Fact] = [
        ("Lease counter", f"{lease.counter:,}"),
        ("Owner switches since the checkpoint", f"{lease.owner_switches:,}"),
    ]
    if lease.run_claim:
        facts.append(("Run that reads the shard now", lease.run_claim.partition("/")[0]))
    if lease.failure is not None:
        facts.append(("Failing since", f"{_moment(lease.failure.since)}: {lease.failure.why}"))
    return facts


def _backlog(unread: float | None) -> str:
    if unread is None:
        return "unknown: that needs a measured lag and a throughput"
    return f"about {unread / 1e6:,.1f} MB: lag times throughput" if unread else "nothing"


def _moment(moment: datetime | None) -> str:
    return "unknown" if moment is None else f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def _landed(landed: LandedOfShard) -> dict[str, Any]:
    return {
        "table": clean(landed.table),
        "position": landed.position and clean(landed.position),
        "rows": landed.rows,
        "left_out": landed.left_out,
        "ranges": [
            {
                "at": round(landed_range.at.timestamp() * 1000),
                "kind": landed_range.kind,
                "rows": landed_range.rows,
                "bytes": landed_range.bytes,
                "upto": clean(landed_range.upto),
                "run": clean(landed_range.run),
                "files": [clean(name) for name in landed_range.files],
                "latency": _latency(landed_range.at, landed_range.last_arrival),
            }
            for landed_range in landed.ranges
        ],
        "typed": [
            {"table": clean(parsed.table), "parsed": parsed.parsed, "quarantined": parsed.quarantined}
            for parsed in landed.typed
        ],
    }


def _latency(at: datetime, last_arrival: datetime | None) -> float | None:
    """Seconds from the arrival of the range's last record to its commit."""
    return None if last_arrival is None else max((at - last_arrival) / timedelta(seconds=1), 0.0)
