"""Makes this folder ready: .venv with exactly what requirements.lock names, and Java and ps for Spark.

Needs nothing but a Python 3 (any from 3.8 on can read this file and say that the project wants 3.11).

    step        is done anew when this changes
    venv        the Python's version; this folder's path, since a venv can't be moved
    packages    requirements.lock
    project     pyproject.toml
    java        the Java that .venv/java_home names is gone, or JAVA_HOME names another one
    ps          it is gone: Spark's start script calls it, and small containers lack it

Each finished step is written to .venv/setup.json: an interrupted set-up goes on where it stopped, and a
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
PYTHONS = ((3, 13), (3, 12), (3, 11), (3, 14))  # the order in which they are tried where python3 doesn't fit
OLDEST_JAVA = 17  # Spark 4's own demand
USUAL_JAVA_HOMES = (  # below /
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
    """The first step whose cause has changed and all that build on it."""
    changed = [number for number, step in enumerate(STEPS) if done.get(step) != wanted[step]]
    return STEPS[changed[0] :] if changed else ()


def choose_python(found: Iterable[Python]) -> Python | None:
    return next((python for python in found if python.version in PYTHONS), None)


def choose_java(told: Iterable[Java], usual: Iterable[Java]) -> Java | None:
    """The user's word first (JAVA_HOME, then PATH); else the oldest that Spark takes, as the best tried."""
    fits = (java for java in told if java.major >= OLDEST_JAVA)
    return next(fits, None) or min(
        (java for java in usual if java.major >= OLDEST_JAVA), key=lambda java: java.major, default=None
    )


def read_java(settings: str) -> Java | None:
    """What a `java` says of itself: true behind links, wrappers and macOS's stub."""
    home = re.search(r"^ *java\.home = (.+?)\s*$", settings, re.MULTILINE)
    version = re.search(r"^ *java\.specification\.version = (?:1\.)?(\d+)\s*$", settings, re.MULTILINE)
    return Java(home[1], int(version[1])) if home and version else None


def java_is_settled(recorded: str, told: str, told_then: str) -> bool:
    """Asked again only when it is gone or the user has changed the word given by JAVA_HOME."""
    return bool(recorded) and told in {"", told_then, recorded} and os.access(f"{recorded}/bin/java", os.X_OK)


def only(packages: Iterable[str], lock: str) -> str:
    """These packages' lines of the lock, with their hashes."""
    blocks = re.split(r"\n(?=\S)", lock)
    return "\n".join(block for block in blocks if block.partition("==")[0] in packages)


def why_pip_failed(output: str) -> str:
    what, then = "pip failed as shown above", "run make again once its cause is gone"
    if "DO NOT MATCH THE HASHES" in output:
        what = "a downloaded file isn't the one that requirements.lock names, and was refused"
        then = "run make again, and distrust the mirror if it comes again"
    elif "No space left on device" in output:
        what, then = "the disk is full", "free about 3 GB and run make again"
    elif re.search(r"connect|timed out|resolution|proxy|ssl|no matching distribution", output.lower()):
        what = "pip couldn't fetch a package: the registry isn't reached or doesn't have it"
        then = "run make again when the network is back (or with PIP_INDEX_URL set to a mirror)"
    return f"{what}. Nothing outside .venv was touched; {then}: it goes on from here."


def no_python(found: Iterable[Python]) -> str:
    return (
        f"headrace needs Python 3.11 to 3.14 and found only {', '.join(map(str, found))}. Nothing was changed; "
        "install one (`apt-get install python3.11 python3.11-venv`, `brew install python@3.13`) and run make again."
    )


def please_install(need: str, command: str) -> str:
    return f"{need}, and installing it takes root. Nothing was changed; run `{command}`, then make again."


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
    """The one that runs this file, then others by name. pyenv keeps names of Pythons that don't answer."""
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
    told = [os.path.expandvars("$JAVA_HOME/bin/java"), shutil.which("java")]
    usual = [f"{home}/bin/java" for pattern in USUAL_JAVA_HOMES for home in sorted(Path("/").glob(pattern))]
    return choose_java(find_javas(told), find_javas(usual))


def as_root() -> list[str] | None:
    if os.geteuid() == 0:
        return []
    return ["sudo", "-n"] if shutil.which("sudo") and run("sudo", "-n", "true").returncode == 0 else None


def apt_install(need: str, *packages: str) -> None:
    """The first of these packages that the system offers."""
    root = as_root()
    if root is None:
        stop(please_install(need, f"sudo apt-get install {packages[0]}"))
    apt = [*root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-o", "DPkg::Lock::Timeout=120"]
    said = run(*apt, "update")
    for package in packages:
        say(f"{need}: apt-get install {package} (about a minute) ...")
        said = run(*apt, "install", "-y", "--no-install-recommends", package)
        if said.returncode == 0:
            return
    print(said.stdout[-2000:], file=sys.stderr)
    stop(
        f"{need}, and apt-get couldn't install {' or '.join(packages)} (its words are above). "
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
            f"{VENV} is a link to {os.path.realpath(VENV)}, and making it anew would empty what it points to. Nothing was changed; "
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
    said = run(python.path, "-m", "venv", "--clear", str(VENV))
    if said.returncode != 0:
        stop(f"{python} couldn't make .venv: {said.stdout.strip()[-500:]}")


def install_packages() -> None:
    lock = LOCK.read_text(encoding="utf-8")
    with (
        tempfile.TemporaryDirectory() as folder
    ):  # these first: what comes as source is built by the lock's tools
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
    told = os.environ.get("JAVA_HOME", "")
    settled = java_is_settled(home, told, done.get("told", ""))
    has_ps = shutil.which("ps")
    if settled and has_ps and not todo:
        return
    if not has_ps:  # what only root can install comes first, so that its lack is said before the long work
        install_ps()
    if not settled:
        home = (find_java() or install_java()).home
    work = {"venv": lambda: make_venv(python), "packages": install_packages, "project": install_project}
    for step in todo:
        work[step]()
        done = {**done, step: wanted[step]}
        DONE.write_text(json.dumps(done, indent=1), encoding="utf-8")
    DONE.write_text(json.dumps({**done, "told": told}, indent=1), encoding="utf-8")
    JAVA_HOME.write_text(home + "\n", encoding="utf-8")
    say(f"ready after {time.monotonic() - began:.0f} s, with Java at {home}")


if __name__ == "__main__":
    with LOCK.open(encoding="utf-8") as one_at_a_time:
        fcntl.flock(one_at_a_time, fcntl.LOCK_EX)
        try:
            set_up()
        except KeyboardInterrupt:
            stop("interrupted. Nothing outside .venv is half done; run make again and it goes on from here.")
