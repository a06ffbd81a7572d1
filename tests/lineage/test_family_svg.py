"""The drawing of shards and their parents, which Dagster shows as an image."""

from __future__ import annotations

import base64
from xml.etree import ElementTree as ET

from headrace.pipeline.lineage.family_svg import DrawnShard, image, svg

_SVG = "{http://www.w3.org/2000/svg}"


def corners(drawing: str) -> dict[str, tuple[int, int]]:
    """Where the box of each shard begins, by the shard's name."""
    root = ET.fromstring(drawing)
    boxes = [(int(box.attrib["x"]), int(box.attrib["y"])) for box in root.iter(f"{_SVG}rect")]
    names = [text.text or "" for text in root.iter(f"{_SVG}text") if text.attrib.get("font-weight")]
    return dict(zip(names, boxes, strict=True))


def shard(number: int, *parents: int, state: str = "open") -> DrawnShard:
    return DrawnShard(
        f"s{number:03}", f"shard {number}", state, state, tuple(f"s{parent:03}" for parent in parents)
    )


def test_each_generation_stands_to_the_right_of_its_parents_and_no_box_on_another():
    places = corners(svg([shard(0), shard(1), shard(2, 0), shard(3, 0), shard(4, 3, 1)]))
    assert places["shard 0"][0] == places["shard 1"][0]
    assert places["shard 0"][0] < places["shard 2"][0] == places["shard 3"][0] < places["shard 4"][0]
    assert len(set(places.values())) == 5


def test_an_edge_leads_from_each_parent_in_the_drawing():
    drawing = svg([shard(0), shard(1), shard(2, 0, 1), shard(3, 99)])
    assert len(list(ET.fromstring(drawing).iter(f"{_SVG}path"))) == 2


def test_of_many_shards_those_with_relatives_are_drawn_first_and_the_rest_is_counted():
    many = [*(shard(number) for number in range(2, 100)), shard(0, state="ended"), shard(1, 0)]
    drawing = svg(many, most=10)
    assert {"shard 0", "shard 1", "shard 99"} <= corners(drawing).keys()
    assert len(corners(drawing)) == 10
    assert "and 90 shards more" in drawing


def test_a_name_cannot_break_the_drawing_and_the_markdown_holds_all_of_it():
    drawing = svg([DrawnShard("a", "<b>&", "open", '"x"')])
    assert list(corners(drawing)) == ["<b>&"]
    address = image(drawing, "shards").removeprefix("![shards](data:image/svg+xml;base64,").removesuffix(")")
    assert base64.b64decode(address).decode() == drawing


def test_a_drawing_stays_small_beside_what_dagster_keeps_of_a_run():
    drawing = svg(
        [shard(number, number // 2 - 1) if number > 1 else shard(number) for number in range(5_000)]
    )
    assert len(image(drawing, "shards")) < 20_000
