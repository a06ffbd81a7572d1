"""A check: whether Java is installed for the Spark that Headrace starts on this host."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from headrace.pipeline.doctor.case import Case
from headrace.pipeline.doctor.diagnosis import Diagnosis, Health
from headrace.pipeline.errors import BadSetting

_NAME = "java"
# Spark 4 needs Java 17.
_LEAST = 17
# A cold start of Java on a busy machine takes seconds; more shows that something is wrong.
_SECONDS = 30
_ADVICE = (
    "Install Java 17 or 21 (apt install openjdk-17-jre-headless, brew install openjdk@17), "
    "or set JAVA_HOME to one"
)


def java_is_found(case: Case) -> Iterator[Diagnosis]:
    from headrace.pipeline.lake.spark.session import environment_of_jvm

    if not case.starts_java:
        yield Diagnosis(_NAME, Health.WELL, "not needed: each worker uses a Spark Connect server")
        return
    try:
        home = environment_of_jvm(None).get("JAVA_HOME")
    except BadSetting as error:
        yield Diagnosis(_NAME, Health.ILL, str(error))
        return
    program = str(Path(home, "bin", "java")) if home else "java"
    version = _version(program)
    major = _major(version)
    if major is None:
        yield Diagnosis(
            _NAME, Health.ILL, f"{program} doesn't tell its version ({version or 'no output'})", _ADVICE
        )
    elif major < _LEAST:
        yield Diagnosis(
            _NAME, Health.ILL, f"{program} is Java {major}, and Spark needs {_LEAST} or newer", _ADVICE
        )
    else:
        yield Diagnosis(_NAME, Health.WELL, f"{program} is Java {major}")


def _version(program: str) -> str:
    """The first line of `java -version`, which goes to standard error."""
    try:
        shown = subprocess.run(  # noqa: S603 -- the user's own Java
            [program, "-version"], capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    # `java -version` writes to standard error.
    return next(iter(shown.stderr.splitlines()), "")


def _major(line: str) -> int | None:
    """17 of `openjdk version "17.0.9" ...`; 8 of `"1.8.0_392"`."""
    # Java 8 and older put a "1." before their number.
    numbers = re.search(r'version "(?:1\.)?(\d+)', line)
    return int(numbers[1]) if numbers else None
