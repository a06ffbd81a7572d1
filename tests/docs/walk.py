"""Walks through a page as its reader does: runs each command in a shell, writes each file, and compares what was printed.

The page is written for that:

    ```sh                              commands, which are run in the order of the page. `export` and `cd` hold for all that follow
    ```text                            what the commands of the block before it print. `<time>` stands for a time, `<id>` for a number,
                                       and `...` for anything, also for lines
    `put.py`:  and a block             the block is the file. "Add to" means its end
    write `A` instead of `B`           the file `headrace.yaml` is changed
    Repeat this command                the commands are repeated until they print what the page says
"""

import re
import shlex
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from tests.eventually import eventually

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"`([\w.]+)`:\s*$")
_CHANGE = re.compile(r"[Ii]n\s+`headrace.yaml`,\s+write\s+`([^`]+)`\s+instead\s+of\s+`([^`]+)`")
_STAYS = re.compile(r"^headrace (?:local|dev)\b", re.MULTILINE)
_STANDS_FOR = {
    "time": r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\S*",
    "id": r"\d+",
    "number": r"\d+",
    "folder": r"\S+",
    "version": r".+",
}
_FIRST_START_WITHIN = 240.0
"""Seconds, on a machine that runs other tests at the same time."""


@dataclass(frozen=True)
class Step:
    """A block of the page."""

    prose: str
    """The text between this block and the one before it."""
    language: str
    body: str
    output: str | None = None
    """What the page shows as the output of the block's commands."""


def steps_of(page: str) -> list[Step]:
    steps: list[Step] = []
    end = 0
    for block in _BLOCK.finditer(page):
        prose, language, body = page[end : block.start()], block[1], block[2]
        end = block.end()
        if language == "text":
            assert not prose.strip(), f"output without its command: {body}"
            steps[-1] = Step(steps[-1].prose, steps[-1].language, steps[-1].body, body)
        else:
            steps.append(Step(prose, language, body))
    return steps


def agrees(shown: str, printed: str) -> bool:
    """Whether a command has printed what the page shows."""
    lines = [_pattern(line) for line in shown.strip().splitlines()]
    whole = "".join(r"(?:.*\n)*?" if line == ".*" else rf"{line}\n" for line in lines)
    return re.fullmatch(whole, _plain(printed)) is not None


def _pattern(line: str) -> str:
    escaped = re.escape(" ".join(line.split())).replace(r"\.\.\.", ".*")
    return re.sub(r"<(\w+)>", lambda placeholder: _STANDS_FOR[placeholder[1]], escaped)


def _plain(printed: str) -> str:
    return "".join(" ".join(line.split()) + "\n" for line in printed.strip().splitlines())


@dataclass
class Walk:
    """A reader on the way through a page, in a folder and with the variables of the reader's terminals."""

    folder: Path
    variables: dict[str, str]
    replaced: Mapping[str, str]
    """Texts of the page that this reader writes otherwise, such as ports."""
    running: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)
    """The commands that stay at work, by their words."""
    logs: Path = field(init=False)

    def __post_init__(self) -> None:
        self.logs = self.folder

    def take(self, step: Step) -> None:
        changes = _CHANGE.findall(step.prose)
        assert len(changes) == step.prose.count("instead"), (
            f"a change isn't told as the walk reads it: {step.prose}"
        )
        for new, old in changes:
            self._change(old, new)
        named = _FILE.search(step.prose)
        if named:
            with (self.folder / named[1]).open("a" if "Add to" in step.prose else "w") as file:
                file.write(step.body)
        elif step.language == "sh":
            self._type(step)

    def _change(self, old: str, new: str) -> None:
        file = self.folder / "headrace.yaml"
        text = file.read_text()
        assert old in text, f"the page changes {old!r}, which isn't in the settings:\n{text}"
        file.write_text(text.replace(old, new))

    def _type(self, step: Step) -> None:
        commands, shown = self._as_here(step.body), self._as_here(step.output or "")
        if _STAYS.match(commands):
            self.start(commands.strip(), shown)
        elif "Repeat this command" in step.prose:
            self.repeat(commands, shown)
        else:
            printed = self.run(commands)
            assert agrees(shown, printed), f"{commands} printed\n{printed}\nand the page says\n{shown}"

    def repeat(self, commands: str, shown: str) -> None:
        """Run the commands again and again, until they print what the page shows."""
        printed = ""

        def prints_it() -> bool:
            nonlocal printed
            printed = self.run(commands, must_succeed=False)
            return agrees(shown, printed)

        try:
            eventually(prints_it, commands, within=_FIRST_START_WITHIN, every=3.0)
        except TimeoutError as late:
            raise AssertionError(f"{commands} printed last\n{printed}\nand the page says\n{shown}") from late

    def _as_here(self, text: str) -> str:
        for ours, theirs in self.replaced.items():
            text = text.replace(ours, theirs)
        return text

    def run(self, commands: str, *, must_succeed: bool = True) -> str:
        """Run the commands, and remember the folder and the variables that they leave behind."""
        left = self.logs / "left-behind"
        done = subprocess.run(
            ["bash", "-ec", f"{commands}\n{{ pwd; env -0; }} > {shlex.quote(str(left))}"],
            cwd=self.folder,
            env=self.variables,
            capture_output=True,
            text=True,
            timeout=_FIRST_START_WITHIN,
            check=False,
        )
        if done.returncode == 0:
            folder, _, variables = left.read_text().partition("\n")
            self.folder = Path(folder)
            self.variables = dict(item.split("=", 1) for item in variables.split("\0") if "=" in item)
        else:
            assert not must_succeed, f"{commands}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    def start(self, words: str, shown: str) -> None:
        """Start a command that stays at work, and wait until it has printed the lines of the page."""
        log = self.logs / f"{words.split()[1]}.log"
        with log.open("w") as file:
            process = subprocess.Popen(
                shlex.split(words), cwd=self.folder, env=self.variables, stdout=file, stderr=file
            )
        self.running[words] = process
        lines = shown.strip().replace("\n", "\n...\n")

        def has_begun() -> bool:
            assert process.poll() is None, log.read_text()
            return agrees(f"{lines}\n...", log.read_text())

        try:
            eventually(has_begun, f"{words} prints\n{shown}", within=_FIRST_START_WITHIN)
        except TimeoutError as late:
            raise AssertionError(f"{late}. It has printed:\n{log.read_text()}") from late

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> dict[str, int]:
        """Press Ctrl-C at the commands that stay at work, the newest first. Returns their exit codes."""
        codes = {}
        while self.running:
            command, process = self.running.popitem()
            process.send_signal(signal.SIGINT)
            codes[command] = process.wait(timeout=_FIRST_START_WITHIN)
        return codes
