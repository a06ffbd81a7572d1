"""The commands of the documents that change nothing are run against the stand-in."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.pipeline.app.wiring import wire
from headrace.pipeline.aws.clients.clients import dynamodb_client, kinesis_client
from headrace.pipeline.aws.leases.tables import DynamoTables
from headrace.pipeline.cli import main
from headrace.pipeline.duties.fleet.leader_report import LeaderMemory
from headrace.pipeline.local.endpoint import local_aws
from headrace.pipeline.settings.blocks.aws import AwsSettings
from headrace.pipeline.settings.file import read_settings
from headrace.pipeline.settings.model import Settings
from tests.docs.pages import PAGES

READ_ONLY = {"config", "doctor", "plan", "status"}
SETTINGS = """
application: orders
streams: [{name: orders}]
workers: [{id: orders-1}]
landing: {table: lake.orders}
times: {worker_tick: 1s}
"""


def harmless_commands() -> list[list[str]]:
    blocks = [
        b
        for page in PAGES
        for b in re.findall(r"^```sh\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    ]
    lines = [shlex.split(line, comments=True) for block in blocks for line in block.splitlines()]
    unique = {tuple(words[1:]) for words in lines if words[:1] == ["headrace"]}
    return [list(words) for words in sorted(unique) if _is_harmless(words)]


def _is_harmless(words: tuple[str, ...]) -> bool:
    """Whether the command changes nothing and takes the settings of this test. Commands with a settings file of their
    own are run by tests/examples."""
    looks = words[0] in READ_ONLY or words[:2] == ("tables", "describe") or "--cancel" in words
    return looks and "--config" not in words


def shortened(words: list[str]) -> list[str]:
    """Let the command watch for a moment only, not for half a minute."""
    brief = [
        "1s" if before in {"--for", "--wait"} else word
        for before, word in zip(["", *words], words, strict=False)
    ]
    return [*brief, "--for", "1s"] if words[0] == "plan" and "--for" not in words else brief


@pytest.fixture(scope="module")
def application(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The stream `orders` with the rows of a first tick, and the tables of a KCL application."""
    folder = tmp_path_factory.mktemp("orders")
    with local_aws("--transition", "0") as served, pytest.MonkeyPatch.context() as patch:
        for name, value in served.environment.items():
            patch.setenv(name, value)
        file = folder / "headrace.yaml"
        file.write_text(SETTINGS)
        patch.setenv("HEADRACE_CONFIG", str(file))
        where = AwsSettings(region=served.region, endpoint=served.endpoint)
        kinesis_client(where).create_stream(StreamName="orders", ShardCount=2)
        DynamoTables(dynamodb_client(where), Settings(application="orders-consumer")).create()
        wire(read_settings(file, {}).settings).leader().tick(LeaderMemory())
        yield folder


@pytest.mark.usefixtures("joined_spark")
@pytest.mark.parametrize("words", harmless_commands(), ids=" ".join)
def test_a_command_that_changes_nothing_runs_as_the_documents_say(
    application: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    # No worker has read the shards of this application, so that they are further behind than any limit.
    expected = 1 if "--max-behind" in words else 0
    assert main(shortened(words)) == expected, capsys.readouterr()
