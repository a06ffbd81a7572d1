"""Spark sessions: the local Connect server that PySpark carries, a remote one, or a classic master.

The processes of one project and environment share a local server (`headrace.pipeline.lake.spark.server`), and it
outlives them by some minutes, because starting a server takes 5 s and joining one takes 1 s. The server's own
environment variables for AWS aren't used: region, endpoint and identity travel with each task
(`headrace.pipeline.task_identity`). The process that supervises the others (headrace dev, headrace demo, a pytest
session) stops the server at its end.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakSet

from headrace.pipeline.errors import BadSetting, Unreachable
from headrace.pipeline.lake.spark.channels import uninterrupted
from headrace.pipeline.lake.spark.engine_zip import ON_SERVER, engine_name, engine_zip, private_folder
from headrace.pipeline.lake.spark.quiet_pandas import ignore_warning
from headrace.pipeline.lake.spark.server.joining import (
    AUTHENTICATION,
    ServerStart,
    answers,
    bring_up,
    stop,
    stop_unused,
)
from headrace.pipeline.lake.spark.server.key import ServerKey, key_of, read, write
from headrace.pipeline.lake.spark.server.watch import delete_old
from headrace.pipeline.lake.spark.waiting import PATIENCE, telling, warn
from headrace.pipeline.ports.staging import OnWaiting
from headrace.pipeline.settings.model import SparkSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DISCOVERY = "SPARK_LOCAL_CONNECT_DISCOVERY"
"""PySpark's environment variable: the path of the file `connect.json` of a local server. A process that has it uses
this server, whatever the server was started for.
"""

_LOCAL = {
    # Little is enough: records never pass through the JVM, which carries one JSON document per task.
    "spark.driver.memory": "768m",
    # Without these two, Spark's ports listen on this host's public address.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    # The JVM only hands documents on: compiling its code twice, the second time with much optimization, and collecting
    # its garbage in several threads took more CPU than they saved.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.session.timeZone": "UTC",
}
_ISOLATION = "spark.sql.artifact.isolation.enabled"
"""Spark's setting: whether a session's files and modules are seen by this session alone."""
_SHARED = {**_LOCAL, "spark.python.daemon.module": "headrace.pipeline.lake.spark.worker_daemon"}

_CONNECT_MODE = "SPARK_CONNECT_MODE_ENABLED"
"""PySpark sets it with the first Connect session of a process, and chooses its functions by it."""
_MOST_TRIES = 5
"""So often PySpark asks a server again that doesn't answer. The pauses are 0.05, 0.2, 0.8, 3 and 13 s."""

_made: WeakSet[SparkSession] = WeakSet()
"""The sessions of this process with a local server."""


def spark_session(
    settings: SparkSettings,
    app: str,
    *,
    java_home: str | None = None,
    on_waiting: OnWaiting = warn,
    isolated: bool = False,
) -> SparkSession:
    """A Spark session by a worker's settings. The default is the local Connect server, which is started if none
    runs.

    While Spark is slow to start, `on_waiting` is called with sentences for people. `isolated`: the session has
    Python workers of its own on the local server, as code of the user needs them. A worker keeps the modules that
    it has imported, and other sessions' workers may have an earlier form of that code.
    """
    ignore_warning()
    if settings.remote and settings.master:
        raise BadSetting("spark.remote and spark.master are both set; choose one")
    remote = settings.remote or "local[2]"
    if settings.master:
        with telling(on_waiting, f"Spark at {settings.master}"):
            return _classic(settings.master, {"spark.app.name": app, **settings.conf}, java_home)
    if remote.startswith("sc://"):
        # A server that doesn't answer would make PySpark try for ten minutes without a word.
        with telling(on_waiting, f"Spark at {remote}"):
            _await_server(remote)
            return _connect(remote, {"spark.app.name": app, **settings.conf})
    if is_local(settings):
        return _local(
            remote,
            {**_SHARED, "spark.app.name": app, **settings.conf},
            java_home,
            on_waiting=on_waiting,
            isolated=isolated,
        )
    raise BadSetting(
        f"spark.remote is {remote!r}; it may be sc://host:port, or local[N] for the local server"
    )


def is_local(settings: SparkSettings) -> bool:
    """Whether these settings use the local Connect server."""
    return settings.master is None and (settings.remote or "local").startswith("local")


def stop_local_server(*, if_unused: bool = False) -> None:
    """Stop the local server if it runs. `if_unused`: leave it running where another process uses it."""
    # The sessions first: when the process ends, a session whose server is gone tries to reach it for minutes.
    for session in list(_made):
        session.stop()
    (stop_unused if if_unused else stop)(server_folder())


def _local(
    remote: str, conf: Mapping[str, str], java_home: str | None, *, on_waiting: OnWaiting, isolated: bool
) -> SparkSession:
    """A session on the local server, which is started if none runs.

    Only spark.sql.* options go to the session: the others count when a server starts, and one that already runs would
    answer each with a warning.
    """
    session_conf = {key: value for key, value in conf.items() if key.startswith("spark.sql.")}
    starting = {
        **environment_of_jvm(java_home),
        "PYTHONPATH": os.pathsep.join(filter(None, (str(engine_zip()), os.environ.get("PYTHONPATH")))),
    }
    folder = own_folder()
    with _environment(starting):
        start = ServerStart(master=remote, conf={**conf, ON_SERVER: engine_zip().name})
        server = bring_up(folder, start, user=conf["spark.app.name"], on_waiting=on_waiting)
        # Only while this session is made: PySpark would send the token to each other server, too, and ask it for TLS.
        with _environment({AUTHENTICATION: server.token}):
            session = _connect(server.url, session_conf, shared=not isolated)
    _made.add(session)
    return session


def server_folder(*, settings: Path | None = None) -> Path:
    """The folder of the local server that this process would join for the project with these settings. It may not
    exist."""
    if given := os.environ.get(DISCOVERY):
        return Path(given).absolute().parent
    return _folder_of(key_of_server(settings=settings))


def own_folder(*, settings: Path | None = None, dagster_home: Path | None = None) -> Path:
    """The folder of the local server that this process joins for this project. The folder is created where there
    is none.
    """
    if given := os.environ.get(DISCOVERY):
        folder = Path(given).absolute().parent
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder
    key = key_of_server(settings=settings, dagster_home=dagster_home)
    folder = _folder_of(key)
    if read(folder) == key:
        # The time says when the folder was last used: folders that were not used for long are deleted.
        os.utime(folder)
    else:
        delete_old(folder.parent)
        write(key, folder)
    return folder


def key_of_server(*, settings: Path | None = None, dagster_home: Path | None = None) -> ServerKey:
    """The key of the local server that this process would join for this project, in its environment."""
    return key_of(os.environ, engine_name(), settings=settings, dagster_home=dagster_home)


def _folder_of(key: ServerKey) -> Path:
    """The folder of the server with this key. It lies on this host, because the server does: two hosts may share a
    DAGSTER_HOME."""
    return private_folder("spark") / key.name


def _on_shared_workers(session: SparkSession) -> SparkSession:
    """This session on Python workers that all such sessions of the server share, if the server has this engine.

    For each other session Spark starts a daemon and workers anew, which takes more than a CPU second for imports alone.
    """
    if session.conf.get(ON_SERVER, "") != engine_zip().name or not hasattr(session, "cloneSession"):
        # A server with another version of the engine gets this one with the session; PySpark before 4.1 makes no such
        # clone.
        return session
    session.conf.set(_ISOLATION, "false")
    # Spark looks at the setting when a session begins.
    shared: SparkSession = session.cloneSession()
    uninterrupted(shared.client._channel)  # noqa: SLF001 - as above
    session.stop()
    return shared


def _await_server(url: str, patience: timedelta = PATIENCE) -> None:
    """Wait until a remote server answers. PySpark by itself tries again and again for ten minutes, and says nothing."""
    from pyspark.errors import PySparkException
    from pyspark.sql.connect.client import DefaultChannelBuilder

    try:
        channel = uninterrupted(DefaultChannelBuilder(url).toChannel())
    except PySparkException as error:
        raise BadSetting(
            f"spark.remote {url!r} isn't the address of a Spark Connect server: {error}; nothing was read"
        ) from error
    with closing(channel):
        if not answers(channel, patience):
            raise Unreachable(
                f"Spark at {url} didn't answer for {patience.total_seconds():.0f} s; nothing was read. Check "
                "workers.N.spark.remote, and whether the server runs"
            )


def _connect(url: str, conf: Mapping[str, str], *, shared: bool = False) -> SparkSession:
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    _without_stacks()
    builder = SparkSession.builder.remote(url)
    for key, value in conf.items():
        builder = builder.config(key, value)
    try:
        # Not an open session of this process, which may have other workers.
        session = builder.create()
        uninterrupted(session.client._channel)  # noqa: SLF001 - PySpark gives no other way to it
        session = _on_shared_workers(session) if shared else session
    except PySparkException as error:
        reason = _reason(str(error)) or type(error).__name__
        raise Unreachable(f"Spark at {url} gave no session: {reason}; nothing was read") from error
    _give_up_soon(session)
    return session


def _give_up_soon(session: SparkSession) -> None:
    """Let a job on a server that has died fail after a quarter of a minute. PySpark would try for ten minutes, in which the
    run beats and nobody else reads its shards; and a server that was started again doesn't know the session."""
    from pyspark.sql.connect.client.retries import DefaultPolicy

    session.client.set_retry_policies([DefaultPolicy(max_retries=_MOST_TRIES)])


def _without_stacks() -> None:
    """Let PySpark log no errors of a plan. It prints them as one line of JSON with the JVM's whole stack, and raises
    them as well."""
    from pyspark.logger import PySparkLogger

    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True


def _reason(text: str) -> str:
    """The readable part of an error: a gRPC error's details, else the first line."""
    details = re.search(r'details = "(.*?)"', text)
    return details[1] if details else text.strip().partition("\n")[0]


def _classic(master: str, conf: Mapping[str, str], java_home: str | None) -> SparkSession:
    # An earlier Connect session sets these for its process and its children, and they would overrule `master`.
    for name in (_CONNECT_MODE, "SPARK_REMOTE"):
        os.environ.pop(name, None)
    from pyspark.sql import SparkSession

    _without_stacks()
    builder = SparkSession.builder.master(master)
    for key, value in {**(_LOCAL if master.startswith("local") else {}), **conf}.items():
        builder = builder.config(key, value)
    with _environment(environment_of_jvm(java_home)):
        return builder.getOrCreate()


def environment_of_jvm(java_home: str | None) -> dict[str, str]:
    """Environment variables for a JVM that Headrace starts; its Python workers inherit them."""
    home = java_home or os.environ.get("JAVA_HOME")
    if not (Path(home, "bin", "java").exists() if home else shutil.which("java")):
        problem = f"JAVA_HOME is {home}, which has no bin/java" if home else "there is no java on the PATH"
        raise BadSetting(
            f"Spark needs Java 17 or newer, and {problem}; install one (apt install openjdk-17-jre-headless, "
            "brew install openjdk@17) or set JAVA_HOME"
        )
    return {
        # Otherwise Spark's workers run the `python3` on the PATH, which may lack pyarrow.
        "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable),
        # Otherwise Python puts the folder in which the server was started first on sys.path, before the shipped engine.
        "PYTHONSAFEPATH": "1",
        **({"JAVA_HOME": home} if home else {}),
    }


@contextmanager
def functions_of_session(*, connect: bool) -> Iterator[None]:
    """Let the functions of PySpark that a user's module calls while it is imported (`@udf`, `F.col`) be those of the session that
    is to run them. A process that has no session yet takes classic ones, which a Connect session can't run."""
    before = os.environ.pop(_CONNECT_MODE, None)
    if connect:
        os.environ[_CONNECT_MODE] = "1"
    try:
        yield
    finally:
        os.environ.pop(_CONNECT_MODE, None)
        if before is not None:
            os.environ[_CONNECT_MODE] = before


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables while Spark starts its processes. Other child processes must not inherit them."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
