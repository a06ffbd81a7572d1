"""How long the table's metadata hasn't named a file, counted in looks."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.upkeep.deletion_plan import DeletionPlan, StoredFile, Unnamed, plan_deletion

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
A, B = StoredFile("a", 1), StoredFile("b", 2)


def test_a_file_is_due_once_it_was_without_a_name_for_long_enough():
    memory = Unnamed(NOW - DAY, {"a": 2 * DAY, "b": 2 * DAY - HOUR})
    plan = plan_deletion([B, A], {"c"}, memory, now=NOW, after=3 * DAY)
    assert plan == DeletionPlan((A,), (B,), Unnamed(NOW, {"a": 3 * DAY, "b": 3 * DAY - HOUR}))


def test_a_file_that_is_seen_for_the_first_time_has_no_age():
    plan = plan_deletion([A], set(), Unnamed(NOW - DAY, {"b": DAY}), now=NOW, after=HOUR)
    assert plan == DeletionPlan((), (A,), Unnamed(NOW, {"a": timedelta()}))
    first = plan_deletion([A], set(), Unnamed(), now=NOW, after=HOUR)
    assert first.memory == Unnamed(NOW, {"a": timedelta()})


def test_a_file_with_a_name_is_forgotten():
    plan = plan_deletion([A], {"a"}, Unnamed(NOW - DAY, {"a": 9 * DAY}), now=NOW, after=HOUR)
    assert plan == DeletionPlan((), (), Unnamed(NOW, {}))


def test_a_long_break_counts_as_a_day_and_a_half_and_a_clock_that_goes_back_as_nothing():
    for passed, counted in ((36 * HOUR, 36 * HOUR), (37 * HOUR, 36 * HOUR), (-DAY, timedelta())):
        plan = plan_deletion([A], set(), Unnamed(NOW - passed, {"a": HOUR}), now=NOW, after=9 * DAY)
        assert plan.memory.since == {"a": HOUR + counted}


def test_a_metadata_file_older_than_the_whole_log_goes_at_once_and_a_newer_one_waits():
    def a_file(version: int) -> StoredFile:
        return StoredFile(f"bucket/table/metadata/{version:05}-0f.metadata.json", 1)

    named = {a_file(version).path for version in (7, 8, 100_000)} | {"bucket/table/data/1.parquet"}
    stored = [a_file(version) for version in (6, 7, 9, 100_001)]
    plan = plan_deletion([*stored, A], named, Unnamed(), now=NOW, after=DAY)
    assert plan.due == (a_file(6),)
    assert {*plan.waiting} == {A, a_file(9), a_file(100_001)}


def test_without_any_known_metadata_file_none_goes_at_once():
    old = StoredFile("table/metadata/00001-0f.metadata.json", 1)
    assert plan_deletion([old], set(), Unnamed(), now=NOW, after=DAY).waiting == (old,)


@given(st.lists(st.tuples(st.booleans(), st.integers(-48, 96)), max_size=12))
def test_a_file_is_never_older_than_the_time_since_a_look_last_found_its_name(looks: list[tuple[bool, int]]):
    """True: a look at which the table's metadata named the file. Each number: hours until the next look, by a clock that may jump."""
    memory, now, longest = Unnamed(), NOW, timedelta()
    unnamed_for: timedelta | None = None
    for is_named, hours in looks:
        plan = plan_deletion([A], {"a"} if is_named else set(), memory, now=now, after=3 * DAY)
        unnamed_for = None if is_named else timedelta() if unnamed_for is None else unnamed_for + longest
        assert plan.memory.since.get("a") == unnamed_for
        assert (plan.due == (A,)) == (unnamed_for is not None and unnamed_for >= 3 * DAY)
        memory, now = plan.memory, now + timedelta(hours=hours)
        longest = min(max(timedelta(hours=hours), timedelta()), 36 * HOUR)
