"""Commands that change a table leave an event on its asset where a Dagster is at hand."""

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from headrace.pipeline.cli import main
from headrace.pipeline.cli.beside.told_dagster import tell_dagster
from headrace.pipeline.duties.waves.report import Landed
from headrace.pipeline.settings.file import parse_settings
from headrace.pipeline.typed.done_wave import Does, Wave
from tests.dagster.partition_status import partition_statuses
from tests.duties.scripted_waves import landed
from tests.typed.parsings import BAD, A, Bed, good

SETTINGS = """
application: told
streams: [{{name: orders}}]
aws: {{region: eu-west-1}}
landing: {{home: {home}}}
parse:
  - {{name: orders, table: lake.orders, schema: "id BIGINT, name STRING", version: "1"}}
"""
ORDERS = dg.AssetKey(["told", "lake", "orders"])
RECORDS = dg.AssetKey(["told", "records"])
WAVE = Wave(Does.PARSE, rows=4, landed=3, snapshot=7)


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "headrace.yaml"
    file.write_text(SETTINGS.format(home=tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HEADRACE_CONFIG", raising=False)
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    return file


@pytest.fixture
def instance(config: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dg.DagsterInstance]:
    home = config.parent / "dagster"
    home.mkdir()
    (home / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    with dg.DagsterInstance.from_config(str(home)) as found:
        yield found


def events(instance: dg.DagsterInstance, key: dg.AssetKey = ORDERS) -> list[dict[str, object]]:
    """The metadata of the materializations, oldest first."""
    found = instance.fetch_materializations(key, limit=100).records
    made = [record.asset_materialization for record in found if record.asset_materialization][::-1]
    return [{name: value.value for name, value in each.metadata.items()} for each in made]


def _parsed(config: Path, *waves: Wave) -> None:
    settings = parse_settings(config.read_text(), {}, name=str(config)).settings
    tell_dagster(
        config, settings, lambda changes: changes.by_parsing(settings, settings.parse[0], list(waves))
    )


@pytest.mark.usefixtures("joined_spark")
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
def test_what_parse_and_redrive_change_is_an_event_on_the_typed_tables_asset(
    config: Path, instance: dg.DagsterInstance, capsys: pytest.CaptureFixture[str]
):
    bed = Bed(config.parent / "home")
    wrong = b'{"id": "two", "name": "n2"}'
    bed.land(A, {1: good(1), 2: wrong, 3: BAD})
    assert main(["parse"]) == 0
    (made,) = events(instance)
    assert {name: made[name] for name in ("rows", "quarantined", "behind", "table")} == {
        "rows": 1,
        "quarantined": 2,
        "behind": False,
        "table": "lake.orders",
    }
    assert main(["parse"]) == 0
    config.write_text(config.read_text().replace("id BIGINT, name STRING", "name STRING"))
    assert main(["redrive", "--dry-run"]) == 0
    assert len(events(instance)) == 1, "nothing was changed by these two"

    assert main(["redrive"]) == 0

    assert events(instance)[1] == {
        "parsed again": 2,
        "mended": 1,
        "left quarantine": 1,
        "still set aside": 1,
        "portions": 1,
    }
    assert "Dagster" not in capsys.readouterr().err


def test_what_depends_on_a_typed_table_is_asked_for_after_the_command(
    config: Path, instance: dg.DagsterInstance
):
    @dg.asset(deps=[ORDERS], automation_condition=dg.AutomationCondition.eager())
    def report() -> None: ...

    defs = dg.Definitions(assets=[report, dg.AssetSpec(ORDERS)])
    before = dg.evaluate_automation_conditions(defs, instance)
    assert before.total_requested == 0
    _parsed(config, WAVE)
    after = dg.evaluate_automation_conditions(defs, instance, cursor=before.cursor)
    assert after.total_requested == 1


def test_without_a_dagster_nothing_is_made_and_nothing_is_said(
    config: Path, capsys: pytest.CaptureFixture[str]
):
    _parsed(config, WAVE)
    assert sorted(file.name for file in config.parent.iterdir()) == ["headrace.yaml"]
    assert capsys.readouterr() == ("", "")


def test_the_dagster_that_headrace_dev_keeps_beside_the_settings_is_told(config: Path):
    home = config.parent / ".dagster"
    home.mkdir()
    (home / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    _parsed(config, WAVE)
    with dg.DagsterInstance.from_config(str(home)) as instance:
        assert [made["rows"] for made in events(instance)] == [3]


@pytest.mark.parametrize(
    ("content", "why"), [("nonsense: 7\n", "DagsterInvalidConfigError"), (None, "FileNotFoundError")]
)
def test_a_dagster_that_cant_be_told_is_a_note_and_no_failure(
    config: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    content: str | None,
    why: str,
):
    home = config.parent / "broken"
    if content is not None:
        home.mkdir()
        (home / "dagster.yaml").write_text(content)
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    _parsed(config, WAVE)
    said = capsys.readouterr().err
    assert said.startswith(f"Dagster in {home} wasn't told of this change ({why}")
    assert "The tables are as the command says" in said


def test_shards_that_consume_has_read_are_materialized_also_where_dagster_lacks_the_partition(
    config: Path, instance: dg.DagsterInstance
):
    settings = parse_settings(config.read_text(), {}, name=str(config)).settings
    last: dict[str, Landed] = {"shardId-000000000000": landed(), "shardId-000000000001": landed()}
    counts = {"shardId-000000000000": (5, 5), "shardId-000000000001": (0, 0)}
    tell_dagster(config, settings, lambda changes: changes.by_reading(settings, last, counts))
    shards = dg.DynamicPartitionsDefinition(name="told_shards")
    assert partition_statuses(instance, shards, RECORDS) == {"MATERIALIZED": ["shardId-000000000000"]}
    assert [made["rows"] for made in events(instance, RECORDS)] == [5]


PROOF, UPKEEP = dg.AssetKey(["told", "proof"]), dg.AssetKey(["told", "upkeep"])


@pytest.mark.usefixtures("joined_spark")
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
def test_a_proof_and_an_upkeep_are_events_on_their_own_assets(config: Path, instance: dg.DagsterInstance):
    Bed(config.parent / "home").land(A, {1: good(1), 2: good(2)})
    assert main(["upkeep", "--dry-run"]) == 0
    assert events(instance, UPKEEP) == [], "a dry run is no upkeep"
    assert main(["upkeep"]) == 0
    (kept,) = events(instance, UPKEEP)
    assert {"in short", "files compacted"} <= kept.keys()

    assert main(["prove", "--from", "2026-01-01T00:00:00Z"]) == 0
    assert events(instance, PROOF) == [], "a proof of some hours says nothing of the others"
    assert main(["prove"]) == 0
    (proved,) = events(instance, PROOF)
    assert (proved["records proved"], proved["mistakes"]) == (2, 0)
