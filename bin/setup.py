"""Set this folder up: .venv with exactly the packages in requirements.lock, and Java and ps for Spark.

The script needs only a Python 3, of version 3.8 or newer; with one older than 3.11 it says that the project needs 3.11.

    step        the script repeats the step when this changes
    venv        the Python's version; this folder's path, since a venv can't be moved
    packages    requirements.lock
    project     pyproject.toml
    java        the Java that .venv/java_home names is gone, or JAVA_HOME names another one
    ps          the command ps is missing: Spark's start script calls it, and small containers lack it

Each finished step is recorded in .venv/setup.json: an interrupted set-up goes on where it stopped, and a
finished one calls neither pip nor apt.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Iterable, Iterator, Mapping, NamedTuple, NoReturn, Sequence

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
VENV = ROOT / ".venv"
DONE = VENV / "setup.json"
JAVA_HOME = VENV / "java_home"

STEPS = ("venv", "packages", "project")
PYTHONS = ((3, 13), (3, 12), (3, 11), (3, 14))  # tried in this order if python3 has another version
OLDEST_JAVA = 17  # Spark 4 needs it
USUAL_JAVA_HOMES = (  # relative to /
    "usr/lib/jvm/*",
    "opt/homebrew/opt/openjdk*",
    "usr/local/opt/openjdk*",
    "Library/Java/JavaVirtualMachines/*/Contents/Home",
)


class Python(NamedTuple):
    path: str
    version: tuple[int, int]

    def __str__(self) -> str:
        return "Python %d.%d at %s" % (*self.version, self.path)


class Java(NamedTuple):
    home: str
    major: int


# ---------------------------------------------------------------------------------------------------- decisions


def steps_to_do(done: Mapping[str, str], wanted: Mapping[str, str]) -> Sequence[str]:
    """The first step whose input has changed, and all steps after it, which build on it."""
    changed = [number for number, step in enumerate(STEPS) if done.get(step) != wanted[step]]
    return STEPS[changed[0] :] if changed else ()


def choose_python(found: Iterable[Python]) -> Python | None:
    return next((python for python in found if python.version in PYTHONS), None)


def choose_java(named: Iterable[Java], usual: Iterable[Java]) -> Java | None:
    """The Java that the user names (by JAVA_HOME, then PATH); else the oldest one that Spark supports, which is best tested."""
    fits = (java for java in named if java.major >= OLDEST_JAVA)
    return next(fits, None) or min(
        (java for java in usual if java.major >= OLDEST_JAVA), key=lambda java: java.major, default=None
    )


def read_java(settings: str) -> Java | None:
    """Home and version that `java` itself reports, which is right also for links, wrappers and macOS's stub."""
    home = re.search(r"^ *java\.home = (.+?)\s*$", settings, re.MULTILINE)
    version = re.search(r"^ *java\.specification\.version = (?:1\.)?(\d+)\s*$", settings, re.MULTILINE)
    return Java(home[1], int(version[1])) if home and version else None


def java_is_settled(recorded: str, named: str, named_then: str) -> bool:
    """Whether the recorded Java can stay: it still exists, and the user's JAVA_HOME doesn't name another one since."""
    return (
        bool(recorded) and named in {"", named_then, recorded} and os.access(f"{recorded}/bin/java", os.X_OK)
    )


def only(packages: Iterable[str], lock: str) -> str:
    """The lines of these packages in the lock file, with their hashes."""
    blocks = re.split(r"\n(?=\S)", lock)
    return "\n".join(block for block in blocks if block.partition("==")[0] in packages)


def why_pip_failed(output: str) -> str:
    what, then = "pip failed as shown above", "correct the cause and run make again"
    if "DO NOT MATCH THE HASHES" in output:
        what = "a downloaded file has another hash than requirements.lock says, and was refused"
        then = "run make again; if it fails again, don't trust the package mirror"
    elif "No space left on device" in output:
        what, then = "the disk is full", "free about 3 GB and run make again"
    elif re.search(r"connect|timed out|resolution|proxy|ssl|no matching distribution", output.lower()):
        what = "pip couldn't fetch a package: the registry can't be reached, or doesn't have the package"
        then = "run make again when the network is back (or with PIP_INDEX_URL set to a mirror)"
    return f"{what}. Nothing outside .venv was touched; {then}: the set-up goes on from here."


def no_python(found: Iterable[Python]) -> str:
    return (
        f"headrace needs Python 3.11 to 3.14 and found only {', '.join(map(str, found))}. Nothing was changed; "
        "install one (`apt-get install python3.11 python3.11-venv`, `brew install python@3.13`) and run make again."
    )


def please_install(need: str, command: str) -> str:
    return f"{need}, and only root can install it. Nothing was changed; run `{command}`, then make again."


# -------------------------------------------------------------------------------------------------------- hands


def say(text: str) -> None:
    print(f"setup: {text}", flush=True)


def stop(text: str) -> NoReturn:
    sys.exit(f"setup stopped: {text}")


PIPED: Mapping[str, Any] = {
    "stdin": subprocess.DEVNULL,
    "stdout": subprocess.PIPE,
    "stderr": subprocess.STDOUT,
    "text": True,
}


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, **PIPED, check=False)


def find_pythons() -> Iterator[Python]:
    """The Python that runs this file, then others by name. Each is run once, because pyenv has commands for versions that
    aren't installed.
    """
    version = sys.version_info[:2]
    in_a_venv = sys.prefix != sys.base_prefix
    yield Python("%s/bin/python%d.%d" % (sys.base_prefix, *version) if in_a_venv else sys.executable, version)
    for version in PYTHONS:
        path = shutil.which("python%d.%d" % version)
        if path and run(path, "-c", f"import sys; assert sys.version_info[:2] == {version}").returncode == 0:
            yield Python(path, version)


def find_javas(commands: Iterable[str | None]) -> Iterator[Java]:
    for command in commands:
        if command and os.access(command, os.X_OK):
            java = read_java(run(command, "-XshowSettings:properties", "-version").stdout)
            if java:
                yield java


def find_java() -> Java | None:
    named = [os.path.expandvars("$JAVA_HOME/bin/java"), shutil.which("java")]
    usual = [f"{home}/bin/java" for pattern in USUAL_JAVA_HOMES for home in sorted(Path("/").glob(pattern))]
    return choose_java(find_javas(named), find_javas(usual))


def as_root() -> list[str] | None:
    if os.geteuid() == 0:
        return []
    return ["sudo", "-n"] if shutil.which("sudo") and run("sudo", "-n", "true").returncode == 0 else None


def apt_install(need: str, *packages: str) -> None:
    """Install the first of these packages that the system has."""
    root = as_root()
    if root is None:
        stop(please_install(need, f"sudo apt-get install {packages[0]}"))
    apt = [*root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-o", "DPkg::Lock::Timeout=120"]
    answer = run(*apt, "update")
    for package in packages:
        say(f"{need}: apt-get install {package} (about a minute) ...")
        answer = run(*apt, "install", "-y", "--no-install-recommends", package)
        if answer.returncode == 0:
            return
    print(answer.stdout[-2000:], file=sys.stderr)
    stop(
        f"{need}, and apt-get couldn't install {' or '.join(packages)} (its output is above). "
        "Nothing else was changed; run make again when it is installed."
    )


def install_java() -> Java:
    need = f"Spark needs Java {OLDEST_JAVA} or newer and none was found"
    if shutil.which("apt-get"):
        apt_install(need, "openjdk-17-jre-headless", "default-jre-headless")
    elif shutil.which("brew"):
        say(f"{need}: brew install openjdk@17 (a few minutes) ...")
        run("brew", "install", "--quiet", "openjdk@17")
    java = find_java()
    if java is None:
        stop(f"{need}. Nothing was changed; install one and set JAVA_HOME to it, then run make again.")
    return java


def install_ps() -> None:
    need = "Spark's start script calls ps, and this machine has none"
    if not shutil.which("apt-get"):
        stop(f"{need}. Nothing was changed; install it (most systems call it procps), then run make again.")
    apt_install(need, "procps")


def make_venv(python: Python) -> None:
    if VENV.is_symlink():
        stop(
            f"{VENV} is a link to {os.path.realpath(VENV)}, and a new .venv would empty the folder that it points to. Nothing was changed; "
            "remove the link, then run make again."
        )
    if run(python.path, "-c", "import ensurepip, venv").returncode != 0:
        need = f"{python} can't make a virtual environment"
        if not shutil.which("apt-get"):
            stop(
                f"{need}: it lacks venv or ensurepip. Nothing was changed; install them, then run make again."
            )
        apt_install(need, "python%d.%d-venv" % python.version, "python3-venv")
    say(f"making .venv with {python}")
    answer = run(python.path, "-m", "venv", "--clear", str(VENV))
    if answer.returncode != 0:
        stop(f"{python} couldn't make .venv: {answer.stdout.strip()[-500:]}")


def install_packages() -> None:
    lock = LOCK.read_text(encoding="utf-8")
    with (
        tempfile.TemporaryDirectory() as folder
    ):  # pip and setuptools first: packages that come as source are built with the locked versions
        builders = Path(folder) / "builders.lock"
        builders.write_text(only({"pip", "setuptools"}, lock), encoding="utf-8")
        pip("--require-hashes", "--no-deps", "-r", str(builders))
    count = len(re.findall(r"^\S+==", lock, re.MULTILINE))
    say(f"installing {count} packages from requirements.lock (about 2 minutes, more on a slow network) ...")
    pip("--require-hashes", "--no-deps", "--no-build-isolation", "-r", str(LOCK), count=count)


def install_project() -> None:
    say("installing headrace itself, editable")
    pip("--no-deps", "--no-build-isolation", "-e", str(ROOT))


def pip(*arguments: str, count: int = 0) -> None:
    command = [str(VENV / "bin/python"), "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    lines: list[str] = []
    collected = 0
    with subprocess.Popen([*command, *arguments], **PIPED) as process:
        for line in process.stdout or ():
            lines.append(line)
            collected += line.startswith("Collecting ")
            if count and line.startswith("Collecting ") and collected % 40 == 0:
                say(f"  {collected} of {count} fetched")
            elif count and line.startswith("Installing collected packages"):
                say("  unpacking")
    if process.returncode != 0:
        print("".join([line for line in lines if "Retrying" not in line][-30:]), file=sys.stderr)
        stop(why_pip_failed("".join(lines)))


def set_up() -> None:
    began = time.monotonic()
    python = choose_python(find_pythons())
    if python is None:
        stop(no_python(find_pythons()))
    wanted = {
        "venv": "%d.%d in %s" % (*python.version, ROOT),
        "packages": hashlib.sha256(LOCK.read_bytes()).hexdigest(),
        "project": hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest(),
    }
    intact = DONE.exists() and (VENV / "bin/python").exists()
    done = json.loads(DONE.read_text(encoding="utf-8")) if intact else {}
    todo = steps_to_do(done, wanted)

    home = JAVA_HOME.read_text(encoding="utf-8").strip() if JAVA_HOME.exists() else ""
    named = os.environ.get("JAVA_HOME", "")
    settled = java_is_settled(home, named, done.get("told", ""))
    has_ps = shutil.which("ps")
    if settled and has_ps and not todo:
        return
    if (
        not has_ps
    ):  # first, so that a missing package which only root can install is reported before the long steps
        install_ps()
    if not settled:
        home = (find_java() or install_java()).home
    work = {"venv": lambda: make_venv(python), "packages": install_packages, "project": install_project}
    for step in todo:
        work[step]()
        done = {**done, step: wanted[step]}
        DONE.write_text(json.dumps(done, indent=1), encoding="utf-8")
    DONE.write_text(json.dumps({**done, "told": named}, indent=1), encoding="utf-8")
    JAVA_HOME.write_text(home + "\n", encoding="utf-8")
    say(f"ready after {time.monotonic() - began:.0f} s, with Java at {home}")


if __name__ == "__main__":
    with LOCK.open(encoding="utf-8") as one_at_a_time:
        fcntl.flock(one_at_a_time, fcntl.LOCK_EX)
        try:
            set_up()
        except KeyboardInterrupt:
            stop(
                "interrupted. Nothing outside .venv is half done; run make again, and the set-up goes on from here."
            )
