"""With `imports: shared` the processes of a host are forks of one process that has imported the user's module."""

import json
import os
import resource
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.pipeline.processors.application.importing import ForkedProcess
from headrace.pipeline.processors.application.kept import KeptLines, begun, met
from headrace.pipeline.processors.application.places import log_of
from headrace.pipeline.processors.child import ChildFailed, ProcessorChild
from headrace.pipeline.processors.values import ChildSpec
from tests.eventually import eventually
from tests.processors.application.conftest import OwnKeeper
from tests.processors.application.test_keeper import is_there
from tests.processors.application.worlds import CODE

MODULE = Path(CODE, "loading.py").read_bytes()
RECORDS: dict[str, Any] = {"action": "processRecords", "records": [], "millisBehindLatest": None}


@pytest.fixture
def spec(own_keeper: OwnKeeper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ChildSpec:
    monkeypatch.setenv("RECORDED", str(tmp_path / "recorded"))
    return ChildSpec(code="loading:Loading", files={"loading.py": MODULE}, shares_imports=True)


def initialize(lines: KeptLines, shard: str) -> None:
    lines.say(
        {
            "action": "initialize",
            "shardId": shard,
            "sequenceNumber": "TRIM_HORIZON",
            "subSequenceNumber": 0,
        }
    )
    assert lines.hear(within=60)["responseFor"] == "initialize"


def recorded(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "recorded").read_text().splitlines()]


def begin_all(spec: ChildSpec, folder: Path, *shards: str) -> list[dict[str, Any]]:
    for shard in shards:
        with begun(folder / shard, spec, grace=0) as lines:
            initialize(lines, shard)
            lines.keep(shard)
    return recorded(folder)


def test_the_module_is_imported_once_and_its_memory_is_that_of_all(spec: ChildSpec, tmp_path: Path):
    facts = begin_all(spec, tmp_path, "a", "b", "c")
    assert len({fact["process"] for fact in facts}) == 3
    (importer,) = {fact["imported_by"] for fact in facts}
    assert is_there(importer)
    for fact in facts:
        assert fact["group"] == fact["process"], "what it starts ends with it, and no Ctrl-C reaches it"
        own = Path(f"/proc/{fact['process']}/smaps_rollup").read_text().split("Private_Dirty:")[1].split()[0]
        assert int(own) < 16 << 10, "KiB; the model has 64 MiB"
    for shard in ("a", "b", "c"):
        with met(tmp_path / shard, grace=0) as lines:
            assert lines is not None
            initialize(lines, shard)
    eventually(lambda: not is_there(importer), "the importer has ended with the last of them")


def test_each_process_has_its_own_environment_limits_and_log(
    spec: ChildSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    spec = replace(spec, memory=1 << 30, cpu=100, folder=str(tmp_path))
    for shard in ("a", "b"):
        monkeypatch.setenv("WORD", shard)
        begin_all(spec, tmp_path, shard)
    first, second = recorded(tmp_path)
    assert first["imported_by"] == second["imported_by"]
    assert (first["word"], second["word"]) == ("a", "b")
    for fact in (first, second):
        assert (fact["memory"], fact["cpu"], fact["folder"]) == (1 << 30, 100, str(tmp_path.resolve()))
        log = log_of(tmp_path / fact["shard"]).read_text().splitlines()
        assert log == [f"printed by {fact['shard']}", f"told by {fact['shard']}"]


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("loading:Spinning", "the processor has used more CPU than limits.cpu allows"),
        ("loading:Leaving", "the processor's process has ended with exit code 7"),
    ],
)
def test_a_process_that_ends_says_how_and_harms_no_other_one(
    spec: ChildSpec, tmp_path: Path, code: str, told: str
):
    spec = replace(spec, code=code, cpu=1)
    with begun(tmp_path / "other", spec, grace=0) as other:
        initialize(other, "other")
        with begun(tmp_path / "ended", spec, grace=0) as ended:
            initialize(ended, "ended")
            ended.say(RECORDS)
            with pytest.raises(ChildFailed, match=told):
                ended.hear(within=60)
        initialize(other, "other")


def test_a_killed_process_harms_no_other_one(spec: ChildSpec, tmp_path: Path):
    first, _ = begin_all(spec, tmp_path, "killed", "other")
    os.kill(first["process"], signal.SIGKILL)
    with met(tmp_path / "killed", grace=0) as killed:
        assert killed is not None
        killed.say(RECORDS)
        with pytest.raises(ChildFailed, match="ended by SIGKILL"):
            killed.hear(within=60)
    with met(tmp_path / "other", grace=0) as other:
        assert other is not None
        initialize(other, "other")


def test_all_end_with_their_importer_and_others_begin(spec: ChildSpec, tmp_path: Path):
    first, second = begin_all(spec, tmp_path, "a", "b")
    os.kill(first["imported_by"], signal.SIGKILL)
    for fact in (first, second):
        eventually(lambda: not is_there(fact["process"]), "the process has ended")  # noqa: B023
    with met(tmp_path / "a", grace=0) as lines:
        assert lines is not None
        lines.say(RECORDS)
        with pytest.raises(ChildFailed, match="ended by SIGKILL"):
            lines.hear(within=60)
    assert begin_all(spec, tmp_path, "a")[-1]["imported_by"] != first["imported_by"]


def test_all_end_with_their_keeper(own_keeper: OwnKeeper, spec: ChildSpec, tmp_path: Path):
    facts = begin_all(spec, tmp_path, "a", "b")
    own_keeper.kill()
    for number in (facts[0]["imported_by"], *(fact["process"] for fact in facts)):
        eventually(lambda: not is_there(number), "the process has ended")  # noqa: B023


def test_an_error_of_the_import_is_that_of_each_shard_and_the_next_one_may_succeed(
    spec: ChildSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("FAILS", "the service is away")
    for shard in ("a", "b"):
        with begun(tmp_path / shard, spec, grace=0) as lines:
            lines.say(RECORDS)
            with pytest.raises(
                ChildFailed, match="exit code 1; its last words: OSError: the service is away"
            ):
                lines.hear(within=60)
    monkeypatch.delenv("FAILS")
    (fact,) = begin_all(spec, tmp_path, "a")
    assert fact["size"] == 64 << 20


def test_an_import_that_takes_too_long_is_ended(spec: ChildSpec, tmp_path: Path):
    hanging = b"import os, pathlib, time\npathlib.Path(os.environ['RECORDED']).write_text(str(os.getpid()))\ntime.sleep(3600)\n"
    slow = replace(spec, files={"loading.py": hanging})
    with begun(tmp_path / "a", slow, grace=0) as lines:
        eventually((tmp_path / "recorded").exists, "the import has begun")
        lines.say(RECORDS)
        with pytest.raises(ChildFailed, match="hasn't answered within"):
            lines.hear(within=1)
    importer = int((tmp_path / "recorded").read_text())
    eventually(lambda: not is_there(importer), "the importer is ended")


_SHORT_OF_PROCESSES = b"""
import os, pathlib
fork = os.fork
def short_of_processes():
    if pathlib.Path(os.environ["RECORDED"] + ".short").exists():
        raise BlockingIOError(11, "Resource temporarily unavailable")
    return fork()
os.fork = short_of_processes
"""
_SHORT_OF_FILES = b"""
import resource
# Six of the importer's own, one for each process, and four of a new one.
resource.setrlimit(resource.RLIMIT_NOFILE, (10, 1024))
"""


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (_SHORT_OF_PROCESSES, "last words: no process could be forked: .*temporarily unavailable"),
        (_SHORT_OF_FILES, "the processor's process has ended by SIGKILL"),
    ],
)
def test_an_importer_that_cant_fork_harms_no_process_that_it_has_forked(
    spec: ChildSpec, tmp_path: Path, code: bytes, told: str
):
    spec = replace(spec, files={"loading.py": MODULE + code})
    with begun(tmp_path / "other", spec, grace=0) as other:
        initialize(other, "other")
        (tmp_path / "recorded.short").touch()
        for _ in range(2):
            with begun(tmp_path / "new", spec, grace=0) as new:
                new.say(RECORDS)
                with pytest.raises(ChildFailed, match=told):
                    new.hear(within=60)
        initialize(other, "other")
        (tmp_path / "recorded.short").unlink()
    eventually(lambda: not (tmp_path / "other").exists(), "the other one has ended")
    begin_all(spec, tmp_path, "new")


def test_an_importer_may_open_files_of_many_processes_and_a_process_as_many_as_any_other(
    spec: ChildSpec, tmp_path: Path
):
    code = b"""
import os, pathlib, resource
def record(name):
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    pathlib.Path(os.environ["RECORDED"] + name).write_text(str(limit[0]))
class Counting(Loading):
    def initialize(self, *more):
        record(".process")
        super().initialize(*more)
record(".importer")
"""
    spec = replace(spec, code="loading:Counting", files={"loading.py": MODULE + code})
    usual, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    less = min(usual, most - 1)
    resource.setrlimit(resource.RLIMIT_NOFILE, (less, most))
    try:
        begin_all(spec, tmp_path, "a")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (usual, most))
    files = [int((tmp_path / f"recorded.{name}").read_text()) for name in ("importer", "process")]
    assert files == [most, less]


def test_an_importer_ends_with_all_that_its_module_has_started(spec: ChildSpec, tmp_path: Path):
    """A thread that nothing ends, and a process."""
    code = b"""
import threading, time
threading.Thread(target=time.sleep, args=(3600,)).start()
helper = subprocess.Popen(("sleep", "3600"))
Path(os.environ["RECORDED"] + ".helper").write_text(str(helper.pid))
"""
    spec = replace(spec, files={"loading.py": MODULE + code})
    with begun(tmp_path / "a", spec, grace=0) as lines:
        initialize(lines, "a")
    (fact,) = recorded(tmp_path)
    helper = int((tmp_path / "recorded.helper").read_text())
    eventually(lambda: not is_there(fact["imported_by"]), "the importer has ended")
    eventually(lambda: not is_there(helper), "what it has started has ended")


def test_modules_that_cant_be_written_stop_their_shard_alone_and_say_why(spec: ChildSpec, tmp_path: Path):
    spec = replace(spec, files={"loading.py": MODULE, "loading.py/below.py": b""})
    with (
        pytest.raises(ChildFailed, match=r"the processor's keeper couldn't start it: .*Error"),
        begun(tmp_path / "a", spec, grace=0),
    ):
        pass


def test_other_code_is_imported_by_another_process(spec: ChildSpec, tmp_path: Path):
    (first,) = begin_all(spec, tmp_path, "a")
    changed = replace(spec, files={"loading.py": MODULE + b"\n"})
    _, second = begin_all(changed, tmp_path, "b")
    assert first["imported_by"] != second["imported_by"]


def test_a_process_that_never_began_is_no_reason_to_end_its_importer():
    """As where its files couldn't be sent to the importer, which has the processes of other shards."""
    pipes = [os.pipe() for _ in range(4)]
    told, from_process, errors = (reads for reads, _ in pipes[:3])
    child = ProcessorChild.of(ForkedProcess(os.getpid(), told, pipes[3][1], from_process, errors), print)
    for end in (pipes[3][0], *(writes for _, writes in pipes[:3])):
        os.close(end)
    # By the number of the importer it would end the test.
    child.kill()
    assert child.process.poll() == -signal.SIGKILL
