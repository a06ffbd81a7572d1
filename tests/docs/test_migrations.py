"""The commands of docs/use/migrations.md do what the page says, in the order of the page."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.pipeline.aws.leases.leader_lock import DynamoLeaderLock
from headrace.pipeline.cli import main
from tests.docs.pages import ROOT
from tests.migrate.test_dynamo_migration import LOCK, Application, make_index

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

PAGE = (ROOT / "docs" / "use" / "migrations.md").read_text(encoding="utf-8")


def commands(section: str) -> Iterator[list[str]]:
    text = PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    for block in re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            yield shlex.split(line, comments=True)[1:]


@pytest.fixture
def app(dynamodb: "DynamoDBClient", tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Application:
    """An application of one worker of Headrace with the settings of the page."""
    app = Application(dynamodb, three_tables=True)
    settings = re.search(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert settings is not None
    file = tmp_path / "headrace.yaml"
    file.write_text(settings[1].replace("orders-consumer", app.name))
    monkeypatch.setenv("HEADRACE_CONFIG", str(file))
    monkeypatch.setattr("headrace.pipeline.aws.clients.clients.dynamodb_client", lambda _: dynamodb)
    monkeypatch.setattr("headrace.pipeline.clock.SystemClock", lambda: app.clock)
    make_index(app)
    return app


def own_all(app: Application) -> None:
    from tests.cli.kcl_tables import leases_of

    app.kcl.put(leases_of("w1", "w1"))
    app.beat()


def later(app: Application, minutes: int) -> None:
    from datetime import timedelta

    app.clock.advance(timedelta(minutes=minutes))
    app.beat()


def state(app: Application) -> str | None:
    facts = app.tables.look()
    return facts.table_status or facts.client_version


def test_the_migration_to_3x_goes_as_the_page_says(
    app: Application, capsys: pytest.CaptureFixture[str]
) -> None:
    own_all(app)
    show, begin, go_over, finish, back, forward = commands("From 2.x to 3.x")
    assert main(show) == 0
    assert (state(app), "add --yes" in capsys.readouterr().err) == (None, True)
    assert main(begin) == 0
    assert state(app) == "UPGRADE_FROM_2X"
    assert main(back) == 0
    assert state(app) == "2X"
    assert main(forward) == 0
    assert state(app) == "UPGRADE_FROM_2X"
    assert main(go_over) == 75
    later(app, 10)
    assert main(go_over) == 0
    assert state(app) == "3X_WITH_ROLLBACK"
    assert main(finish) == 75
    later(app, 24 * 60)
    assert main(finish) == 0
    assert state(app) == "3X"
    assert main(back) == 2


def test_three_tables_become_one_as_the_page_says(app: Application) -> None:
    own_all(app)
    assert DynamoLeaderLock(app.client, f"{app.name}-CoordinatorState").take(LOCK, seen=None)
    start, finish = commands("From three tables to one")
    assert main(start) == 0
    assert state(app) == "INIT"
    assert main(start) == 75
    later(app, 60)
    assert main(start) == 0
    assert state(app) == "DEPLOYED"
    assert main(start) == 0
    assert state(app) == "PENDING"
    later(app, 24 * 60)
    assert main(finish) == 0
    assert state(app) == "COMPLETE"


def test_status_tells_of_any_application_and_refusals_have_their_codes(
    app: Application, capsys: pytest.CaptureFixture[str]
) -> None:
    own_all(app)
    assert main(["migrate", "status", "--table", app.name]) == 0
    assert "isn't under way" in capsys.readouterr().out
    assert main(["migrate", "rollback", "--table", app.name, "--yes"]) == 2
    assert "no migration is under way" in capsys.readouterr().err
    assert main(["migrate", "start", "3.x", "--table", app.name, "--json"]) == 2
    assert "kcl.mode isn't migrating" in capsys.readouterr().err
