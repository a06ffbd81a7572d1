"""The user's modules beside the settings file: what is read of them, and that a process takes up a changed one."""

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from headrace.pipeline.errors import BadSetting
from headrace.pipeline.lake.spark.user_code import code_beside, imported


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path.resolve()


def write(folder: Path, **sources: str) -> None:
    """`a__b` stands for a/b.py."""
    for name, source in sources.items():
        path = folder / f"{name.replace('__', '/', 1)}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(source)


def names(folder: Path, module: str) -> list[str]:
    code = code_beside(folder, module)
    return sorted(code.files) if code else []


def test_what_a_module_imports_from_the_folder_belongs_to_it_and_nothing_else(folder: Path):
    write(
        folder,
        own_parsers="import json, own_helper\nfrom own_parts.deep import x\n",
        own_helper="def f():\n    from own_late import y\n    return y\n",
        own_late="y = 1",
        own_parts__deep="from . import other\nx = 1",
        own_parts__other="",
        unused="raise SystemExit",
    )
    assert names(folder, "own_parsers") == [
        *("own_helper.py", "own_late.py", "own_parsers.py", "own_parts/deep.py", "own_parts/other.py"),
    ]
    assert names(folder, "own_parts.deep") == ["own_parts/deep.py", "own_parts/other.py"]
    assert code_beside(folder, "pandas") is None
    code = code_beside(folder, "own_parsers")
    assert code is not None
    with ZipFile(code.zipped()) as zipped:
        assert zipped.read("own_helper.py") == (folder / "own_helper.py").read_bytes()
        assert set(zipped.namelist()) == {*code.files, "own_parts/__init__.py"}


def test_a_changed_helper_is_taken_up_without_a_restart_also_within_one_second(folder: Path):
    write(folder, own_one="from own_two import number\n")
    found, digests = [], set()
    # Of one length, so that neither size nor time tells the files apart.
    for number in "123":
        write(folder, own_two=f"number = {number}\n")
        code = code_beside(folder, "own_one")
        assert code is not None
        found.append(imported(code, "own_one").number)
        digests.add(code.digest)
        # Nothing has changed: the module stays the same object.
        assert imported(code, "own_one") is sys.modules["own_one"]
    assert found == [1, 2, 3]
    assert len(digests) == 3
    assert not list(folder.rglob("__pycache__"))
    assert str(folder) not in sys.path


def test_a_module_of_the_same_name_in_another_folder_is_another_one(folder: Path):
    found = []
    for name in ("a", "b", "a"):
        place = folder / name
        place.mkdir(exist_ok=True)
        write(place, own_same=f"where = {name!r}")
        code = code_beside(place, "own_same")
        assert code is not None
        module = imported(code, "own_same")
        found.append(module.where)
        assert module.__file__ == str(place / "own_same.py")
    assert found == ["a", "b", "a"]


@pytest.mark.parametrize("name", ["json", "pyarrow", "headrace", "this"])
def test_a_module_with_the_name_of_another_one_is_refused(folder: Path, name: str):
    write(folder, own_main=f"import {name}\n", **{name: "x = 1\n"})
    for module in ("own_main", name):
        with pytest.raises(BadSetting, match=f"the module {name} in .* has the name of another one"):
            code_beside(folder, module)


def test_a_folder_on_pythons_path_hides_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch):
    write(folder, own_on_path="x = 1\n")
    monkeypatch.syspath_prepend(str(folder))
    __import__("own_on_path")
    write(folder, own_on_path="x = 2\n")
    code = code_beside(folder, "own_on_path")
    assert code is not None
    assert imported(code, "own_on_path").x == 2


def test_an_error_of_a_module_names_its_file_and_line(folder: Path):
    write(folder, own_broken="def f():\n    return 1 +\n")
    code = code_beside(folder, "own_broken")
    assert code is not None
    with pytest.raises(SyntaxError) as told:
        imported(code, "own_broken")
    assert (told.value.filename, told.value.lineno) == (str(folder / "own_broken.py"), 2)


def test_a_worker_that_has_only_the_zip_imports_all_of_it(folder: Path):
    write(
        folder,
        own_far="import own_near\nfrom own_pack import deep\nx = own_near.x + deep.x\n",
        own_near="x = 1",
    )
    write(folder, own_pack__deep="x = 2")
    code = code_beside(folder, "own_far")
    assert code is not None
    script = f"import sys; sys.path.insert(0, {str(code.zipped())!r}); import own_far; print(own_far.x)"
    ran = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout == "3\n"
