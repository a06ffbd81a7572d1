"""What a page is sent: the same form as always, only what changed, and little even of 4,000 shards."""

import gzip
import json
from pathlib import Path

from headrace.pipeline.console.details import details_of
from headrace.pipeline.console.document import FIXED, MOVING
from headrace.pipeline.core.shards.checkpoint import Checkpoint
from tests.console.scenes import Scene, a_scene, an_orphan, an_unread

GOLDEN = Path(__file__).parent / "golden" / "look.json"
KEY = "shardId-000000000004"


def a_damaged_scene() -> Scene:
    scene = a_scene(4)
    an_unread(scene, KEY, 22.0)
    an_orphan(scene)
    return scene


def the_golden_document() -> str:
    """Run `python -m tests.console.test_document` to write it anew. Read what has changed before you commit it."""
    scene = a_damaged_scene()
    console = scene.console(dagster="http://127.0.0.1:3000")
    console.watch.report()
    for _ in range(5):
        scene.later(30, without=("east-2",), lock=False)
        console.watch.report()
    look = console.look("", 0)
    return json.dumps({**look, "shard": console.shard(KEY)}, indent=1) + "\n"


def test_the_document_is_unchanged():
    assert the_golden_document() == GOLDEN.read_text(encoding="utf-8")


def test_a_page_that_has_a_look_is_sent_only_the_shards_that_changed():
    scene = a_scene(60, 6)
    console = scene.console()
    first = console.look("", 0)
    assert len(first["fixed"]) == len(first["moving"]) == len(scene.shards)
    scene.later(60)
    # The second look may call every worker alive, which the first one couldn't.
    second = console.look(first["family"], first["number"])
    assert "fixed" not in second
    scene.later(60)
    at_rest = console.look(first["family"], second["number"])
    assert at_rest["moving"] == []
    shard = next(shard for shard in scene.shards if shard.shard_id == "shardId-000000000070")
    scene.change(shard.shard_id, checkpoint=Checkpoint(str(shard.number(9_000, scene.clock.now()))))
    scene.later(60)
    moved = console.look(first["family"], at_rest["number"])
    assert [first["fixed"][row[0]][0] for row in moved["moving"]] == [shard.shard_id]


def test_a_page_that_missed_looks_gets_all_changes_since_its_own():
    scene = a_scene(4)
    console = scene.console()
    first = console.look("", 0)
    for key in ("shardId-000000000003", KEY):
        scene.change(key, owner="east-9")
        scene.later(10)
        console.watch.report()
        last = console.look("", 0)
    missed = console.look(first["family"], first["number"])
    names = {first["fixed"][row[0]][0] for row in missed["moving"]}
    assert {"shardId-000000000003", KEY} <= names
    assert missed["number"] == last["number"]


def test_a_new_shard_is_a_new_family_and_everything_is_sent():
    scene = a_scene(4)
    console = scene.console()
    first = console.look("", 0)
    an_orphan(scene)
    scene.later(10)
    second = console.look(first["family"], first["number"])
    assert second["family"] != first["family"]
    assert len(second["fixed"]) == len(first["fixed"]) + 1 == len(second["moving"])


def test_each_row_has_the_named_places():
    look = a_scene(4).console().look("", 0)
    assert {len(row) for row in look["fixed"]} == {len(FIXED)}
    assert {len(row) for row in look["moving"]} == {len(MOVING) + 1}


def test_4000_shards_are_sent_as_less_than_half_a_megabyte_and_a_rest_as_next_to_nothing():
    scene = a_scene(4_000, 80)
    console = scene.console()
    first = console.look("", 0)
    assert len(gzip.compress(json.dumps(first).encode(), 5)) < 500_000
    scene.later(60)
    second = console.look(first["family"], first["number"])
    scene.later(60)
    rest = console.look(first["family"], second["number"])
    assert rest["moving"] == []
    assert len(json.dumps(rest)) < 30_000, "what is told of 80 workers, and no shard"


def test_a_shards_page_has_no_payload_and_tells_everything_in_words():
    scene = a_damaged_scene()
    console = scene.console()
    details = details_of(console.watch.report(), KEY, None)
    assert details is not None
    facts = dict(details["facts"])
    assert facts["Read by"] == "east-2"
    assert facts["Parents"] == "shardId-000000000001"
    assert facts["At risk"].startswith("loses records in")
    assert details_of(console.watch.report(), "no-such-shard", None) is None


if __name__ == "__main__":
    GOLDEN.parent.mkdir(exist_ok=True)
    GOLDEN.write_text(the_golden_document(), encoding="utf-8")
