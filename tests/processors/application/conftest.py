"""A keeper of a test's own: that of the folder for temporary files holds the processes of other tests, too."""

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from headrace.pipeline.processors.application.kept import keeper_place
from tests.eventually import eventually
from tests.processors.application.worlds import ApplicationWorld


class OwnKeeper:
    def numbers(self) -> list[int]:
        """The process ids of the keeper: one, or none."""
        place, numbers = str(keeper_place()).encode(), []
        for folder in Path("/proc").iterdir():
            # Other processes of this machine may end while they are looked at.
            with suppress(OSError):
                if folder.name.isdigit() and place in (folder / "cmdline").read_bytes():
                    numbers.append(int(folder.name))
        return numbers

    def kill(self) -> None:
        for number in self.numbers():
            os.kill(number, signal.SIGKILL)
        # A killed process is there until the kernel has ended it.
        eventually(lambda: not self.numbers(), "the killed keeper is gone")


@pytest.fixture
def own_keeper(monkeypatch: pytest.MonkeyPatch) -> Iterator[OwnKeeper]:
    # Not below `tmp_path`: names of sockets are short.
    folder = tempfile.mkdtemp(prefix="hr-")
    monkeypatch.setattr(tempfile, "tempdir", folder)
    keeper = OwnKeeper()
    yield keeper
    keeper.kill()
    shutil.rmtree(folder)


@pytest.fixture
def keeping_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApplicationWorld]:
    """An application that keeps the instance of its one shard."""
    monkeypatch.setenv("RECORDED", str(tmp_path / "recorded"))
    world = ApplicationWorld(shards=1, log=tmp_path / "recorded", keeps=True)
    world.settle()
    yield world
    # A process that is still kept would wait for the next wave.
    world.stage.let_go(world.stage._kept.copy())  # type: ignore[attr-defined]
