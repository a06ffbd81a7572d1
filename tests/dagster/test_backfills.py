"""Hours of landed records are parsed again, or copied, by Dagster's own backfills."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.storage.tags import ASSET_PARTITION_RANGE_END_TAG, ASSET_PARTITION_RANGE_START_TAG

from headrace.assets.names import again_key, copies_key, parsed_key, records_key
from headrace.pipeline.building import build_definitions
from headrace.pipeline.core.ledger.arrivals import ALL
from headrace.pipeline.errors import Unreachable
from headrace.pipeline.settings.blocks.dagster import BackfillSettings, DagsterSettings
from headrace.pipeline.settings.choices import Period
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.typed.duplicates_plan import Comparison
from headrace.pipeline.typed.values import Parsed, WavePlan, Wishes
from headrace.pipeline.windows.window import Word
from headrace.pipeline.windows.windows import WindowRequest
from tests.dagster.backfills import WARNINGS_OF_DAGSTER, Backfills, backfills_of
from tests.lake.samples import STREAM
from tests.typed.parsings import SETTINGS as TARGET
from tests.typed.parsings import A, B, InProcess, good
from tests.windows.deployment import PortsOfBed, as_ports
from tests.windows.replacements import ReplaceBed
from tests.windows.windows import SETTINGS

pytestmark = [pytest.mark.slow, *(pytest.mark.filterwarnings(warning) for warning in WARNINGS_OF_DAGSTER)]

MIDNIGHT = datetime(2026, 1, 31, tzinfo=UTC)
HOURS = BackfillSettings(by=Period.HOUR, since=MIDNIGHT, copies=True)
APPLICATION = replace(SETTINGS, parse=(TARGET,), dagster=DagsterSettings(backfill=HOURS))
AGAIN, COPIES = again_key(APPLICATION, TARGET), copies_key(APPLICATION)
WRONG = {good(number): good(number + 100) for number in range(1, 50)}
"""How version 1 reads payloads."""


def key(hour: int) -> str:
    return f"2026-01-31-{hour:02}:00"


@dataclass(kw_only=True)
class _CutOff(InProcess):
    """A parser of which Spark is gone after so many waves."""

    after: int

    def parse(
        self, plan: WavePlan, wishes: Wishes, comparison: Comparison | None = None
    ) -> tuple[Parsed, int]:
        self.after -= 1
        if self.after < 0:
            raise Unreachable("Spark is gone")
        return super().parse(plan, wishes, comparison)


@dataclass(kw_only=True)
class _Between(InProcess):
    """A parser that has parsed a wave when something else happens, once."""

    between: Callable[[], None]

    def parse(
        self, plan: WavePlan, wishes: Wishes, comparison: Comparison | None = None
    ) -> tuple[Parsed, int]:
        parsed = super().parse(plan, wishes, comparison)
        self.between()
        return parsed


@dataclass
class Deployment:
    """Records 10, 11, 12 of shard A arrived in the hours 10, 11, 12, and 30 of shard B in hour 10. Version 1 has parsed them wrongly, and
    version 2 is in the settings."""

    bed: ReplaceBed
    ports: PortsOfBed
    settings: Settings
    backfills: Backfills

    def materialized(self, asset: dg.AssetKey) -> list[str]:
        return sorted(self.backfills.instance.get_materialized_partitions(asset))

    def materialize(self, asset: dg.AssetKey, first: str, last: str) -> dg.ExecuteInProcessResult:
        """A run of a range of hours, as the UI launches it beside all backfills."""
        repository = build_definitions(self.settings, ports=as_ports(self.ports)).get_repository_def()
        job = repository.get_implicit_job_def_for_assets([asset])
        assert job is not None
        tags = {ASSET_PARTITION_RANGE_START_TAG: first, ASSET_PARTITION_RANGE_END_TAG: last}
        return job.get_subset(asset_selection={asset}).execute_in_process(
            instance=self.backfills.instance, tags=tags, raise_on_error=False
        )

    def windows(self) -> list[str]:
        return [kept.window.how for kept in self.bed.windowing().windows.all()]


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    bed = ReplaceBed(tmp_path / "lake")
    bed.parser.fixes = WRONG
    for hour in (10, 11, 12):
        bed.land(A, {hour: good(hour)}, arrival=MIDNIGHT + timedelta(hours=hour, minutes=30))
    bed.land(B, {30: good(30)}, arrival=MIDNIGHT + timedelta(hours=10, minutes=20))
    bed.catch_up()
    bed.parser.fixes = {}
    bed.settings = replace(bed.settings, version="2")
    ports = PortsOfBed(bed, through={STREAM: MIDNIGHT + timedelta(hours=13)})
    # A wave for each record, so that a window has several.
    settings = replace(APPLICATION, parse=(bed.settings,), wave=replace(APPLICATION.wave, records=1))
    (tmp_path / "dagster").mkdir()
    with backfills_of(build_definitions(settings, ports=as_ports(ports)), tmp_path / "dagster") as backfills:
        yield Deployment(bed, ports, settings, backfills)


def test_a_backfill_of_an_hour_replaces_the_rows_of_the_records_that_arrived_in_it_and_no_other(
    deployment: Deployment,
):
    backfill = deployment.backfills.done([AGAIN], partitionNames=[key(10)])
    assert deployment.backfills.shown(backfill)["status"] == "COMPLETED_SUCCESS"
    assert deployment.bed.values() == {10: 10, 11: 111, 12: 112, 30: 30}
    assert deployment.materialized(AGAIN) == [key(10)]


def test_the_typed_tables_own_asset_tells_of_it_so_that_what_depends_on_it_is_started(deployment: Deployment):
    deployment.backfills.done([AGAIN], partitionNames=[key(10)])
    event = deployment.backfills.instance.get_latest_materialization_event(parsed_key(APPLICATION, TARGET))
    assert event is not None
    assert event.asset_materialization is not None
    assert event.asset_materialization.metadata["rows"].value == 2


def test_contiguous_hours_are_one_run_and_one_window(deployment: Deployment):
    backfill = deployment.backfills.done([AGAIN], partitionNames=[key(hour) for hour in (10, 11, 12)])
    assert len(deployment.backfills.runs(backfill)) == 1
    assert len(deployment.windows()) == 1
    assert deployment.bed.values() == {10: 10, 11: 11, 12: 12, 30: 30}
    assert deployment.materialized(AGAIN) == [key(10), key(11), key(12)]


def test_hours_that_arent_contiguous_are_a_run_for_each_range_of_them(deployment: Deployment):
    backfill = deployment.backfills.done([AGAIN], partitionNames=[key(10), key(12)])
    assert len(deployment.backfills.runs(backfill)) == 2
    assert deployment.bed.values() == {10: 10, 11: 111, 12: 12, 30: 30}


def test_what_the_present_code_has_parsed_is_left_as_it_is(deployment: Deployment):
    deployment.backfills.done([AGAIN], partitionNames=[key(10)])
    second = deployment.backfills.done([AGAIN], partitionNames=[key(10)])
    assert deployment.backfills.shown(second)["status"] == "COMPLETED_SUCCESS"
    assert len(deployment.windows()) == 1
    event = deployment.backfills.instance.get_latest_materialization_event(AGAIN)
    assert event is not None
    assert event.asset_materialization is not None
    assert "parsed with version 2" in str(event.asset_materialization.metadata["in short"].value)
    config = {"ops": {"__".join(AGAIN.path): {"config": {"again": True}}}}
    deployment.backfills.done([AGAIN], partitionNames=[key(10)], runConfigData=config)
    assert len(deployment.windows()) == 2


def test_an_hour_into_which_more_records_may_come_is_refused_with_a_sentence(deployment: Deployment):
    backfill = deployment.backfills.done([AGAIN], partitionNames=[key(13)])
    (run,) = deployment.backfills.runs(backfill)
    assert "more records may come into the hour 2026-01-31-13:00" in deployment.backfills.why(run)
    assert "complete up to 2026-01-31 13:00:00 UTC" in deployment.backfills.why(run)
    assert deployment.windows() == []
    config = {"ops": {"__".join(AGAIN.path): {"config": {"incomplete": True}}}}
    late = deployment.backfills.done([AGAIN], partitionNames=[key(12), key(13)], runConfigData=config)
    assert deployment.backfills.shown(late)["status"] == "COMPLETED_SUCCESS"
    assert deployment.bed.values()[12] == 12


def test_of_a_range_the_complete_hours_are_done_and_the_others_stay_open(deployment: Deployment):
    backfill = deployment.backfills.done([AGAIN], partitionNames=[key(12), key(13)])
    (run,) = deployment.backfills.runs(backfill)
    assert "more records may come into 1 partition" in deployment.backfills.why(run)
    assert deployment.bed.values()[12] == 12
    assert deployment.materialized(AGAIN) == [key(12)]


def test_an_hour_before_the_first_record_is_refused_and_is_done_if_asked_for_with_others(
    deployment: Deployment,
):
    alone = deployment.backfills.done([AGAIN], partitionNames=[key(3)])
    (run,) = deployment.backfills.runs(alone)
    assert "the first landed record arrived at 2026-01-31 10:20 UTC" in deployment.backfills.why(run)
    deployment.backfills.done([AGAIN], partitionNames=[key(hour) for hour in range(8, 11)])
    assert deployment.materialized(AGAIN) == [key(8), key(9), key(10)]


def test_a_backfill_goes_on_where_the_run_of_an_earlier_one_was_cut_off(deployment: Deployment):
    parser = deployment.bed.parser
    hours = [key(hour) for hour in (10, 11, 12)]
    deployment.bed.parser = _CutOff(bed=deployment.bed, after=2)
    cut = deployment.backfills.done([AGAIN], partitionNames=hours)
    assert deployment.backfills.shown(cut)["status"] == "COMPLETED_FAILED"
    assert (
        list(deployment.bed.values().values()).count(111) + list(deployment.bed.values().values()).count(112)
        > 0
    )
    deployment.bed.parser = parser
    deployment.backfills.done([AGAIN], partitionNames=hours)
    assert len(deployment.windows()) == 1
    assert deployment.bed.values() == {10: 10, 11: 11, 12: 12, 30: 30}


def test_a_run_of_hours_that_failed_goes_on_with_its_window_when_a_person_executes_it_again(
    deployment: Deployment,
):
    parser, hours = deployment.bed.parser, [key(hour) for hour in (10, 11, 12)]
    deployment.bed.parser = _CutOff(bed=deployment.bed, after=2)
    (failed,) = deployment.backfills.runs(deployment.backfills.done([AGAIN], partitionNames=hours))
    deployment.bed.parser = parser
    again = deployment.backfills.executed_again(failed.run_id, "ALL_STEPS")
    assert again.status == dg.DagsterRunStatus.SUCCESS
    assert len(deployment.windows()) == 1
    assert deployment.bed.values() == {10: 10, 11: 11, 12: 12, 30: 30}
    assert deployment.materialized(AGAIN) == hours


def test_of_two_runs_that_replace_the_same_hours_at_once_each_record_is_replaced_once_and_the_late_one_says_so(
    deployment: Deployment,
):
    hours = [key(hour) for hour in (10, 11, 12)]
    parser = deployment.bed.parser
    other: list[dg.ExecuteInProcessResult] = []

    def launch() -> None:
        other.append(deployment.materialize(AGAIN, hours[0], hours[-1]))

    def in_between() -> None:
        deployment.bed.parser = parser
        # In a thread: Dagster's server can't be asked from within a run's own loop of asyncio.
        with ThreadPoolExecutor(1) as executor:
            executor.submit(launch).result()

    deployment.bed.parser = _Between(bed=deployment.bed, between=in_between)
    mine = deployment.backfills.done([AGAIN], partitionNames=hours)
    (late,) = deployment.backfills.runs(mine)
    assert len(deployment.windows()) == 1
    assert deployment.bed.values() == {10: 10, 11: 11, 12: 12, 30: 30}
    assert deployment.bed.parsing().settling.is_settled()
    assert (other[0].success, late.status) == (True, dg.DagsterRunStatus.SUCCESS)
    said = {entry.user_message for entry in deployment.backfills.instance.all_logs(late.run_id)}
    assert "nothing left to replace" in said


def test_a_window_that_other_code_has_begun_isnt_gone_on_with(deployment: Deployment):
    bed = deployment.bed
    window = bed.windowing().plan(
        WindowRequest(ALL, how="ranges of these hours, by version 1", target=TARGET.name)
    )
    bed.windowing().windows.keep(window)
    deployment.backfills.done([AGAIN], partitionNames=[key(10)])
    done = {each.window.id: each.is_done for each in bed.windowing().windows.all()}
    assert not done[window.id]
    assert len(done) == 2


def test_copies_of_hours_are_in_a_table_of_their_own_and_are_made_once(deployment: Deployment):
    bed = deployment.bed
    deployment.backfills.done([COPIES], partitionNames=[key(10), key(11)])
    deployment.backfills.done([COPIES], partitionNames=[key(10), key(11)])
    (kept,) = bed.windowing().windows.all()
    assert len(bed.copied(kept.window)) == 3
    assert deployment.materialized(COPIES) == [key(10), key(11)]
    bed.windowing().say(kept.window.id, Word.CANCELLED)
    deployment.backfills.done([COPIES], partitionNames=[key(10), key(11)])
    assert len(bed.windowing().windows.all()) == 2


def test_a_partition_that_there_isnt_is_refused_before_the_launch(deployment: Deployment):
    for strange in ("2019-01-31-10:00", "2099-01-31-10:00", "noon"):
        answer = deployment.backfills.launch([AGAIN], partitionNames=[strange])
        assert answer["__typename"] != "LaunchBackfillSuccess"
    assert deployment.backfills.instance.get_backfills() == []


def test_a_wrong_config_starts_nothing_and_the_backfill_says_which_field(deployment: Deployment):
    config = {"ops": {"__".join(AGAIN.path): {"config": {"agian": True}}}}
    backfill = deployment.backfills.started([AGAIN], partitionNames=[key(10)], runConfigData=config)
    with pytest.raises(AssertionError, match='unexpected config entry "agian"'):
        deployment.backfills.tick()
    deployment.backfills.tick()
    shown = deployment.backfills.shown(backfill)
    assert (shown["status"], deployment.backfills.runs(backfill)) == ("FAILED", [])
    assert 'unexpected config entry "agian"' in shown["error"]["message"]
    assert deployment.windows() == []


def test_materialize_all_by_the_shards_of_the_records_replays_no_hour(deployment: Deployment):
    instance = deployment.backfills.instance
    instance.add_dynamic_partitions(f"{APPLICATION.application}_shards", [A.shard_id])
    assets = [records_key(APPLICATION), AGAIN, COPIES]
    backfill = deployment.backfills.started(assets, partitionNames=[A.shard_id])
    assert deployment.backfills.shown(backfill)["numPartitions"] in (1, None)
    data = instance.get_backfill(backfill)
    assert data is not None
    assert data.asset_backfill_data is not None
    targets = data.asset_backfill_data.target_subset.partitions_subsets_by_asset_key
    assert [asset for asset, subset in targets.items() if not subset.is_empty] == [records_key(APPLICATION)]
