"""The page of the processors' protocol shows the messages that KCL's daemon gives, with each of their members."""

import json
from typing import Any

from tests.docs.pages import ROOT
from tests.processors.dialogues.recorded import kept

PAGE = (ROOT / "docs" / "reference" / "processor-protocol.md").read_text(encoding="utf-8")
HEARS = PAGE.partition("## What it hears")[2].partition("## What it says")[0]


def shapes(message: dict[str, Any]) -> tuple[str, list[str]]:
    """The action, and the members in order."""
    return message["action"], list(message)


def test_the_page_shows_each_message_of_the_daemon_with_its_members():
    shown = [shapes(json.loads(line)) for line in HEARS.splitlines() if line.startswith("{")]
    messages = [message for dialogue in kept() for message in dialogue.messages()]
    records = [record for message in messages for record in message.get("records", ())]
    assert sorted(shown) == sorted({str(shape): shape for shape in map(shapes, (*messages, *records))}.values())


def test_the_page_tells_the_type_of_each_member():
    told = {name for line in HEARS.splitlines() if line.startswith("| ") for name in line.split("`")[1:-1:2]}
    members = {name for line in HEARS.splitlines() if line.startswith("{") for name in json.loads(line)}
    assert members - {"action", "records"} <= told
