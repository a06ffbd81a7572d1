"""How shards are shared out to tasks, and which error a failed Spark job becomes."""

from datetime import timedelta
from itertools import permutations
from unittest.mock import Mock

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import PySparkException

from headrace.pipeline.core.landing.pace import MOST_BYTES, MOST_RECORDS
from headrace.pipeline.core.ledger.batch import BatchLimits, HostLoad, Manifest, Staged
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.errors import BadSetting, MissingPackage, Transient
from headrace.pipeline.lake.spark.session import spark_session
from headrace.pipeline.lake.staging.stage import SparkStage, pack, shares_of, tasks_within
from headrace.pipeline.lake.staging.stage_codec import encode
from headrace.pipeline.ports.staging import OnWaiting
from headrace.pipeline.settings.model import SparkSettings
from tests.lake.samples import a_key
from tests.lake.stage_script import ROOMY, a_batch, a_spec, script


class _NoSession:
    """A Spark session that fails at any use, as Spark's clients do."""

    def __init__(self, text: str) -> None:
        self._text = text

    @property
    def sparkContext(self) -> object:
        raise PySparkException(self._text)


def _stage_failing_with(text: str) -> SparkStage:
    return SparkStage(lambda _: _NoSession(text), script)  # type: ignore[arg-type, return-value]


def test_heavy_shards_are_spread_over_tasks_and_light_ones_added():
    weights = [10, 1, 9, 1, 1, 8]

    tasks = pack([a_batch(n, weight=w) for n, w in enumerate(weights)], 3)

    assert sorted(sum(batch.weight for batch in task) for task in tasks) == [10, 10, 10]


def test_the_shares_dont_depend_on_the_order_of_the_batches():
    batches = [a_batch(n, weight=n % 3 + 1) for n in range(5)]

    packings = {str(pack(order, 2)) for order in permutations(batches)}

    assert len(packings) == 1


@pytest.mark.parametrize(
    ("weights", "most", "tasks"),
    [([1] * 10, 4, 4), ([1], 4, 1), ([0.1] * 10, 4, 1), ([5], 4, 1), ([0] * 3, 2, 1), ([1.5], 0, 1)],
)
def test_the_number_of_tasks_depends_on_the_amount_of_work(weights: list[float], most: int, tasks: int):
    packed = pack([a_batch(n, weight=w) for n, w in enumerate(weights)], most)

    assert len(packed) == tasks
    assert sorted(b.key for task in packed for b in task) == [a_key(n) for n in range(len(weights))]


@given(
    weights=st.lists(st.floats(0, 100), min_size=1, max_size=12),
    most=st.integers(1, 8),
    records=st.integers(1, 200_000),
    size=st.integers(1, 2**28),
)
def test_all_tasks_together_read_at_most_one_page_more_than_the_waves_limits(
    weights: list[float], most: int, records: int, size: int
):
    limits = BatchLimits(records, size, 60.0)
    packed = pack([a_batch(n, weight=w) for n, w in enumerate(weights)], min(most, tasks_within(limits)))

    shares = shares_of(packed, limits)

    # A task begins its last page with at least one record and one byte of its share left.
    assert all(share.records > 0 and share.bytes > 0 for share in shares)
    assert sum(share.records for share in shares) * 2 >= records
    assert sum(share.bytes for share in shares) * 2 >= size
    assert sum(share.records - 1 + MOST_RECORDS for share in shares) <= records + MOST_RECORDS
    assert sum(share.bytes - 1 + MOST_BYTES for share in shares) <= size + MOST_BYTES


def test_without_batches_no_session_is_made():
    stage = SparkStage(lambda _: pytest.fail("asked for a session"), script)

    assert stage.stage([], a_spec("unused"), ROOMY) == Manifest(())


def test_the_error_for_a_package_missing_on_a_spark_worker_names_it():
    stage = _stage_failing_with("Traceback ...\nModuleNotFoundError: No module named 'msgspec'\n")

    with pytest.raises(
        MissingPackage,
        match=r"lacks the Python package 'msgspec'.*Install the package where Spark's workers run",
    ):
        stage.stage([a_batch()], a_spec("unused"), ROOMY)


def test_a_failed_job_is_one_sentence_and_may_be_tried_again():
    stage = _stage_failing_with(
        "Job aborted due to stage failure: ExecutorLostFailure\n\nDriver stacktrace:\n at org..."
    )

    with pytest.raises(Transient) as caught:
        stage.stage([a_batch()], a_spec("unused"), BatchLimits(1, 1, 1.0))

    assert "ExecutorLostFailure" in str(caught.value)
    assert "Nothing was committed" in str(caught.value)
    assert "\n" not in str(caught.value)


_CLASSIC_DIED = """An error occurred while calling o60.getResult.
: org.apache.spark.SparkException: Exception thrown in awaitResult:
\tat org.apache.spark.util.SparkThreadUtils$.awaitResult(SparkThreadUtils.scala:54)
Caused by: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 1 times, \
most recent failure: Lost task 0.0 in stage 0.0 (TID 0) (192.0.2.2 executor driver): \
org.apache.spark.SparkException: Python worker exited unexpectedly (crashed). Consider setting 'x' to 'true'.
\tat org.apache.spark.api.python.BasePythonRunner
Caused by: java.io.EOFException
\t... 24 more
"""
_CONNECT_RAISED = """
  An exception was thrown from the Python worker. Please see the stack trace below.
[PYTHON_EXCEPTION] An exception was thrown from the Python worker: Traceback (most recent call last):
  File "stage.py", line 122, in work
    manifest = stage_batches(
               ^^^^^^^^^^^^^^
MemoryError: no more
 SQLSTATE: 38000
"""
_CONNECT_CANCELLED = """(org.apache.spark.SparkSQLException) [OPERATION_CANCELED] Operation has been canceled.

JVM stacktrace:
org.apache.spark.SparkSQLException
"""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (_CLASSIC_DIED, "Python worker exited unexpectedly (crashed)"),
        (_CONNECT_RAISED, "MemoryError: no more"),
        (_CONNECT_CANCELLED, "the job was cancelled"),
        ("", "Spark gave no reason"),
    ],
)
def test_the_sentence_says_why_the_spark_worker_died(text: str, told: str):
    with pytest.raises(Transient) as caught:
        _stage_failing_with(text).stage([a_batch()], a_spec("unused"), ROOMY)

    assert f"failed: {told}. Nothing was committed" in str(caught.value)


def test_a_shard_without_a_result_from_spark_is_an_error():
    session = Mock()
    told = pa.table({"manifest": [encode(Manifest((Staged(a_key(0), None, Position()),)))]})
    session.range.return_value.mapInArrow.return_value.toArrow.return_value = told

    with pytest.raises(Transient, match=r"the Spark job returned 1 of 2 shards\. Nothing was committed"):
        SparkStage(lambda _: session, script).stage([a_batch(0), a_batch(1)], a_spec("unused"), ROOMY)


def test_every_task_reports_the_load_of_its_host():
    session = Mock()
    loads = [HostLoad(host, timedelta(seconds=30), 12.5, 0.25) for host in ("host-1", "host-2")]
    tasks = [Manifest((Staged(a_key(n), None, Position()),), loads=(load,)) for n, load in enumerate(loads)]
    told = pa.table({"manifest": [encode(manifest) for manifest in tasks]})
    session.range.return_value.mapInArrow.return_value.toArrow.return_value = told

    manifest = SparkStage(lambda _: session, script).stage([a_batch(0), a_batch(1)], a_spec("unused"), ROOMY)

    assert manifest.loads == tuple(loads)


def test_an_error_in_headraces_own_code_isnt_reported_as_sparks():
    def raise_an_own_error(_on_waiting: OnWaiting) -> None:
        raise ValueError("a mistake in Headrace")

    stage = SparkStage(raise_an_own_error, script)  # type: ignore[arg-type]

    with pytest.raises(ValueError, match="a mistake in Headrace"):
        stage.stage([a_batch()], a_spec("unused"), ROOMY)


def test_cancelling_without_a_job_makes_no_session():
    asked = Mock()

    SparkStage(asked, script).cancel()

    asked.assert_not_called()


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (SparkSettings(remote="sc://h:1", master="yarn"), "both set"),
        (SparkSettings(remote="http://h:1"), "may be sc://host:port"),
    ],
)
def test_a_setting_by_which_spark_cant_be_reached_is_refused(settings: SparkSettings, why: str):
    with pytest.raises(BadSetting, match=why):
        spark_session(settings, "test")


@pytest.mark.parametrize("settings", [SparkSettings(), SparkSettings(master="local[1]")])
def test_without_java_one_line_says_how_to_get_it(settings: SparkSettings, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("JAVA_HOME", "/nowhere")

    with pytest.raises(BadSetting, match=r"Spark needs Java 17 or newer.*JAVA_HOME is /nowhere.*openjdk"):
        spark_session(settings, "test")
