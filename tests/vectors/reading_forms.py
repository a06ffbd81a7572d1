"""Cases of reading a shard, and of what a worker measures about its host."""

from datetime import timedelta
from typing import Any

from headrace.pipeline.core.shards.checkpoint import Checkpoint
from headrace.pipeline.core.shards.shard import HashRange
from headrace.pipeline.errors import WrongShape
from headrace.pipeline.kcl import cpu, deaggregate
from headrace.pipeline.kcl.scan_segments import scan_segments
from tests.vectors.rules import iterator, pace

_MS = timedelta(milliseconds=1)


def start(case: Any, expected: Any, graphs: Any) -> Any:
    try:
        found = iterator.plan_start(
            Checkpoint(case["checkpoint"] or ""),
            restart=bool(case.get("restart")),
            configured=case.get("configured_timestamp"),
        )
    except WrongShape:
        return (
            "error" if isinstance(expected, dict) else expected
        )  # the file has KCL's text for a refusal, which Headrace's needn't match
    every = {"type": found.type, "sequence": found.sequence, "timestamp": found.timestamp}
    return {name: value for name, value in every.items() if value is not None}


def sleep(case: Any, expected: Any, graphs: Any) -> Any:
    def duration(name: str) -> timedelta | None:
        return None if case.get(name) is None else case[name] * _MS

    pause = pace.pause_before_call(
        duration("elapsed"), case["idle"] * _MS, behind=duration("mbl"), threshold=duration("thr")
    )
    return pause // _MS


def intervals(case: Any, expected: Any, graphs: Any) -> Any:
    given = {name: case[name] * _MS for name in case if case[name] is not None}
    named = {} if "epsilon_ms" not in given else {"epsilon": given["epsilon_ms"]}
    found = pace.intervals(given["failover_ms"], given.get("assignment_ms"), **named)
    return {
        "renewer_ms": found.renew // _MS,
        "taker_ms": found.take // _MS,
        "discoverer_ms": found.discover // _MS,
    }


def segments(case: Any, expected: Any, graphs: Any) -> Any:
    return scan_segments(case.get("bytes"))


def throughput(case: Any, expected: Any, graphs: Any) -> Any:
    return pace.throughput_kbps(case["bytes"], case["period_ms"] * _MS, previous=case.get("previous"))


def kpl(case: Any, expected: Any, graphs: Any) -> Any:
    known = case.get("shard_range")
    shard = () if known is None else (HashRange(int(known[0]), int(known[1])),)
    found = deaggregate.unpack(bytes.fromhex(case["data_hex"]), case["partition_key"], *shard)
    return [[r.partition_key, r.explicit_hash_key, r.data.hex(), r.sub, r.aggregated] for r in found.records]


def cpuset(case: Any, expected: Any, graphs: Any) -> Any:
    return cpu.cpus_in(case["text"])


def proc_stat(case: Any, expected: Any, graphs: Any) -> Any:
    return cpu.from_proc_stat(case.get("first"), case["second"])


def cgroup(case: Any, expected: Any, graphs: Any) -> Any:
    return cpu.from_cgroup(case["use"], case["wall"], case["limit"])


def ecs(case: Any, expected: Any, graphs: Any) -> Any:
    limit = cpu.ecs_limit(case.get("mine"), case["shares"], task=case.get("task"), online=case["online"])
    before, now = cpu.Usage(case["pre"], case["pre_sys"]), cpu.Usage(case["cur"], case["cur_sys"])
    return cpu.from_ecs(before, now, online=case["online"], limit=limit)


FORMS = {
    "iterator": start,
    "sleep": sleep,
    "intervals": intervals,
    "segments": segments,
    "throughput": throughput,
    "kpl": kpl,
    "cpuset": cpuset,
    "proc_stat": proc_stat,
    "cgroup": cgroup,
    "ecs": ecs,
}
