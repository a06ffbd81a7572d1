"""The search from the head to the newest positions, tested on snapshots as values."""

from collections.abc import Iterator, Sequence
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.errors import ChainBroken
from headrace.pipeline.lake.table.position_chain import (
    POSITIONS,
    STATE,
    Known,
    Link,
    ancestors,
    landed,
    nearest_ours,
)

WITH_POSITIONS = {POSITIONS: "1:..."}
CHERRY_PICKED = {"source-snapshot-id": "5"}


def by_id(*links: Link) -> dict[int, Link]:
    return {link.snapshot: link for link in links}


def chain(*numbers: int, ours: Sequence[int] = ()) -> dict[int, Link]:
    """Snapshots, each the child of the one before. A snapshot's id is its sequence number. The first one has an
    unknown parent."""
    return by_id(
        *(Link(n, n - 1 if n > 1 else None, n, summary=WITH_POSITIONS if n in ours else {}) for n in numbers)
    )


def never() -> Iterator[Known]:
    """A metadata log whose reading fails the test."""
    return map(_read, range(1))


def _read(_: int) -> Known:
    raise AssertionError("the metadata log was read, though nothing is missing")


def test_a_head_with_positions_is_the_nearest():
    found = nearest_ours(3, chain(1, 2, 3, ours=[2, 3]), never())
    assert found is not None
    assert found.snapshot == 3


def test_a_pointer_to_a_state_file_counts_as_positions():
    found = nearest_ours(2, by_id(Link(1, None, 1), Link(2, 1, 2, summary={STATE: "1:a:b"})), never())
    assert found is not None
    assert found.snapshot == 2


def test_positions_are_found_behind_snapshots_of_other_engines():
    found = nearest_ours(9, chain(*range(1, 10), ours=[1, 5]), never())
    assert found is not None
    assert found.snapshot == 5


def test_a_root_without_positions_ends_the_search_without_reading_the_log():
    assert nearest_ours(3, chain(1, 2, 3), never()) is None


def test_an_empty_table_has_no_positions():
    assert nearest_ours(None, {}, never()) is None


def test_after_compaction_and_expiry_the_landing_is_found_through_the_metadata_log():
    """The landing is 5. Snapshots 6 to 8 are of other engines. Expiry left 7 and 8, and 5 because of its tag, which
    isn't used."""
    current = chain(5, 7, 8, ours=[5])
    before_expiry = chain(5, 6, 7, 8, ours=[5])
    seen = islice(ancestors(8, current, iter([before_expiry])), 4)
    assert [link.snapshot for link in seen] == [8, 7, 6, 5]
    found = nearest_ours(8, current, iter([before_expiry]))
    assert found is not None
    assert found.snapshot == 5


def test_an_expired_landing_is_found_in_the_metadata_log():
    found = nearest_ours(8, chain(7, 8), iter([chain(7, 8), chain(6, 7), chain(4, 5, 6, ours=[4, 5])]))
    assert found is not None
    assert found.snapshot == 5


def test_a_parent_that_expiry_removed_from_its_child_is_found_in_the_metadata_log():
    """pyiceberg removes the parent from the children of expired snapshots, so that they look like roots."""
    current = by_id(Link(8, None, 8))
    found = nearest_ours(8, current, iter([chain(5, 6, 7, 8, ours=[5])]))
    assert found is not None
    assert found.snapshot == 5


def test_a_later_root_counts_as_root_if_the_metadata_log_shows_its_creation():
    """A replaced table has a new root with a later sequence number."""
    current = by_id(Link(8, None, 8))
    before = chain(1, 2, 3, ours=[2])
    assert nearest_ours(8, current, iter([current, before])) is None


def test_a_later_root_whose_creation_isnt_in_the_log_breaks_the_chain():
    current = by_id(Link(8, None, 8))
    with pytest.raises(ChainBroken, match="headrace repair"):
        nearest_ours(8, current, iter([current, current]))


def test_a_missing_snapshot_breaks_the_chain_and_the_tagged_snapshot_isnt_used_instead():
    current = chain(5, 7, 8, ours=[5])
    with pytest.raises(ChainBroken, match="snapshot 6"):
        nearest_ours(8, current, iter([current]))


def test_after_a_rollback_snapshots_ahead_of_main_are_not_used():
    current = chain(1, 2, 3, 4, ours=[2, 4])
    found = nearest_ours(3, current, never())
    assert found is not None
    assert found.snapshot == 2


def test_a_cherry_pick_breaks_the_chain():
    links = chain(1, 2, ours=[2]) | by_id(Link(3, 2, 3, summary=CHERRY_PICKED), Link(4, 3, 4))
    with pytest.raises(ChainBroken, match="cherry-pick"):
        nearest_ours(4, links, never())


def test_a_cherry_pick_below_the_newest_positions_does_no_harm():
    links = chain(1, ours=[1]) | by_id(
        Link(2, 1, 2, summary=CHERRY_PICKED), Link(3, 2, 3, summary=WITH_POSITIONS)
    )
    found = nearest_ours(3, links, never())
    assert found is not None
    assert found.snapshot == 3


def test_a_commit_counts_as_landed_only_if_its_snapshot_is_an_ancestor_of_main():
    """D17: snapshot 4 is in the metadata, but main was rolled back to 3."""
    links = chain(1, 2, 3, 4)
    assert landed(3, links, never(), tries=[4], since=4) is None
    assert landed(4, links, never(), tries=[4], since=4) == 4


def test_a_commit_is_found_below_later_commits_of_other_engines():
    assert landed(9, chain(*range(1, 10)), never(), tries=[4, 77], since=4) == 4


def test_the_search_for_a_commit_ends_at_its_base():
    links = chain(5, 6, 7)  # snapshot 4 is missing: searching further would fail
    assert landed(7, links, never(), tries=[66], since=6) is None


@given(st.data())
def test_whatever_snapshots_expire_the_same_positions_are_found_as_before(data: st.DataObject):
    length = data.draw(st.integers(1, 12))
    ours = data.draw(st.sets(st.integers(1, length)))
    whole = chain(*range(1, length + 1), ours=sorted(ours))
    log: list[Known] = []
    current = dict(whole)
    for _ in range(data.draw(st.integers(0, 4))):
        log.insert(0, dict(current))
        gone = data.draw(st.sets(st.sampled_from(sorted(current)), max_size=len(current))) - {length}
        orphaning = data.draw(st.booleans())
        current = {
            n: Link(n, None if orphaning and link.parent in gone else link.parent, n, summary=link.summary)
            for n, link in current.items()
            if n not in gone
        }
    log += [chain(*range(1, n + 1), ours=sorted(ours)) for n in range(length, 0, -1)]
    found = nearest_ours(length, current, iter(log))
    assert (found.snapshot if found else None) == max(ours, default=None)
    assert [link.snapshot for link in ancestors(length, current, iter(log))] == list(range(length, 0, -1))
