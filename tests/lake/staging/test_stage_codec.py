"""What is sent between Spark's driver and executors, and the zip file that executors import."""

import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from zipfile import ZipFile

import msgspec
import pytest

from headrace.pipeline.core.ledger.batch import Batch, Manifest
from headrace.pipeline.core.ledger.ledger import ParentIs, ParentReason
from headrace.pipeline.core.shards.position import Position, Start
from headrace.pipeline.errors import WrongShape
from headrace.pipeline.lake.spark import engine_zip as ship
from headrace.pipeline.lake.staging.stage_codec import (
    decode,
    encode,
)
from tests.lake.samples import NOON, a_key
from tests.lake.stage_script import DAY, a_batch, a_page, script, stage

_HUGE = 49_664_278_173_267_300_919_209_422_211_173_581_000_000_000_000_000_000_001


def test_a_batch_arrives_as_it_was_sent():
    sent = (
        a_batch(),
        Batch(
            a_key(1),
            Position(
                _HUGE, 3, children=("shardId-000000000009",), arrival=NOON, seen=NOON, start=Start(NOON)
            ),
            Start(NOON),
            NOON,
            timedelta(days=365, seconds=1),
            (ParentReason("shardId-000000000000", ParentIs.BEFORE_START),),
            weight=0.25,
        ),
    )

    assert decode(encode(sent), tuple[Batch, ...]) == sent


def test_a_manifest_arrives_as_it_was_sent(tmp_path: Path):
    pages = script(s0=[a_page(_HUGE, children=("shardId-000000000001",))], s1=[OSError("x")])
    sent = stage([a_batch(), a_batch(1, _HUGE, witness=NOON - DAY / 2)], pages, tmp_path)
    assert sent.files

    assert decode(encode(sent), Manifest) == sent


def test_the_error_for_data_of_another_version_names_it():
    other = msgspec.json.encode({"version": 2, "content": {"new": "form"}})

    with pytest.raises(WrongShape, match="different versions of Headrace"):
        decode(other, Manifest)


@pytest.mark.parametrize(
    "text", [b"", b"{", b"[]", b'{"version":1,"content":{"staged":7}}', b"\x80\x04pickle"]
)
def test_invalid_data_is_refused_with_a_sentence(text: bytes):
    with pytest.raises(WrongShape, match="Nothing was committed"):
        decode(text, Manifest)


def test_the_zip_holds_the_modules_that_executors_import_and_no_others():
    with ZipFile(ship.engine_zip()) as archive:
        names = set(archive.namelist())

    assert {
        "headrace/pipeline/__init__.py",
        "headrace/pipeline/errors.py",
        "headrace/pipeline/ports/landing.py",
        "headrace/pipeline/typed/tasks/write.py",
        "headrace/pipeline/core/ledger/batch.py",
        "headrace/pipeline/kcl/cpu.py",
        "headrace/pipeline/aws/reading/pages.py",
        "headrace/pipeline/lake/staging/stage_task.py",
    } <= names
    sources = {name for name in names if name.endswith(".py")}
    assert names == sources | {f"{source}c" for source in sources}
    assert not [
        name
        for name in names
        if name.startswith(
            (
                "headrace/pipeline/local/",
                "headrace/pipeline/cli/",
                "headrace/pipeline/app/",
                "headrace/pipeline/beside_kcl/",
                "headrace/assets",
            )
        )
    ]


def test_every_module_in_the_zip_can_be_imported_from_the_zip_alone():
    """Executors don't have this project installed."""
    zipped = ship.engine_zip()
    with ZipFile(zipped) as archive:
        modules = sorted(
            name.removesuffix("/__init__.py").removesuffix(".py").replace("/", ".")
            for name in archive.namelist()
            if name.endswith(".py")
        )
    told = (
        f"import sys; sys.path.insert(0, {str(zipped)!r})\n"
        f"import importlib, headrace; assert headrace.__file__.startswith({str(zipped)!r})\n"
        f"for name in {modules!r}: importlib.import_module(name)"
    )
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("executor", ["with the driver's Python", "with another Python"])
def test_an_executor_imports_compiled_modules_unless_its_python_has_another_version(executor: str):
    other = (
        ""
        if executor.startswith("with the driver's")
        else "import importlib._bootstrap_external as b; b.MAGIC_NUMBER = b'none'\n"
    )
    told = (
        f"import sys\n{other}sys.path.insert(0, {str(ship.engine_zip())!r})\n"
        "import headrace.pipeline.core.ledger.batch as batch; print(batch.__file__)"
    )
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)

    assert done.stdout.strip().endswith("batch.pyc" if not other else "batch.py")


def test_a_worker_of_staging_loads_neither_pyiceberg_nor_pandas_nor_boto3():
    """Each new worker pays for its imports: these three took a second and a half of CPU."""
    told = (
        "import sys, headrace.pipeline.lake.staging.stage_task, headrace.pipeline.lake.staging.host_load, headrace.pipeline.lake.staging.stage_codec, headrace.pipeline.aws.reading.pages_client as c\n"
        "c.reader_client(c.KinesisAccess('eu-west-1'))\n"
        "print([name for name in ('pyiceberg', 'pandas', 'boto3') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=False)

    assert (done.stdout.strip(), done.returncode) == ("[]", 0), done.stderr


def test_equal_content_gives_the_same_zip_and_other_content_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    package = tmp_path / "headrace"
    for room in (name for name in ship._EXECUTORS_NEED if not name.endswith(".py")):
        (package / room).mkdir(parents=True)
    for name in (
        *(name for name in ship._EXECUTORS_NEED if name.endswith(".py")),
        "pipeline/core/batch.py",
    ):
        (package / name).write_text("a = 1\n")
    monkeypatch.setattr(ship, "_PACKAGE", package)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def zipped() -> Path:
        ship.engine_name.cache_clear()
        return ship.engine_zip.__wrapped__()

    first = zipped()
    first.unlink()
    again = zipped()
    (package / "pipeline" / "core" / "batch.py").write_text("a = 2\n")
    changed = zipped()

    monkeypatch.undo()
    ship.engine_name.cache_clear()
    assert first.name == again.name != changed.name


def test_an_empty_manifest_can_be_sent():
    assert decode(encode(Manifest(())), Manifest) == Manifest(())
