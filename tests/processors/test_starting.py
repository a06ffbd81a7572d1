"""In which folder the process of a processor begins."""

from pathlib import Path

import pytest

from headrace.pipeline.processors.child import ChildFailed
from headrace.pipeline.processors.starting import folder_of, start_child
from headrace.pipeline.processors.values import ChildSpec

SAYS_WHERE = "import os, sys\nprint(os.getcwd(), file=sys.stderr, flush=True)\n"


def beginning_of(spec: ChildSpec) -> tuple[Path, Path]:
    """Where the process of a processor has begun, and the folder with the user's modules."""
    with folder_of(spec) as folder:
        child = start_child(spec, folder)
        try:
            child.end_input()
            with pytest.raises(ChildFailed):
                child.hear(within=60)
        finally:
            child.kill()
        return Path(child.errors[0]), Path(folder).resolve()


@pytest.mark.parametrize("is_there", [True, False], ids=["there", "not there"])
def test_a_class_begins_beside_the_settings_and_in_a_folder_of_its_own_on_a_host_without_them(
    tmp_path: Path, *, is_there: bool
):
    beside = tmp_path / "settings"
    if is_there:
        beside.mkdir()
    spec = ChildSpec(code="where:Nothing", files={"where.py": SAYS_WHERE.encode()}, folder=str(beside))
    began, own = beginning_of(spec)
    assert began == (beside.resolve() if is_there else own)


def test_a_command_begins_in_the_folder_of_sparks_worker_on_a_host_without_the_settings(tmp_path: Path):
    spec = ChildSpec(command=("sh", "-c", "pwd >&2"), folder=str(tmp_path / "none"))
    assert beginning_of(spec)[0] == Path.cwd().resolve()


def test_stderr_without_line_ends_is_told_in_pieces():
    """As of a progress bar: the whole of it would fill the memory of whoever reads it."""
    told: list[str] = []
    noise = ChildSpec(command=("sh", "-c", "head -c 1000000 /dev/zero | tr '\\0' x >&2"))
    child = start_child(noise, "", tell=told.append)
    try:
        with pytest.raises(ChildFailed, match="ended with exit code 0"):
            child.hear(within=60)
    finally:
        child.kill()
    assert sum(map(len, told)) == 1_000_000
    assert max(map(len, told)) < 200_000
