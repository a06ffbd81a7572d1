"""Starts the process of a processor, with the user's modules in a folder of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from headrace.kclpy.kcl import HOST
from headrace.kclpy.runner import AS_AMAZON_KCLPY
from headrace.pipeline.processors.child import ProcessorChild, launcher, to_stderr
from headrace.pipeline.processors.values import ChildSpec


@contextmanager
def folder_of(child: ChildSpec) -> Iterator[str]:
    """A temporary folder with the user's modules."""
    folder = tempfile.mkdtemp(prefix="headrace-processor-")
    try:
        for path, source in child.files.items():
            place = Path(folder, path)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(source)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def process_of(spec: ChildSpec, folder: str, *, grace: float) -> Iterator[ProcessorChild]:
    child = start_child(spec, folder)
    try:
        yield child
        child.close(grace=grace)
    finally:
        child.kill()


def own_environ() -> dict[str, str]:
    """The environment of this process, with a path on which a new Python process finds the same modules."""
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        # Else the folder in which it starts would come before these paths.
        "PYTHONSAFEPATH": "1",
    }


def start_child(
    spec: ChildSpec,
    folder: str,
    environ: Mapping[str, str] | None = None,
    tell: Callable[[str], None] = to_stderr,
) -> ProcessorChild:
    """Start the process of a processor, as its specification says.

    `folder`: where the user's modules are. `environ`: the environment of the task, where that is another process. `tell`: takes what
    the process writes to stderr.
    """
    return ProcessorChild.start(
        spec.command or _python(spec, "runner"),
        folder=_beginning_of(spec, folder),
        environ=child_environ(folder, own_environ() if environ is None else environ),
        memory=spec.memory or 0,
        cpu=spec.cpu or 0,
        tell=tell,
    )


def start_importer(
    spec: ChildSpec, folder: str, environ: Mapping[str, str], socket: int
) -> subprocess.Popen[bytes]:
    """Start the process that imports the user's module once, and then forks a process for each request that comes
    through this socket. The CPU limit applies to each forked process.
    """
    return subprocess.Popen(  # noqa: S603 - the code is the user's own, from the settings
        (*launcher(memory=spec.memory or 0, cpu=0), *_python(spec, "importer")),
        stdin=socket,
        stdout=subprocess.DEVNULL,
        cwd=_beginning_of(spec, folder),
        env=child_environ(folder, environ),
        start_new_session=True,
    )


def _python(spec: ChildSpec, module: str) -> tuple[str, ...]:
    more = (AS_AMAZON_KCLPY,) if spec.as_amazon_kclpy else ()
    return (sys.executable, "-m", f"headrace.kclpy.{module}", spec.code, *more)


def child_environ(folder: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a process of the processor. `environ`: that of the task."""
    return {
        **environ,
        "PYTHONPATH": os.pathsep.join((folder, environ["PYTHONPATH"])),
        "PYTHONUNBUFFERED": "1",
        HOST: "1",
    }


def _beginning_of(spec: ChildSpec, folder: str) -> str | None:
    """The folder in which the process begins; None for that of this process."""
    # Spark's worker may be another user, who may not go into the folder. The slash leaves out a file of this name.
    if spec.folder and os.access(f"{spec.folder}/", os.X_OK):
        return spec.folder
    # A command may be a file that was shipped with Spark's job, into the folder of its worker.
    return None if spec.command else folder
