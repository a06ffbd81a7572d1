"""What the last page of a closed shard tells of its children."""

from headrace.pipeline.core.shards.shard import Child, HashRange, Shard, shards_of_children

LOW, HIGH, ALL = HashRange(0, 9), HashRange(10, 19), HashRange(0, 19)


def test_the_children_of_a_split_and_of_a_merge_are_told_whole():
    split = [Child("b", ("a",), LOW), Child("c", ("a",), HIGH)]
    assert shards_of_children("a", split) == (Shard("b", ("a",), LOW), Shard("c", ("a",), HIGH))
    assert shards_of_children("b", [Child("d", ("b", "c"), ALL)]) == (Shard("d", ("b", "c"), ALL),)


def test_a_shard_without_children_needs_none_told():
    """The last shard of a table's stream that was switched off."""
    assert shards_of_children("a", []) == ()


def test_children_that_lack_something_arent_known():
    assert shards_of_children("a", [Child("b", ("a",), ALL)]) is None, "a merge without its other parent"
    assert shards_of_children("a", [Child("b", ("a", "a"), ALL)]) is None
    assert shards_of_children("a", [Child("b", ("c", "d"), ALL)]) is None, "others' child"
    assert shards_of_children("a", [Child("b", ("a", "c"), None)]) is None
    assert shards_of_children("a", [Child("b", ("a",), LOW), Child("c", ("a",), None)]) is None
    assert shards_of_children("a", [Child("b", ("a",), LOW), Child("c", (), HIGH)]) is None
