"""How shards are packed into tasks, and what a failed Spark job is taken for."""

from itertools import permutations

import pytest
from pyspark.errors import PySparkException

from pipeline.core.batch import Limits, Manifest
from pipeline.errors import BadSetting, MissingPackage, Transient
from pipeline.lake.session import spark_session
from pipeline.lake.stage import SparkStage, pack
from pipeline.settings import SparkSettings
from tests.lake.files import a_key
from tests.lake.stage_script import ROOMY, a_batch, a_spec, script


class _NoSession:
    """Fails as Spark's clients do when something is asked of it."""

    def __init__(self, text: str) -> None:
        self._text = text

    @property
    def sparkContext(self) -> object:
        raise PySparkException(self._text)


def _stage_failing_with(text: str) -> SparkStage:
    return SparkStage(lambda: _NoSession(text), script())  # type: ignore[arg-type, return-value]


def test_heavy_shards_are_spread_and_light_ones_fill_up():
    weights = [10, 1, 9, 1, 1, 8]

    tasks = pack([a_batch(n, weight=w) for n, w in enumerate(weights)], 3)

    assert sorted(sum(batch.weight for batch in task) for task in tasks) == [10, 10, 10]


def test_packing_doesnt_depend_on_the_order_of_the_batches():
    batches = [a_batch(n, weight=n % 3 + 1) for n in range(5)]

    packings = {str(pack(order, 2)) for order in permutations(batches)}

    assert len(packings) == 1


@pytest.mark.parametrize(
    ("weights", "most", "tasks"),
    [([1] * 10, 4, 4), ([1], 4, 1), ([0.1] * 10, 4, 1), ([5], 4, 1), ([0] * 3, 2, 1), ([1.5], 0, 1)],
)
def test_there_are_as_many_tasks_as_there_is_work_for(weights: list[float], most: int, tasks: int):
    packed = pack([a_batch(n, weight=w) for n, w in enumerate(weights)], most)

    assert len(packed) == tasks
    assert sorted(b.key for task in packed for b in task) == [a_key(n) for n in range(len(weights))]


def test_nothing_to_stage_asks_for_no_session():
    stage = SparkStage(lambda: pytest.fail("asked for a session"), script())

    assert stage.stage([], a_spec("unused"), ROOMY) == Manifest(())


def test_a_package_missing_on_a_worker_is_named():
    stage = _stage_failing_with("Traceback ...\nModuleNotFoundError: No module named 'msgspec'\n")

    with pytest.raises(
        MissingPackage, match=r"lacks the Python package 'msgspec'.*install it where Spark's workers run"
    ):
        stage.stage([a_batch()], a_spec("unused"), ROOMY)


def test_a_failed_job_is_one_sentence_and_may_be_tried_again():
    stage = _stage_failing_with(
        "Job aborted due to stage failure: ExecutorLostFailure\n\nDriver stacktrace:\n at org..."
    )

    with pytest.raises(Transient) as caught:
        stage.stage([a_batch()], a_spec("unused"), Limits(1, 1, 1.0))

    assert "ExecutorLostFailure" in str(caught.value)
    assert "nothing was committed" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_mistake_of_our_own_is_not_blamed_on_spark():
    def broken() -> None:
        raise ValueError("ours")

    stage = SparkStage(broken, script())  # type: ignore[arg-type]

    with pytest.raises(ValueError, match="ours"):
        stage.stage([a_batch()], a_spec("unused"), ROOMY)


def test_cancelling_when_nothing_runs_asks_for_no_session():
    asked: list[str] = []
    stage = SparkStage(lambda: asked.append("session"), script())  # type: ignore[arg-type, func-returns-value]

    stage.cancel()

    assert asked == []


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (SparkSettings(remote="sc://h:1", master="yarn"), "both set"),
        (SparkSettings(remote="http://h:1"), "may be sc://host:port"),
    ],
)
def test_a_spark_that_cant_be_reached_that_way_is_refused(settings: SparkSettings, why: str):
    with pytest.raises(BadSetting, match=why):
        spark_session(settings, "test")


@pytest.mark.parametrize("settings", [SparkSettings(), SparkSettings(master="local[1]")])
def test_without_java_one_line_says_how_to_get_it(settings: SparkSettings, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("JAVA_HOME", "/nowhere")

    with pytest.raises(BadSetting, match=r"Spark needs Java 17 or 21.*JAVA_HOME is /nowhere.*openjdk"):
        spark_session(settings, "test")
