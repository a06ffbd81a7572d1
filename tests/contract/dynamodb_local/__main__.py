"""`make contract DYNAMODB=local`: run the DynamoDB suites on AWS's own DynamoDB Local, whose conditions are
evaluated by AWS's code."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_HERE = Path(__file__).parent
_ROOT = Path(__file__).parents[3]
_LIB = _ROOT / "artifacts" / "dynamodb_local"
_SUITES = (
    "tests/contract/test_lease_store.py",
    "tests/contract/test_known_rows.py",
    "tests/contract/test_worker_store.py",
    "tests/contract/test_leader_lock.py",
    "tests/contract/test_one_table.py",
    "tests/wire",
)
_SECONDS = 900.0
_CUT_OFF = ("Could not transfer", "Could not resolve", "Unknown host", "Non-resolvable", "was not found in")
"""What Maven says when it can't reach a repository, in different versions."""


class NotAtHand(Exception):
    """Java, Maven or a repository can't be reached, so that nothing can be tested."""


def main(arguments: list[str]) -> int:
    try:
        fetch()
        with served() as endpoint:
            return _run(endpoint, arguments)
    except NotAtHand as reason:
        print(f"DynamoDB Local isn't at hand ({reason}): its part of the contract was skipped")
        return 0


def fetch() -> None:
    """Download DynamoDB Local into `artifacts`, if it isn't there."""
    for tool in ("mvn", "java"):
        if shutil.which(tool) is None:
            raise NotAtHand(f"{tool} is not on the PATH")
    if any(_LIB.glob("DynamoDBLocal-*.jar")):
        return
    goals = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={_LIB}"]
    command = ["mvn", "-B", "-q", "-f", str(_HERE / "pom.xml"), *goals]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    said = f"{done.stdout}{done.stderr}"
    if done.returncode and any(words in said for words in _CUT_OFF):
        raise NotAtHand("Maven Central didn't give it")
    if done.returncode:
        raise RuntimeError(f"DynamoDB Local was not fetched:\n{said}")


@contextmanager
def served() -> Iterator[str]:
    """Start DynamoDB Local. It listens on loopback at a port that it chooses, and ends when its standard input is
    closed."""
    command = [
        "java",
        f"-Dsqlite4java.library.path={_LIB}",
        "-cp",
        f"{_LIB}/*",
        str(_HERE / "DynamoDbLocal.java"),
    ]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as java:
        assert java.stdin is not None
        assert java.stdout is not None
        try:
            word, _, port = java.stdout.readline().strip().partition(" ")
            if word != "port":
                raise NotAtHand("this Java doesn't start it")
            yield f"http://127.0.0.1:{port}"
        finally:
            java.stdin.close()


def _run(endpoint: str, arguments: list[str]) -> int:
    print(f"once more on AWS's DynamoDB Local at {endpoint}", flush=True)
    environment = {**os.environ, "HEADRACE_TEST_DYNAMODB": endpoint}
    command = [sys.executable, "-m", "pytest", *_SUITES, "-m", "not slow", *arguments]
    return subprocess.run(command, cwd=_ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
