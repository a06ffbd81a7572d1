"""What a sensor's cursor keeps for a tick in another process."""

import json
from datetime import UTC, datetime, timedelta

from headrace.pipeline.core.leases.sighting import Sighting
from headrace.pipeline.duties.fleet.cursor import read_worker, write_worker
from headrace.pipeline.duties.fleet.worker_report import WorkerMemory
from headrace.pipeline.duties.policy.leader_watch import LeaderWatchMemory

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


def test_the_cursor_keeps_that_a_kcl_worker_leads():
    seen = LeaderWatchMemory(NOW, "v2", other=Sighting("kcl-1:v2", timedelta(seconds=20), moved=True))
    assert read_worker(write_worker(WorkerMemory(leader=seen))).leader == seen


def test_a_cursor_without_the_field_for_a_kcl_leader_can_be_read():
    seen = LeaderWatchMemory(NOW, "v2", Sighting("w1:7", timedelta(seconds=20), moved=True))
    """Earlier versions of Headrace wrote such cursors."""
    said = json.loads(write_worker(WorkerMemory(leader=seen)))
    said["leader"] = said["leader"][:3]
    assert read_worker(json.dumps(said)).leader == seen
