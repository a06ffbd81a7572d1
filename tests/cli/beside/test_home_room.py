"""A DAGSTER_HOME without room, or without the right to write, is told in a sentence before Dagster is started."""

import resource
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.pipeline.cli.beside.holding import Holder, home_held
from headrace.pipeline.cli.beside.home_room import HomeRoom
from headrace.pipeline.doctor.case import Case
from headrace.pipeline.doctor.dagster_home import dagster_is_set_up
from headrace.pipeline.doctor.diagnosis import Health
from headrace.pipeline.errors import BadSetting, Unreachable
from headrace.resources.home_room import ROOM, why_no_room, why_refused

HOLDER = Holder(command="headrace dev")


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> None:
    usage = type(shutil.disk_usage("/"))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**9, 10**9 - 300_000, 300_000))


@pytest.fixture
def readonly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)


@contextmanager
def a_quota(most: int) -> Iterator[None]:
    """Files of this process may not be larger than that."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.usefixtures("full")
def test_a_full_home_is_refused_before_dagster_is_started(tmp_path: Path):
    with (
        pytest.raises(
            Unreachable, match=r"is full: its disk has 0\.3 MB left, and Dagster needs 20 MB\. Nothing"
        ),
        home_held(tmp_path, HOLDER),
    ):
        raise AssertionError("it was held")
    assert [file.stat().st_size for file in tmp_path.iterdir()] == [0], "the lock alone"


def test_a_home_whose_quota_is_used_up_is_refused(tmp_path: Path):
    assert why_refused(tmp_path) is None
    with a_quota(100_000):
        assert why_refused(tmp_path) == "a file of 1 MB can't be written there (File too large)"
    assert list(tmp_path.iterdir()) == [], "nothing of the probe is left"


@pytest.mark.usefixtures("readonly")
def test_a_home_that_this_user_may_not_write_is_a_matter_for_a_person(tmp_path: Path):
    with pytest.raises(BadSetting, match="can't be written by this user"), home_held(tmp_path, HOLDER):
        raise AssertionError("it was held")


def test_a_home_that_is_gone_is_told_and_ends_nothing(tmp_path: Path):
    assert why_no_room(tmp_path / "gone") == "it can't be looked at (No such file or directory)"


def test_that_there_is_no_room_is_said_once_and_that_there_is_room_again_too(tmp_path: Path):
    free, said = [10 * ROOM], list[str]()

    def why(_home: Path, needed: int) -> str | None:
        return None if free[-1] >= needed else "too little"

    room = HomeRoom(tmp_path, said.append, why)
    room.look()
    assert said == []
    for some in (ROOM - 1, ROOM - 2, ROOM + 1):
        free.append(some)
        room.look()
    (sentence,) = said
    assert sentence.startswith(f"DAGSTER_HOME {tmp_path} is full: too little. ")
    for some in (2 * ROOM, 3 * ROOM):
        free.append(some)
        room.look()
    assert said[1:] == [f"DAGSTER_HOME {tmp_path} has room again"]


@pytest.mark.usefixtures("readonly")
def test_the_doctor_calls_a_home_that_cant_be_written_by_its_name(tmp_path: Path):
    (tmp_path / "dagster.yaml").touch()
    (diagnosis,) = dagster_is_set_up(Case.of(None, {"DAGSTER_HOME": str(tmp_path)}))
    assert diagnosis.health is Health.ILL
    assert (
        f"DAGSTER_HOME {tmp_path} can't be written by this user, or its file system is read-only"
        in diagnosis.sentence
    )
    assert "storage" not in diagnosis.advice


@pytest.mark.usefixtures("full")
def test_the_doctor_calls_a_home_without_room_full(tmp_path: Path):
    (tmp_path / "dagster.yaml").touch()
    (diagnosis,) = dagster_is_set_up(Case.of(None, {"DAGSTER_HOME": str(tmp_path)}))
    assert (diagnosis.health, "is full" in diagnosis.sentence) == (Health.ILL, True)
