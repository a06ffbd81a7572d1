"""How far behind shards are, and the frame of `headrace status --watch`, by values."""

import io
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from headrace.pipeline.cli.live.screen import Screen
from headrace.pipeline.cli.live.watch_status import show_frame
from headrace.pipeline.core.leases.failure import Failure
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.leases.worker import Worker
from headrace.pipeline.inspect.frame import frame_of, short_size
from headrace.pipeline.inspect.observation import Observation
from headrace.pipeline.inspect.progress import Earlier, ShardProgress, lags_of, progress_of, too_far_behind
from tests.inspect.looks import AT, a_look, later, seen

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
DAY: dict[str | None, timedelta] = {None: timedelta(days=1)}


def a_worker(name: str, *, age: timedelta = timedelta(seconds=3), **more: Any) -> Worker:
    return Worker(name, last_update=AT - age, beat=1, instance="here", **more)


def a_shard(number: int, owner: str | None = "a-1", **more: Any) -> Lease:
    return Lease(
        f"shardId-{number:012d}", counter=1, owner=owner, **{"looked_at": AT - MINUTE, "behind_ms": 0, **more}
    )


def at(*leases: Lease, workers: tuple[Worker, ...] = (a_worker("a-1"),)) -> Observation:
    return seen(a_look(*leases, workers=workers))


def lag(*leases: Lease, workers: tuple[Worker, ...] = (a_worker("a-1"),)) -> timedelta | None:
    return progress_of(at(*leases, workers=workers))[0].lag


def test_a_shard_at_its_tip_isnt_behind_however_long_ago_it_was_read_as_long_as_its_worker_lives():
    quiet = a_shard(0, looked_at=AT - 5 * HOUR)
    assert lag(quiet) == timedelta(0)
    assert lag(quiet, workers=(a_worker("a-1", age=2 * MINUTE),)) == 5 * HOUR
    assert lag(replace(quiet, owner=None)) == 5 * HOUR


def test_a_shard_that_fails_or_has_more_to_read_is_behind_since_it_was_last_read():
    assert lag(a_shard(0, behind_ms=1)) == MINUTE
    assert lag(a_shard(0, failure=Failure(AT - MINUTE, "denied"))) == MINUTE


def test_a_shard_that_was_never_read_is_behind_since_it_got_its_worker_and_a_row_of_kcl_tells_nothing():
    assert lag(a_shard(0, looked_at=None, assigned_at=AT - HOUR)) == HOUR
    assert lag(a_shard(0, looked_at=None)) is None


def test_a_child_that_waits_for_its_parent_isnt_behind_by_itself():
    parent = a_shard(0, behind_ms=1)
    child = a_shard(1, looked_at=None, parents=frozenset({parent.shard_id}))
    lags = {shard.lease: shard.lag for shard in progress_of(at(parent, child))}
    assert lags == {parent.key: MINUTE, child.key: timedelta(0)}


@pytest.mark.parametrize(("seconds", "lag_of_quiet"), [(5, timedelta(0)), (30, MINUTE)])
def test_a_worker_that_was_watched_for_long_without_a_beat_reads_nothing(
    seconds: int, lag_of_quiet: timedelta
):
    look = a_look(a_shard(0), workers=(a_worker("a-1"),))
    [shard] = progress_of(seen(look, look, watched=timedelta(seconds=seconds)))
    assert shard.lag == lag_of_quiet


def test_the_sentence_names_the_shard_that_is_furthest_behind_and_rows_that_dont_tell_arent_well():
    observation = at(a_shard(0), a_shard(1, behind_ms=9), a_shard(2, None, looked_at=AT - HOUR))
    shards = progress_of(observation)
    assert too_far_behind(observation, shards, 2 * HOUR) is None
    assert too_far_behind(observation, shards, timedelta(seconds=30)) == (
        "app: 2 shards more than 30 s behind; the furthest is shardId-000000000002 without a worker, 60 min behind"
    )
    of_kcl = at(a_shard(0, looked_at=None))
    told = too_far_behind(of_kcl, progress_of(of_kcl), HOUR)
    assert told is not None
    assert told.startswith(
        "app: the rows of 1 shard don't tell how far behind they are (shardId-000000000000)"
    )


def test_two_looks_tell_when_a_shard_has_caught_up_and_one_that_nobody_reads_when_it_loses_records():
    reading = a_shard(0, behind_ms=1, looked_at=AT - HOUR, throughput_kbps=100.0)
    left = a_shard(1, None, behind_ms=1, looked_at=AT - 2 * HOUR)
    before = Earlier(AT - MINUTE, {reading.key: HOUR + 2 * MINUTE})
    first, second = sorted(
        progress_of(at(reading, left), earlier=before, retention=DAY), key=lambda each: each.lease
    )
    # Two minutes less in a minute.
    assert first.catches_up_in == 30 * MINUTE
    assert (first.backlog, first.loses_in) == (360_000_000.0, None)
    assert (second.catches_up_in, second.loses_in) == (None, 22 * HOUR)


def test_a_lag_that_grows_loses_records_by_its_rate():
    shard = a_shard(0, behind_ms=1, looked_at=AT - 4 * HOUR)
    before = Earlier(AT - MINUTE, {shard.key: 4 * HOUR - MINUTE / 2})
    [told] = progress_of(at(shard), earlier=before, retention=DAY)
    # Half a second a second: the twenty hours that are left take forty.
    assert told.loses_in == 40 * HOUR


def test_a_frame_has_cpu_and_where_it_is_measured_and_failing_shards_first():
    worker = a_worker("a-1", stats={"C": (-1.0, 41.6)}, measured_by="cpu of 2 hosts")
    failing = a_shard(7, failure=Failure(AT - MINUTE, "no right to read"))
    lines = frame_of(
        (observation := at(a_shard(0, behind_ms=5), failing, workers=(worker,))),
        progress_of(observation),
        height=40,
        width=200,
    )
    assert any("a-1" in line and "42 %" in line and "cpu of 2 hosts" in line for line in lines)
    rows = [line for line in lines if line.startswith("shardId-")]
    assert (rows[0].split()[0], rows[0].endswith("no right to read")) == ("shardId-000000000007", True)


@pytest.mark.parametrize("height", [1, 12, 24, 60])
def test_a_frame_fits_its_screen_and_counts_what_it_leaves_out(height: int):
    leases = [a_shard(n, f"a-{n % 30}") for n in range(300)]
    observation = at(*leases, workers=tuple(a_worker(f"a-{n}") for n in range(30)))
    lines = frame_of(observation, progress_of(observation), height=height, width=80)
    assert len(lines) <= max(height, 16)
    assert max(map(len, lines)) <= 80
    assert sum("more shards" in line or "more workers" in line for line in lines) == 2


def test_a_worker_with_a_shard_that_was_never_read_isnt_called_0_s_behind():
    observation = at(a_shard(0), a_shard(1, looked_at=None))
    lines = frame_of(observation, progress_of(observation), height=40, width=200)
    assert [line for line in lines if line.startswith("a-1") and " 0 s or more " in line]


def test_sizes_have_a_unit_that_people_read():
    assert [short_size(size) for size in (0, 999, 1500, 2.5e9, 7e13)] == [
        "0 B",
        "999 B",
        "1.5 KB",
        "2.5 GB",
        "70.0 TB",
    ]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def two_looks() -> Iterator[Observation]:
    first = a_look(a_shard(0, behind_ms=1), workers=(a_worker("a-1"),))
    yield seen(first)
    yield seen(first, later(first))


def test_a_terminal_gets_a_second_screen_that_is_overwritten_and_taken_away_at_the_end():
    out = Terminal()
    show_frame(two_looks(), Screen(out, lambda: (100, 30)), {})
    text = out.getvalue()
    assert text.startswith("\x1b[?1049h")
    assert text.endswith("\x1b[?1049l")
    assert text.count("\x1b[H") == 2
    assert "\x1b[2J" not in text


def test_a_terminal_is_restored_after_ctrl_c_and_after_an_error():
    def interrupted() -> Iterator[Observation]:
        yield next(two_looks())
        raise KeyboardInterrupt

    out = Terminal()
    with pytest.raises(KeyboardInterrupt):
        show_frame(interrupted(), Screen(out, lambda: (100, 30)), {})
    assert out.getvalue().endswith("\x1b[?1049l")


def test_a_pipe_gets_plain_frames_one_after_the_other():
    out = io.StringIO()
    show_frame(two_looks(), Screen(out), {})
    assert "\x1b" not in out.getvalue()
    assert out.getvalue().count("1 open lease") == 2


def test_the_lags_of_a_look_are_those_of_its_shards():
    observation = at(a_shard(0, behind_ms=1))
    shards: tuple[ShardProgress, ...] = progress_of(observation)
    assert lags_of(observation, shards) == Earlier(AT, {"shardId-000000000000": MINUTE})
