"""The page of the processors' protocol shows the messages that KCL's daemon gives, with each of their members."""

import json
import re
from typing import Any

from tests.docs.pages import ROOT, table_rows
from tests.processors.dialogues.recorded import kept

PAGE = (ROOT / "docs" / "reference" / "processor-protocol.md").read_text(encoding="utf-8")
HEARS = PAGE.partition("## What it hears")[2].partition("## What it says")[0]
BLOCKS = re.findall(r"```json\n(.*?)\n```", HEARS, re.DOTALL)
SHOWN: list[dict[str, Any]] = [json.loads(text) for text in re.split(r"\n(?={)", "\n".join(BLOCKS))]


def shape(message: dict[str, Any]) -> tuple[str, list[str]]:
    """The action, and the members in order."""
    return message["action"], list(message)


def test_the_page_shows_each_message_of_the_daemon_with_its_members():
    messages = [message for dialogue in kept() for message in dialogue.messages()]
    records = [record for message in messages for record in message.get("records", ())]
    given = {str(shape(message)): shape(message) for message in (*messages, *records)}
    assert sorted(map(shape, SHOWN)) == sorted(given.values())


def test_the_page_tells_the_type_of_each_member():
    told = {name for row in table_rows(HEARS) for name in row[0].split("`")[1::2]}
    assert {name for message in SHOWN for name in message} - {"action", "records"} <= told
