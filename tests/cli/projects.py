"""The folder of a user: settings, modules of code, and the lake table's home. A command that is called in the test's own
process starts there."""

from pathlib import Path

import pytest

_SETTINGS = """
application: {application}
streams: [{{name: orders}}]
aws: {{region: eu-west-1}}
landing: {{home: {home}}}
"""


def settings_in(folder: Path, made: str, *, application: str = "typed-orders") -> str:
    """The settings of a user whose lake table lies in this folder. `made`: what is made of the lake table."""
    return _SETTINGS.format(application=application, home=folder / "home") + made.lstrip("\n")


def enter_project(folder: Path, patch: pytest.MonkeyPatch, settings: str, **modules: str) -> None:
    """Work in this folder from now on, with these settings. `modules`: their code, by their names."""
    (folder / "headrace.yaml").write_text(settings)
    for name, code in modules.items():
        (folder / f"{name}.py").write_text(code)
    patch.chdir(folder)
    patch.delenv("HEADRACE_CONFIG", raising=False)
