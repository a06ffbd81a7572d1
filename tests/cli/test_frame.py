"""What all commands share: one line for an error, an exit code for scripts, and a quick start."""

import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import headrace.pipeline.cli as frame
from headrace.pipeline.cli import COMMANDS, main
from headrace.pipeline.errors import (
    BadSetting,
    CommitUnknown,
    HeadraceError,
    MissingPackage,
    ProcessorStopped,
    Throttled,
)

ROOT = Path(__file__).parents[2]
HEAVY = {
    "boto3",
    "botocore",
    "dagster",
    "pandas",
    "pyarrow",
    "pyiceberg",
    "pyspark",
    "moto",
    "aiohttp",
    "yaml",
}


def loaded_modules(code: str) -> set[str]:
    """The modules that a new interpreter has imported after running this code."""
    asked = f"import sys\n{code}\nprint(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, cwd=ROOT, check=True)
    return set(done.stdout.split("\n")[-2].split())


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A command made by the test, which runs `body`."""
    made = SimpleNamespace(body=lambda args: 0)
    module = ModuleType("headrace.pipeline.cli.trial")
    attributes: dict[str, Any] = {"add": lambda sub: sub.add_parser("trial").add_argument("--n", type=int)}
    attributes["run"] = lambda args: made.body(args)  # noqa: PLW0108 -- the body is set later
    vars(module).update(attributes)
    monkeypatch.setitem(sys.modules, "headrace.pipeline.cli.trial", module)
    monkeypatch.setitem(frame.COMMANDS, "trial", "try")
    return made


def fail_with(error: BaseException) -> Any:
    def raise_the_error(_: object) -> int:
        raise error

    return raise_the_error


def test_the_help_names_a_folder_with_each_page_that_a_message_names(capsys: pytest.CaptureFixture[str]):
    main([])
    folder = Path(capsys.readouterr().err.rsplit("are in ", maxsplit=1)[1].strip())
    pages = {
        page
        for code in (ROOT / "pipeline").rglob("*.py")
        for page in re.findall(r"docs/[\w/-]+\.md", code.read_text(encoding="utf-8"))
    }
    assert "docs/use/proof.md" in pages
    assert {page for page in pages if not (folder / page).is_file()} == set()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (BadSetting("a\n  long\n story"), 2),
        (HeadraceError("a long story"), 2),
        (Throttled("a long story"), 75),
        (CommitUnknown("a long  story"), 75),
    ],
)
def test_an_error_is_one_line_and_an_exit_code(
    command: SimpleNamespace, capsys: pytest.CaptureFixture[str], error: HeadraceError, code: int
):
    command.body = fail_with(error)
    assert main(["trial"]) == code
    assert capsys.readouterr() == ("", "headrace: a long story\n")


def test_the_traceback_of_a_processor_keeps_its_lines(
    command: SimpleNamespace, capsys: pytest.CaptureFixture[str]
):
    command.body = fail_with(ProcessorStopped("it stopped\n  File totals.py\n    total += 1"))
    assert main(["trial"]) == 2
    assert capsys.readouterr().err == "headrace: it stopped\n  File totals.py\n    total += 1\n"


def test_an_interrupted_command_prints_nothing_and_ends_with_code_130(
    command: SimpleNamespace, capsys: pytest.CaptureFixture[str]
):
    command.body = fail_with(KeyboardInterrupt())
    assert main(["trial"]) == 130
    assert capsys.readouterr() == ("", "")


def test_an_error_in_headraces_own_code_shows_its_stack_trace(command: SimpleNamespace):
    command.body = fail_with(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        main(["trial"])


@pytest.mark.parametrize("code", [0, 1, 2])
def test_the_number_that_a_command_returns_is_the_exit_code(command: SimpleNamespace, code: int):
    command.body = lambda _: code
    assert main(["trial"]) == code


def test_a_command_gets_its_arguments(command: SimpleNamespace):
    command.body = lambda args: args.n
    assert main(["trial", "--n", "7"]) == 7


@pytest.mark.parametrize(
    "argv", [["nosuch"], ["config", "--nosuch"], ["config", "--json", "--doc"], ["tables"]]
)
def test_argparse_answers_a_mistyped_command_line(argv: list[str], capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as caught:
        main(argv)
    assert caught.value.code == 2
    assert "usage: headrace" in capsys.readouterr().err


def test_without_a_command_the_help_is_shown(capsys: pytest.CaptureFixture[str]):
    assert main([]) == 2
    shown = capsys.readouterr().err
    assert all(name in shown for name in COMMANDS)


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out.startswith("headrace ")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as caught:
        main([name, "--help"])
    assert caught.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: headrace {name}")


def test_the_help_imports_no_commands_module():
    code = "from headrace.pipeline.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass"
    assert loaded_modules(code).isdisjoint(HEAVY)


def test_parsing_arguments_and_showing_settings_imports_nothing_heavy(tmp_path: Path):
    file = tmp_path / "h.yaml"
    file.write_text("{application: my-app, streams: [{name: s}]}", encoding="utf-8")
    code = f"from headrace.pipeline.cli import main\nmain(['config', '--config', {str(file)!r}])"
    assert loaded_modules(code) & HEAVY == {"yaml"}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_commands_help_imports_nothing_heavy(name: str):
    code = f"from headrace.pipeline.cli import main\ntry: main([{name!r}, '--help'])\nexcept SystemExit: pass"
    assert loaded_modules(code).isdisjoint(HEAVY)


def test_a_closed_pipe_causes_no_stack_trace(tmp_path: Path):
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "headrace.pipeline.cli", "config", "--doc"],
        stdout=write,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        check=False,
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")


def test_headrace_local_without_its_packages_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.delitem(sys.modules, "headrace.pipeline.local.__main__", raising=False)
    monkeypatch.setattr("builtins.__import__", _without("headrace.pipeline.local"))
    assert main(["local"]) == 2
    told = capsys.readouterr().err
    # No release is on PyPI, where anybody could take the name.
    assert "pip install './headrace[local]'" in told
    assert "pip install 'headrace[" not in told
    assert issubclass(MissingPackage, HeadraceError)


def _without(package: str) -> Any:
    real = __import__

    def import_all_but_the_package(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == package:
            raise ModuleNotFoundError(f"No module named {name!r}", name="moto")
        return real(name, *args, **kwargs)

    return import_all_but_the_package
