"""Cases of lease assignment: by the 2.x lease taker and by the 3.x leader."""

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from headrace.pipeline.core.leases.change import Applied
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.leases.worker import Worker
from headrace.pipeline.core.shards.checkpoint import Checkpoint
from headrace.pipeline.kcl import metrics, taker
from headrace.pipeline.kcl.fleet import KclRules
from tests.memory.leases import MemoryLeaseStore
from tests.vectors.rules.assignment import Term, plan_assignment, remember

MS = 1_000_000  # nanoseconds
NOW = datetime(2026, 1, 1, tzinfo=UTC)
_BETWEEN_RUNS = 1_000
"""Milliseconds. A case with several passes doesn't say how much time lies between them; it is too short for leases
to expire."""
_KNOBS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "failover_ms": ("duration_ns", lambda ms: ms * MS),
    "handoff_ms": ("handover_ns", lambda ms: ms * MS),
    "dampening": ("dampening", lambda percent: percent / 100),
    "rebalance_threshold": ("tolerance", lambda percent: percent / 100),
    "variance_frequency": ("balance_every", int),
    "graceful": ("graceful", bool),
    "overshoot": ("overshoot", bool),
    "max_leases": ("max_leases", int),
    "max_kbps": ("max_kbps", float),
    "alpha": ("alpha", float),
    "strategy": ("by_count", lambda name: name == "count"),
}


def _rules(config: Any) -> KclRules:
    return KclRules(**{_KNOBS[name][0]: _KNOBS[name][1](value) for name, value in config.items()})


def _rows(leases: Any) -> list[Lease]:
    return [
        Lease(
            key,
            row.get("leaseCounter") or 0,
            Checkpoint(row["checkpoint"]),
            owner=row.get("leaseOwner"),
            checkpoint_owner=row.get("checkpointOwner"),
            throughput_kbps=row.get("throughputKBps"),
        )
        for key, row in leases.items()
    ]


def _workers(rows: Any, now_s: int = 0) -> list[Worker]:
    """A worker row of the case. Its `lut` is relative to the case's own time."""
    return [
        Worker(
            row["id"],
            None if row.get("lut") is None else NOW + timedelta(seconds=row["lut"] - now_s),
            stats={name: tuple(values) for name, values in (row.get("sts") or {}).items()},
            ranges={name: tuple(values) for name, values in (row.get("opr") or {}).items()},
        )
        for row in rows
    ]


def _run(store: MemoryLeaseStore, workers: list[Worker], term: Term, *, rules: KclRules, at_ms: int) -> Term:
    at = at_ms * MS
    plan = plan_assignment(store.scan().leases, workers, term=term, rules=rules, at_ns=at, now=NOW)
    results = [store.apply(change) for change in plan.changes]
    applied = [result.lease for result in results if isinstance(result, Applied)]
    return remember(plan.term, applied, rules=rules, at_ns=at)


def leader_passes(case: Any, expected: Any, graphs: Any) -> Any:
    """Some passes of the lease assignment manager (`lam`) over the same rows."""
    store, term = MemoryLeaseStore(_rows(case["leases"])), Term()
    workers, rules = _workers(case["workers"], case.get("now_s") or 0), _rules(case["config"])
    for run in range(case.get("runs", 1)):
        term = _run(store, workers, term, rules=rules, at_ms=1_000_000 + run * _BETWEEN_RUNS)
    return _shaped(expected, store.scan().leases)


def leader_steps(case: Any, expected: Any, graphs: Any) -> Any:
    """Passes with changes of the rows between them. The case has an expectation for each step. Returns None if all
    expectations hold."""
    store, term, rules = MemoryLeaseStore(), Term(), _rules(case["config"])
    for number, step in enumerate(case["steps"]):
        if "reset" in step:
            store = MemoryLeaseStore(_rows(step["reset"]))
        renewed = set(step.get("renew", ()))
        store = MemoryLeaseStore(_renewed(row) if row.key in renewed else row for row in store.scan().leases)
        term = _run(store, _workers(step["workers"]), term, rules=rules, at_ms=step["now_ms"])
        asked = {name: step[name] for name in _ASKED if name in step}
        got = _shaped(asked, store.scan().leases)
        if got != asked:
            return {"step": number, "expected": asked, "got": got}
    return None


def _renewed(row: Lease) -> Lease:
    return Lease(
        row.key,
        row.counter + 1,
        row.checkpoint,
        owner=row.owner,
        checkpoint_owner=row.checkpoint_owner,
        owner_switches=row.owner_switches,
        throughput_kbps=row.throughput_kbps,
    )


_ASKED = (
    "owner",
    "checkpoint_owner",
    "count",
    "multiset",
    "spill",
    "pending",
    "min_throughput",
    "max_throughput",
)


def _shaped(asked: Any, rows: tuple[Lease, ...]) -> Any:
    by_key = {row.key: row for row in rows}
    counts = Counter(row.owner for row in rows if row.owner is not None)
    total = {owner: sum(row.throughput_kbps or 0.0 for row in rows if row.owner == owner) for owner in counts}
    got: dict[str, Any] = {}
    for name, wanted in asked.items():
        match name:
            case "owner":
                got[name] = {key: by_key[key].owner for key in wanted}
            case "checkpoint_owner":
                got[name] = {key: by_key[key].checkpoint_owner for key in wanted}
            case "count":
                got[name] = {owner: counts[owner] for owner in wanted}
            case "multiset":
                every = sorted(counts.values(), reverse=True)
                got[name] = every + [0] * (len(wanted) - len(every))
            case "spill":
                got[name] = sum(row.owner is None for row in rows)
            case "pending":
                got[name] = sum(row.checkpoint_owner is not None for row in rows)
            case "min_throughput":
                got[name] = {w: min(kbps, total.get(w, 0.0)) for w, kbps in wanted.items()}
            case "max_throughput":
                got[name] = {w: max(kbps, total.get(w, 0.0)) for w, kbps in wanted.items()}
            case _:
                got[name] = f"this harness doesn't know {name!r}"
    return got


def lease_taker(case: Any, expected: Any, graphs: Any) -> Any:
    seen = {
        key: taker.Observed(Lease(key, owner=owner), None if moved is None else moved * MS)
        for key, (owner, moved) in case["leases"].items()
    }
    rules = taker.TakerRules(
        duration_ns=case["lease_duration_ms"] * MS,
        max_leases=_or(case.get("max_leases"), taker.NO_LIMIT),
        max_steals=_or(case.get("steal"), 1),
        priority=case.get("priority") is not False,
        very_old=_or(case.get("multiplier"), 3),
    )
    pick = taker.plan_take(seen, case["me"], at_ns=case["now_ms"] * MS, rules=rules)
    if "take" in expected:
        # Where KCL's result doesn't depend on random numbers, Headrace's must not either.
        got = sorted(pick.among) if pick.count == len(pick.among) else list(pick.keys())
        return {"take": expected["take"] if got == sorted(expected["take"]) else got}
    fits = set(pick.among) <= set(expected["among"])
    return {"count": pick.count, "among": expected["among"] if fits else list(pick.among)}


def _or(value: Any, default: int) -> int:
    return default if value is None else int(value)


def target(case: Any, expected: Any, graphs: Any) -> Any:
    return taker.target(case["leases"], case["workers"], case.get("cap"))


def metric_valid(case: Any, expected: Any, graphs: Any) -> Any:
    return metrics.is_valid(case.get("lut"), case.get("sts"), case.get("opr"))


def metric_failing(case: Any, expected: Any, graphs: Any) -> Any:
    return metrics.is_failing(case.get("sts"), case.get("opr"))


def average(case: Any, expected: Any, graphs: Any) -> Any:
    return metrics.ema(map(float, case["values"]), case.get("alpha", metrics.ALPHA))


FORMS = {
    "lam": leader_passes,
    "lam_seq": leader_steps,
    "taker": lease_taker,
    "target": target,
    "metric_valid": metric_valid,
    "metric_failing": metric_failing,
    "ema": average,
}
