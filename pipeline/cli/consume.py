"""`headrace consume`: read shards to their tip from the shell, without Dagster, through the same claim."""

import argparse
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.cli.options import add_config, load
from pipeline.cli.telling import tell
from pipeline.core.words import counted

if TYPE_CHECKING:
    from assets.consumption import Parts
    from pipeline.cli.options import Subparsers
    from pipeline.duties.wave import Landed, WaveReport
    from pipeline.settings import Settings


def add(subparsers: "Subparsers") -> None:
    parser = subparsers.add_parser(
        "consume",
        description="Read shards to their tip, without Dagster. A shard that a run is reading is waited for.",
    )
    add_config(parser)
    parser.add_argument(
        "--shard",
        nargs="+",
        action="extend",
        default=[],
        metavar="KEY",
        help="lease keys, as `shardId-000000000000`, with several streams `<account>:<stream>:<created>:shardId-...`",
    )
    parser.add_argument(
        "--worker", metavar="ID", help="read as this worker; without --shard: all that it owns"
    )


def run(args: argparse.Namespace) -> int:
    from assets.names import require_known
    from pipeline.errors import BadSetting

    if not (args.shard or args.worker):
        raise BadSetting("name what to read: --shard KEY..., or --worker ID for all that a worker owns")
    loaded = load(args)
    settings = _as_worker(loaded.settings, args.worker)
    _join_spark(Path(loaded.name))
    parts = _parts(settings)
    keys = tuple(dict.fromkeys(args.shard))
    told = _Told()
    failed: dict[str, str] = {}
    if keys:
        require_known(keys, parts.lease_tables.leases())
        _require_owner(args.worker, keys, parts)
        for worker, its in parts.workers_of(keys).items():
            failed |= _read(parts, worker, its, told)
    else:
        failed = _read(parts, args.worker, None, told)
    _end_session()
    told.print_outcome(keys, failed)
    return 1 if failed else 0


def _as_worker(settings: "Settings", worker_id: str | None) -> "Settings":
    """With only this worker configured, what nobody owns falls to it."""
    from pipeline.errors import Unknown

    if worker_id is None:
        return settings
    worker = settings.worker(worker_id)
    if worker is None:
        there = ", ".join(w.id for w in settings.workers)
        raise Unknown(f"no worker {worker_id!r} is configured (there are: {there}); nothing was read")
    return replace(settings, workers=(worker,))


def _require_owner(worker_id: str | None, keys: tuple[str, ...], parts: "Parts") -> None:
    from pipeline.errors import Unknown

    leases = parts.lease_tables.leases()
    for key in keys if worker_id is not None else ():
        row = leases.get(key)
        if row is not None and row.holder not in {None, worker_id}:
            raise Unknown(
                f"{key} is read by worker {row.holder}, not by {worker_id}: leave --worker out; nothing was read"
            )


def _join_spark(config: Path) -> None:
    """The local Spark of a `headrace dev` that runs on the same settings saves the start of another one."""
    from pipeline.cli.services import dagster_home
    from pipeline.lake.session import DISCOVERY, discovery_in

    its = discovery_in(dagster_home(config))
    if its.exists():
        os.environ.setdefault(DISCOVERY, str(its))


def _parts(settings: "Settings") -> "Parts":
    from assets.consumption import Parts
    from resources.lake import LakeResource
    from resources.lease_tables import LeaseTablesResource
    from resources.runs import NoDagster
    from resources.spark import SparkResource
    from resources.stream import StreamResource

    return Parts(
        settings=settings,
        lease_tables=LeaseTablesResource.of(settings),
        stream=StreamResource.of(settings),
        lake=LakeResource.of(settings),
        spark=SparkResource.of(settings),
        runs=NoDagster(),
    )


def _read(parts: "Parts", worker_id: str, keys: tuple[str, ...] | None, told: "_Told") -> dict[str, str]:
    """The shards that couldn't be read, with why."""
    from pipeline.clock import SystemIds

    with parts.reading(worker_id, f"shell-{SystemIds().fresh()}", on_wave=told.hear) as run:
        late = {} if keys is None else run.catch_up(keys)
        if keys is None:
            run.all_that_is_due()
    return late | run.consumption.failed


def _end_session() -> None:
    """A session that is left open holds its memory in the Spark server for an hour."""
    from pyspark.sql import SparkSession

    if (session := SparkSession.getActiveSession()) is not None:
        session.stop()


@dataclass(slots=True)
class _Told:
    """One line for each wave, and what to say of each shard in the end."""

    rows: dict[str, int] = field(default_factory=dict)
    last: dict[str, "Landed"] = field(default_factory=dict)

    def hear(self, report: "WaveReport") -> None:
        tell(report)
        for note in report.notes:
            tell(f"  {note}")
        for problem in report.problems:
            tell(f"  {problem.lease_key}: {problem.why}")
        for landed in report.landed:
            self.rows[landed.lease_key] = self.rows.get(landed.lease_key, 0) + landed.staged.rows
            self.last[landed.lease_key] = landed

    def print_outcome(self, keys: tuple[str, ...], failed: dict[str, str]) -> None:
        for key in keys or sorted(self.last.keys() | failed.keys()):
            if key in failed:
                tell(f"{key}: FAILED: {failed[key]}")
            elif key not in self.last:
                tell(f"{key}: read to its end before: nothing to do")
            else:
                tell(f"{key}: {counted(self.rows[key], 'record')} landed, {_where(self.last[key])}")


def _where(landed: "Landed") -> str:
    upto = landed.staged.upto
    if upto.ended:
        return f"read to its end; its children: {', '.join(upto.children) or 'none'}"
    return f"now at {upto}, the tip"
