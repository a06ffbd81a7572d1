"""The output that scripts read doesn't change by a byte: one observation as text, JSON and CSV."""

import io
import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from headrace.pipeline.core.leases.failure import Failure
from headrace.pipeline.core.shards.checkpoint import SHARD_END
from headrace.pipeline.inspect.as_csv import write_csv
from headrace.pipeline.inspect.as_json import document_of
from headrace.pipeline.inspect.as_text import observation_text
from headrace.pipeline.inspect.observation import Observation, OddRow
from tests.inspect.looks import AT, LEFT, RIGHT, a_look, later, seen

GOLDEN = Path(__file__).parent / "golden"
STREAM = "123456789012:orders:1700000000"
FIRST = a_look(
    LEFT,
    replace(RIGHT, checkpoint_owner="w1", throughput_kbps=12.5),
    replace(
        LEFT,
        key=f"{STREAM}:child",
        owner=None,
        parents=frozenset({"left", "b"}),
        stream=STREAM,
        shard="child",
        failure=Failure(AT - timedelta(minutes=3), "AWS doesn't let this worker read it"),
    ),
    replace(LEFT, key="old", checkpoint=SHARD_END, owner="w3", children=frozenset({"left"})),
    odd=(
        OddRow("app", "x", "leaseCounter is missing"),
        OddRow("app", "y", "a row of type NEWER", broken=False),
    ),
)


def an_observation() -> Observation:
    return seen(FIRST, later(FIRST), watched=timedelta(seconds=61.5))


def golden(name: str) -> str:
    return (GOLDEN / name).read_text(encoding="utf-8")


def test_the_json_output_is_unchanged():
    assert json.dumps(document_of(an_observation()), indent=2) + "\n" == golden("look.json")


def test_the_csv_output_is_unchanged():
    file = io.StringIO()
    write_csv(an_observation(), file)
    assert file.getvalue() == golden("look.csv")


def test_the_text_output_is_unchanged():
    assert "\n".join(observation_text(an_observation())) + "\n" == golden("look.txt")


def test_control_characters_in_names_from_a_table_are_escaped():
    shown = "\n".join(
        observation_text(seen(a_look(LEFT, odd=(OddRow("app", "a\x1b[2Jb", "it\u202eis odd"),))))
    )
    assert "a\\x1b[2Jb" in shown
    assert "it\\u202eis odd" in shown
