"""Two applications on one table are told from everything that only looks like it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from headrace.pipeline.core.landing.applications import LandedBy, application_name, notice_of, others_at_work
from headrace.pipeline.settings.blocks.coordination import CoordinationSettings
from headrace.pipeline.settings.model import Settings, StreamSettings

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
ORDERS, RETURNS = (f"arn:aws:kinesis:eu-west-1:123456789012:stream/{name}" for name in ("orders", "returns"))


def commits(turns: str, *streams: str) -> list[LandedBy]:
    """A commit for each letter, ten seconds apart. `a` is this application."""
    of = frozenset(streams or [ORDERS])
    return [LandedBy(NOON + timedelta(seconds=10 * n), name, of) for n, name in enumerate(turns)]


@pytest.mark.parametrize("turns", ["abab", "baba", "aaabbbaaabbb", "abbab"])
def test_two_applications_that_land_in_turns_are_told_whichever_began(turns: str):
    (other,) = others_at_work(commits(turns), "a")
    assert (other.name, other.streams) == ("b", ("orders",))
    assert other.last == NOON + timedelta(seconds=10 * turns.rindex("b"))
    assert [each.name for each in others_at_work(commits(turns)[::-1], "a")] == ["b"], "newest first"
    assert [each.name for each in others_at_work(commits(turns), "b")] == ["a"]


@pytest.mark.parametrize(
    ("turns", "what"),
    [
        ("aaaa", "one application with any number of deployments and commands"),
        ("aabb", "an application with a new name"),
        ("bbaa", "an application that has taken over"),
        ("aaba", "a name that was changed and changed back"),
        ("bb", "another application, while this one has not landed lately"),
        ("", "a table at rest"),
    ],
)
def test_no_other_application_is_told_where_there_is(turns: str, what: str):
    assert others_at_work(commits(turns), "a") == (), what


def test_applications_that_land_different_streams_share_a_table_in_peace():
    a, b = commits("aaaa", ORDERS), commits("bbbb", RETURNS)
    mixed = [commit for pair in zip(a, b, strict=True) for commit in pair]
    assert others_at_work(mixed, "a") == ()


def test_only_the_streams_that_both_land_are_named_and_each_application_by_itself():
    turns = [LandedBy(NOON, name, frozenset([ORDERS, RETURNS])) for name in "acac"]
    turns += [LandedBy(NOON, name, frozenset([RETURNS])) for name in "abab"]
    assert [(o.name, o.streams) for o in others_at_work(turns, "a")] == [
        ("b", ("returns",)),
        ("c", ("orders", "returns")),
    ]


def test_commits_that_name_no_application_say_nothing():
    assert (
        others_at_work([LandedBy(NOON, name, frozenset([ORDERS])) for name in ("", "a", "", "a")], "a") == ()
    )


def test_the_sentence_names_the_others_says_that_the_data_is_safe_and_gives_the_ways_out():
    said = notice_of(others_at_work(commits("abab"), "a")) or ""
    assert "b (orders; last at 2026-01-01 12:00:30Z)" in said
    assert "No record is lost or doubled" in said
    assert "Stop one of the two, or give it a table of its own (landing.table)" in said
    assert notice_of(()) is None


def test_two_deployments_of_one_application_have_one_name_and_another_lease_table_is_another_application():
    plain = Settings(application="shop", streams=(StreamSettings(name="orders"),))
    same = Settings(application="shop", streams=(), coordination=CoordinationSettings(lease_table="shop"))
    other = Settings(application="shop", streams=(), coordination=CoordinationSettings(lease_table="shop-2"))
    assert (application_name(plain), application_name(same), application_name(other)) == (
        "shop",
        "shop",
        "shop (lease table shop-2)",
    )
