"""`headrace consume`: read shards up to their newest record from the shell, without Dagster.

The command claims each shard in its lease row, as Dagster's runs do, so that the two never read one shard at once.
"""

import argparse
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.pipeline.cli.beside.told_dagster import tell_dagster
from headrace.pipeline.cli.options import add_config, load
from headrace.pipeline.cli.telling import tell, tell_aside
from headrace.pipeline.cli.views.json_output import add_json, print_json
from headrace.pipeline.core.shards.partition import partition_of
from headrace.pipeline.core.words.words import counted, records_in

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from headrace.pipeline.app.wiring import Wiring
    from headrace.pipeline.cli.beside.pipes import PipesJob
    from headrace.pipeline.cli.options import Subparsers
    from headrace.pipeline.duties.waves.report import Landed, WaveReport
    from headrace.pipeline.duties.waves.run import RunEnding
    from headrace.pipeline.ports.leases import LeaseStore
    from headrace.pipeline.settings.model import Settings


def add(subparsers: "Subparsers") -> None:
    parser = subparsers.add_parser(
        "consume",
        description="Read shards up to their newest record, without a run of Dagster's. Where a run is reading a shard, "
        "the command waits for the end of that run's wave. The leases have to be there: the leader, which is a sensor of "
        "Dagster's, makes them and gives them to workers.",
    )
    add_config(parser)
    parser.add_argument(
        "--shard",
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME",
        help="the shards: `shardId-000000000000`, `orders/0`, their whole names in Dagster, or lease keys",
    )
    parser.add_argument(
        "--worker",
        metavar="ID",
        help="read as this worker; without --shard: every shard whose lease this worker owns, and its children",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from headrace.pipeline.cli.beside.pipes import pipes_job
    from headrace.pipeline.errors import BadSetting

    with pipes_job() as job:
        shards = tuple(args.shard) or job.shards
        if not (shards or args.worker):
            raise BadSetting(
                "name what to read: --shard NAME..., or --worker ID for every shard that a worker owns"
            )
        return _consume(args, shards, job)


def _consume(args: argparse.Namespace, shards: "Sequence[str]", job: "PipesJob") -> int:
    from headrace.pipeline.app.wiring import wire
    from headrace.pipeline.cli.beside.services import join_spark

    loaded = load(args)
    join_spark(Path(loaded.name))
    wiring = wire(_as_worker(loaded.settings, args.worker))
    # In JSON the answer comes at the end, and progress goes aside.
    output = _Output(job, say=tell_aside if args.json else tell)
    try:
        # Before anything is read: a mistyped name is told at once.
        keys = wiring.readers().meant(shards)
        ending = _read(wiring, args.worker, keys, output)
        if args.worker is not None and not (keys or output.last or ending.failed):
            owned = wiring.leases().held_by(args.worker).leases
            output.print_nothing(args.worker, sum(not lease.has_ended for lease in owned))
    finally:
        wiring.ports.close()
        # Also after an error: what has landed until then is there.
        tell_dagster(
            Path(loaded.name),
            loaded.settings,
            lambda changes: changes.by_reading(loaded.settings, output.last, output.counts),
        )
    if ending.error is None or output.last:
        job.ended(output.last, output.counts, ending.failed)
    if args.json:
        print_json(output.as_json(keys, ending.failed))
    if ending.error is not None:
        raise ending.error
    output.print_outcome(keys, ending.failed)
    # The other shards were read: this isn't the code of a command that did nothing.
    return 1 if ending.failed else 0


def _read(wiring: "Wiring", worker_id: str | None, keys: tuple[str, ...], output: "_Output") -> "RunEnding":
    from headrace.pipeline.app.wiring import NoDagster

    run_id = f"shell-{wiring.ports.ids.fresh()}"
    reading = wiring.reading(run_id, NoDagster(), on_wave=output.show, on_waiting=tell_aside)
    if not keys and worker_id is not None:
        return reading.everything_due(worker_id, to_the_newest=True)
    if worker_id is not None:
        _require_owner(worker_id, keys, wiring.leases())
    return reading.shards(keys)


def _as_worker(settings: "Settings", worker_id: str | None) -> "Settings":
    """The settings with this worker only, so that leases without an owner go to this worker."""
    from headrace.pipeline.errors import Unknown

    if worker_id is None:
        return settings
    worker = settings.worker(worker_id)
    if worker is None:
        configured = ", ".join(w.id for w in settings.workers)
        raise Unknown(f"no worker {worker_id!r} is configured (there are: {configured}); nothing was read")
    # Nothing else of the settings changes, so that the command reads as the worker's own runs do.
    return replace(settings, workers=(worker,))


def _require_owner(worker_id: str, keys: tuple[str, ...], leases: "LeaseStore") -> None:
    from headrace.pipeline.errors import Unknown

    for key in keys:
        row = leases.get(key)
        if row is not None and row.holder not in {None, worker_id}:
            raise Unknown(
                f"{partition_of(key)} is read by worker {row.holder}, not by {worker_id}: "
                "leave --worker out; nothing was read"
            )


@dataclass(slots=True)
class _Output:
    """Prints one line for each wave that has something to tell, and one line for each shard at the end."""

    job: "PipesJob"
    """Where Dagster has started the command elsewhere, Dagster is told the same."""
    say: "Callable[[object], None]" = tell
    counts: dict[str, tuple[int, int]] = field(default_factory=dict)
    """The numbers of Kinesis records and of rows of each shard, by lease key."""
    last: dict[str, "Landed"] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    _has_begun: bool = False

    def show(self, report: "WaveReport") -> None:
        # The first one is told in any case, so that a command with nothing to read says so.
        if not self._has_begun or report.landed or report.problems or report.notes:
            self.say(report)
        self._has_begun = True
        self.job.waved(report)
        self.notes += report.notes
        for note in report.notes:
            self.say(f"  {note}")
        for problem in report.problems:
            self.say(f"  {partition_of(problem.lease_key)}: {problem.why}")
        for landed in report.landed:
            records, rows = self.counts.get(landed.lease_key, (0, 0))
            self.counts[landed.lease_key] = records + landed.staged.records, rows + landed.staged.rows
            self.last[landed.lease_key] = landed

    def print_nothing(self, worker_id: str, open_leases: int) -> None:
        if open_leases:
            self.say(
                f"{worker_id}: this command read no record of its {counted(open_leases, 'open shard')}: they have no new one, or "
                "another run of this worker reads them now"
            )
        else:
            self.say(
                f"{worker_id}: it owns no lease of an open shard, so nothing was read; `headrace status` shows who reads "
                "what, and the leader's sensor in Dagster gives leases to workers"
            )

    def as_json(self, keys: tuple[str, ...], failed: dict[str, str]) -> "dict[str, Any]":
        from headrace.pipeline.cli.views.lineage_json import position_json

        shards: list[dict[str, Any]] = []
        for key in keys or sorted(self.last.keys() | failed.keys()):
            records, rows = self.counts.get(key, (0, 0))
            shards.append(
                {
                    "shard": partition_of(key),
                    "lease": key,
                    "records": records,
                    "rows": rows,
                    "upto": position_json(self.last[key].staged.upto if key in self.last else None),
                    "failed": failed.get(key),
                }
            )
        return {"shards": shards, "notes": self.notes}

    def print_outcome(self, keys: tuple[str, ...], failed: dict[str, str]) -> None:
        for key in keys or sorted(self.last.keys() | failed.keys()):
            name = partition_of(key)
            if key in failed:
                self.say(f"{name}: FAILED: {failed[key]}")
            elif key not in self.last:
                self.say(f"{name}: the shard was read to its end before: nothing to do")
            else:
                self.say(f"{name}: {records_in(*self.counts[key])} landed, {_position(self.last[key])}")


def _position(landed: "Landed") -> str:
    upto = landed.staged.upto
    if upto.ended:
        return f"the shard was read to its end; its children: {', '.join(upto.children) or 'none'}"
    return f"now at {upto}, its newest record"
