"""The family of shards: of lease rows, of Kinesis's list, and of both."""

from dataclasses import replace
from datetime import timedelta

from headrace.pipeline.console.family import KnownFamily, river_of
from headrace.pipeline.console.values import Kin, StreamSeen
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.checkpoint import TRIM_HORIZON
from tests.console.scenes import NOW, Scene, a_scene, an_orphan


def members(scene: Scene) -> dict[str, Kin]:
    return {member.key: member for member in river_of(scene.tables.leases, (scene.stream,))}


def test_a_split_and_a_merge_give_generations_parents_and_times():
    scene = a_scene(4)
    kin = members(scene)
    name = "shardId-{:012d}".format
    assert [kin[name(n)].generation for n in (0, 1, 3, 7, 8)] == [0, 1, 2, 3, 4]
    assert kin[name(7)].parents == (name(5), name(6)), "a merge has both parents"
    assert kin[name(5)].closed_at == kin[name(7)].born == NOW - timedelta(minutes=6)
    assert kin[name(8)].closed_at is None


def test_leases_alone_make_a_family_with_times_of_their_checkpoints():
    scene = a_scene(4)
    alone = {member.key: member for member in river_of(scene.tables.leases, ())}
    listed = members(scene)
    for lease in scene.tables.leases:
        kin = alone[lease.key]
        assert (kin.parents, kin.generation) == (listed[lease.key].parents, listed[lease.key].generation)
        assert kin.born == (None if lease.has_ended else listed[lease.key].born)
        assert kin.is_listed is None, "nothing is said of a list that wasn't read"


def test_a_shard_of_the_list_without_a_lease_is_a_member():
    scene = a_scene(4)
    gone = scene.tables.leases[-1].key
    scene.tables = replace(scene.tables, leases=scene.tables.leases[:-1])
    assert members(scene)[gone].is_listed is True


def test_a_lease_that_is_newer_than_the_list_counts_as_neither_listed_nor_not():
    scene = a_scene(4)
    orphan = an_orphan(scene)
    assert members(scene)[orphan].is_listed is False
    scene.stream = replace(scene.stream, asked_about=scene.stream.asked_about - {orphan})
    assert members(scene)[orphan].is_listed is None


def test_rows_that_name_each_other_as_parents_end():
    rows = [
        Lease("a", parents=frozenset({"b"})),
        Lease("b", parents=frozenset({"a"})),
        Lease("c", children=frozenset({"d"})),
        Lease("d"),
    ]
    kin = {member.key: member for member in river_of(rows, ())}
    assert kin["d"].parents == ("c",), "a parent's row names its children"
    assert kin.keys() == {"a", "b", "c", "d"}


def test_streams_of_one_application_have_families_of_their_own():
    rows = [
        Lease(f"1:{name}:5:shardId-000000000000", stream=f"1:{name}:5", shard="shardId-000000000000")
        for name in ("a", "b")
    ]
    stream = StreamSeen("1:a:5", "a", shards=(), asked_about=frozenset({rows[0].key}))
    kin = {member.key: member for member in river_of(rows, (stream,))}
    assert [kin[row.key].is_listed for row in rows] == [False, None]


def test_the_family_is_made_anew_only_where_shards_have_changed():
    scene = a_scene(4)
    known = KnownFamily()
    first = known.of(scene.tables.leases, (scene.stream,))
    scene.later(30)
    assert known.of(scene.tables.leases, (scene.stream,)) is first
    key = first[-1].key
    scene.change(key, checkpoint=TRIM_HORIZON)
    assert known.of(scene.tables.leases, (scene.stream,)) is not first
    assert known.of(scene.tables.leases, (replace(scene.stream, shards=()),)) != first
