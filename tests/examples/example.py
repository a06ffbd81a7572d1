"""A copy of one folder of examples/, in which the commands of its README are run by a shell."""

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from headrace.pipeline.local.endpoint import LocalAws
from tests.eventually import eventually

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Example:
    """A copied example with the variables for its commands."""

    folder: Path
    variables: dict[str, str]

    @property
    def commands(self) -> list[str]:
        """The commands of the README."""
        blocks = re.findall(
            r"^```sh\n(.*?)^```", (self.folder / "README.md").read_text(), re.MULTILINE | re.DOTALL
        )
        return [line for block in blocks for line in block.splitlines()]

    def type(self, command: str, *, quickly: bool = False) -> str:
        """Run a command and return what it prints. The command must be in the README and must succeed. `quickly`:
        watch only briefly."""
        assert command in self.commands
        return self.run(
            "bash", "-c", re.sub(r"--(for|watch) \S+", r"--\1 1s", command) if quickly else command
        )

    def run(self, *command: str) -> str:
        """Run a program in the folder and return what it prints. It must succeed."""
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.variables,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    @contextmanager
    def sensors(self, config: str, *, home: str) -> Iterator["subprocess.Popen[bytes]"]:
        """Let the sensors of one deployment tick during the block, in a process of their own, which must not end
        before the block."""
        dagster_home = self.folder / home
        dagster_home.mkdir()
        shutil.copy(ROOT / "dagster.yaml", dagster_home)
        variables = {
            **self.variables,
            "HEADRACE_CONFIG": str(self.folder / config),
            "DAGSTER_HOME": str(dagster_home),
            "PYTHONPATH": str(ROOT),
        }
        command = [sys.executable, "-m", "tests.examples.sensors"]
        with (
            (self.folder / f"{home}.log").open("w") as log,
            subprocess.Popen(
                command, cwd=self.folder, env=variables, stdin=subprocess.PIPE, stdout=log, stderr=log
            ) as process,
        ):
            try:
                yield process
                assert process.poll() is None, Path(log.name).read_text()
            finally:
                process.kill()


def alive_until(look: Callable[[], bool], what: str, *processes: "subprocess.Popen[bytes]") -> None:
    """Wait for an effect of the sensors. The wait ends early if one of their processes has ended."""
    ended = "a process of sensors has ended"
    found = eventually(lambda: ended if any(p.poll() is not None for p in processes) else look(), what)
    assert found is True


def owners(aws: LocalAws, table: str) -> Counter[str | None]:
    """How many leases each worker owns; empty while there is no lease table."""
    dynamodb = aws.client("dynamodb")
    try:
        rows = dynamodb.scan(TableName=table, ConsistentRead=True)["Items"]
    except dynamodb.exceptions.ResourceNotFoundException:
        return Counter()
    return Counter(row.get("leaseOwner", {}).get("S") for row in rows if "checkpoint" in row)


def copied(name: str, into: Path, aws: LocalAws) -> Example:
    folder = into / name
    shutil.copytree(ROOT / "examples" / name, folder)
    programs = str(Path(sys.executable).parent)
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("HEADRACE_", "DAGSTER_HOME", "AWS_"))}
    variables = clean | aws.environment
    return Example(folder, variables | {"PATH": programs + os.pathsep + os.environ["PATH"]})
