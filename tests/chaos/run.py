"""One chaos: the deployment runs, everything goes wrong, and then each record is judged."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import yaml

from headrace.assets.names import partitions_name, records_key, slug
from headrace.pipeline.app.adapters import Adapters
from headrace.pipeline.demo.reading import the_table
from headrace.pipeline.demo.reshards import is_stream_active
from headrace.pipeline.lake.table.lake_table import IcebergTable
from headrace.pipeline.lake.table.plain_read import ledger, rows
from headrace.pipeline.local.endpoint import LocalAws, local_aws
from headrace.pipeline.settings.file import read_settings
from tests.chaos.deployment import Deployment
from tests.chaos.graphql import DagsterUi
from tests.chaos.samples import CHECKS, CONSOLE, LAG_LIMIT, STATUS, Sampler
from tests.chaos.traffic import PutRecord, Traffic
from tests.chaos.troubles import Troubles
from tests.chaos.truth import lies, truth_of
from tests.eventually import eventually

NAME = "chaos"
_STARTS_WITHIN = 600.0
_CAUGHT_UP_WITHIN = 600.0
"""Seconds after the last trouble. A person does nothing in them."""
_OUTAGE_FROM = 5.0
"""Minutes from which on the daemon is dead for longer once."""
_ROW_LATE = 60.0 + 15.0 + 15.0
"""Seconds. A worker's row counts as fresh for a minute. A living worker looks into its idle shards each 15 s, and its run has to start."""
PERIODS = {STATUS: _ROW_LATE, CONSOLE: _ROW_LATE, CHECKS: _ROW_LATE + 60.0 + 60.0 + LAG_LIMIT}
"""Seconds by which each source may be late. The checks are looked at each minute. Whether a shard that was read to its tip has unread records
is asked each minute from the lag's limit on, and its lag counts from when they were first seen."""
_JUDGED_WITHIN = 300.0
"""Seconds: the checks are judged each minute, and in a chaos some of these ticks are cut off one after the other."""


@dataclass(frozen=True, slots=True)
class Verdict:
    sentences: tuple[str, ...]
    wrong: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join((*self.sentences, *(f"WRONG: {sentence}" for sentence in self.wrong)))


def chaos(folder: Path, *, minutes: float, seed: int) -> Verdict:
    with local_aws("--transition", "1") as aws:
        kinesis = aws.client("kinesis")
        kinesis.create_stream(StreamName=NAME, ShardCount=3)
        eventually(lambda: is_stream_active(kinesis, NAME), "the stream is there")
        deployment = Deployment(folder, aws.environment)
        deployment.settings.write_text(yaml.safe_dump(_settings(folder, aws)))
        # The judge reads the lease table by itself, as a person would with the same keys.
        with patch.dict(os.environ, aws.environment), deployment.running():
            return _judged(deployment, aws, minutes, random.Random(seed))


def _settings(folder: Path, aws: LocalAws) -> dict[str, object]:
    return {
        "application": NAME,
        "streams": [{"name": NAME}],
        "workers": [{"id": "w1"}, {"id": "w2"}],
        "landing": {"home": str(folder / "lake")},
        "aws": {"region": aws.region, "endpoint": aws.endpoint},
        "wave": {"every": "2s"},
        "times": {"linger": "40s", "launch_grace": "60s"},
        "dagster": {"checks": {"lag": f"{LAG_LIMIT:.0f}s"}},
    }


def _judged(deployment: Deployment, aws: LocalAws, minutes: float, dice: random.Random) -> Verdict:
    settings = read_settings(deployment.settings, {}).settings
    key, table = records_key(settings), the_table(deployment.folder / "lake")
    traffic = Traffic(aws, NAME, random.Random(dice.random()))
    sampler = Sampler(deployment, key, f"{slug(NAME)}_watch")
    troubles = Troubles(
        deployment,
        DagsterUi(deployment.port),
        key,
        partitions_name(settings),
        slug(NAME),
        dice,
        has_outage=minutes >= _OUTAGE_FROM,
    )
    with traffic.flowing():
        eventually(lambda: _landed(table) != [], "the first records have landed", within=_STARTS_WITHIN)
        with sampler.sampling():
            troubles.go_on_for(minutes * 60)
    put = traffic.put
    eventually(
        lambda: {record.id for record in put} <= set(_landed(table)),
        "every record that was put has landed",
        within=_CAUGHT_UP_WITHIN,
        every=2,
    )
    truth = truth_of(put, ledger(table))
    wrong = [
        *_of_records(put, _landed(table)),
        *lies(sampler.samples, truth, PERIODS),
        *(f"a command failed: {sentence}" for sentence in sampler.unanswered),
        *_unjudged(sampler.longest_unjudged),
        *_at_the_end(deployment),
    ]
    longest = max(landing.at - landing.record.at for landing in truth.landings)
    shards = len(Adapters(settings).leases().scan().leases)
    sentences = (
        f"{len(put):,} records put, {len(set(_landed(table))):,} landed; the longest wait of a record was {longest:.0f} s",
        f"{len(traffic.reshards)} reshards, {shards} shards",
        f"the checks were judged after {sampler.longest_unjudged:.0f} s at most",
        f"{len(sampler.samples)} samples; {_told(Counter(sample.source for sample in sampler.samples))}",
        f"what happened: {_told(troubles.done)}; asked for in vain: {len(troubles.refused)}",
    )
    return Verdict(sentences, tuple(wrong))


def _landed(table: IcebergTable) -> list[str]:
    if not table.exists():
        return []
    return [bytes(data or b"").decode() for data in rows(table, ["data"])["data"].to_pylist()]


def _of_records(put: list[PutRecord], landed: list[str]) -> Iterator[str]:
    times = Counter(landed)
    ids = {record.id for record in put}
    yield from (f"{name} is lost" for name in sorted(ids - times.keys()))
    yield from (f"{name} landed {count} times" for name, count in sorted(times.items()) if count > 1)
    yield from (f"{name} landed, and nobody has put it" for name in sorted(times.keys() - ids))


def _unjudged(longest: float) -> Iterator[str]:
    if longest > _JUDGED_WITHIN:
        yield f"the checks weren't judged for {longest:.0f} s"


def _at_the_end(deployment: Deployment) -> Iterator[str]:
    """What commands say once everything has landed."""
    proof = deployment.headrace("prove", "--json")
    if proof.returncode != 0:
        yield f"headrace prove: {proof.stdout[-2000:]}{proof.stderr[-2000:]}"

    def calm() -> list[dict[str, Any]] | None:
        status = deployment.headrace("status", "--for", "20s", "--json", "--strict")
        # A lag isn't known for a minute after a worker came back, or got the lease.
        lags = json.loads(status.stdout)["lags"] if status.returncode == 0 else []
        return lags if lags and all(shard["lag_seconds"] is not None for shard in lags) else None

    lags = eventually(
        calm,
        "headrace status finds nothing that needs a person, and knows each shard's lag",
        within=240,
        every=5,
    )
    behind = [shard for shard in lags if shard["lag_seconds"] != 0]
    if behind:
        yield f"headrace status tells a lag though everything has landed: {behind}"


def _told(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
