"""Spark sessions: the local Connect server that PySpark carries, a remote one, or a classic master.

The local server is shared by all Headrace processes of a user and outlives them, because starting one takes
5 s and joining one 1 s. It keeps the environment it was started with: credentials that its workers find are
those of the process that came first. Region and endpoint travel with each task. Who supervises (headrace
dev, headrace demo, a pytest session) stops it with `stop_local_server`.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import socket
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.errors import BadSetting, Unreachable
from pipeline.lake.ship import engine_zip, private_folder
from pipeline.settings import SparkSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DISCOVERY = "SPARK_LOCAL_CONNECT_DISCOVERY"
"""PySpark's variable: the file that tells how to reach the local server. Set it for a server of one's own."""

_LOCAL = {
    # The payload never crosses the JVM: it carries a JSON document per task.
    "spark.driver.memory": "768m",
    # Else its ports listen on this host's public address.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
}
_SHARED = {**_LOCAL, "spark.python.daemon.module": "pipeline.lake.worker_daemon"}


def spark_session(settings: SparkSettings, app: str, *, java_home: str | None = None) -> SparkSession:
    """A session as the settings say: by default on the local Connect server, which is started if none runs."""
    # PySpark 4.3 warns of pandas 3 at each import; nothing here touches pandas, rows stay in Arrow.
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    if settings.remote and settings.master:
        raise BadSetting("spark.remote and spark.master are both set; choose one")
    remote = settings.remote or "local[2]"
    if settings.master:
        return _classic(settings.master, {"spark.app.name": app, **settings.conf}, java_home)
    if remote.startswith("sc://"):
        return _connect(remote, {"spark.app.name": app, **settings.conf})
    if remote.startswith("local"):
        return _local(remote, {**_SHARED, "spark.app.name": app, **settings.conf}, java_home)
    raise BadSetting(
        f"spark.remote is {remote!r}; it may be sc://host:port, or local[N] for the local server"
    )


def stop_local_server() -> bool:
    """Stop the local server if it runs; whether it did."""
    discovery = _discovery()
    if not discovery.exists():
        return False
    from pyspark.sql.connect.local_server import stop_local_connect_server
    from pyspark.sql.connect.session import SparkSession

    # A session that finds its server gone asks for it again and again, for minutes, when the process ends.
    if (mine := SparkSession.getActiveSession()) is not None:
        mine.stop()
    with _environment({DISCOVERY: str(discovery)}):
        return bool(stop_local_connect_server())


def _local(remote: str, conf: Mapping[str, str], java_home: str | None) -> SparkSession:
    """What only a starting server can take goes the way of PySpark's own shell: as options of the session, a
    server that runs already would refuse it with a warning.
    """
    session_conf = {key: value for key, value in conf.items() if key.startswith("spark.sql.")}
    starting = {
        **_for_workers(java_home),
        "PYTHONPATH": os.pathsep.join(filter(None, (str(engine_zip()), os.environ.get("PYTHONPATH")))),
        DISCOVERY: str(_discovery()),
        "PYSPARK_REMOTE_INIT_CONF_LEN": "1",
        "PYSPARK_REMOTE_INIT_CONF_0": json.dumps(dict(conf)),
    }
    with _environment(starting):
        return _connect(
            remote,
            {
                "spark.local.connect.reuse": "true",
                "spark.local.connect.server.port": _free_port(),
                **session_conf,
            },
        )


def _connect(url: str, conf: Mapping[str, str]) -> SparkSession:
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.remote(url)
    for key, value in conf.items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    except PySparkException as error:
        reason = _reason(str(error)) or type(error).__name__
        raise Unreachable(f"Spark at {url} gave no session: {reason}; nothing was read") from error


def _reason(text: str) -> str:
    """Its first line, or what a gRPC error calls its details."""
    details = re.search(r'details = "(.*?)"', text)
    return details[1] if details else text.strip().partition("\n")[0]


def _classic(master: str, conf: Mapping[str, str], java_home: str | None) -> SparkSession:
    for name in ("SPARK_CONNECT_MODE_ENABLED", "SPARK_REMOTE"):
        os.environ.pop(name, None)  # a Connect session of this process or its parent left it: it would win
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master)
    for key, value in {**(_LOCAL if master.startswith("local") else {}), **conf}.items():
        builder = builder.config(key, value)
    with _environment(_for_workers(java_home)):
        return builder.getOrCreate()


def _for_workers(java_home: str | None) -> dict[str, str]:
    """The environment that a JVM of ours, and by it its workers, starts with."""
    home = java_home or os.environ.get("JAVA_HOME")
    if not (Path(home, "bin", "java").exists() if home else shutil.which("java")):
        where = f"JAVA_HOME is {home}, which has no bin/java" if home else "there is no java on the PATH"
        raise BadSetting(
            f"Spark needs Java 17 or 21, and {where}; install one (apt install openjdk-17-jre-headless, "
            "brew install openjdk@17) or set JAVA_HOME"
        )
    return {
        # Else workers take the system's Python, which lacks pyarrow.
        "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable),
        # Else workers import from the folder that the server was started in before the engine that was shipped.
        "PYTHONSAFEPATH": "1",
        **({"JAVA_HOME": home} if home else {}),
    }


def _free_port() -> str:
    """PySpark would take 15002 where nobody listens yet: two servers that start together then get in each
    other's way, and the one that lost is talked to as if it had won.
    """
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        return str(asked.getsockname()[1])


def discovery_in(dagster_home: Path) -> Path:
    """Of the server that belongs to one Dagster. Its log and pid file lie beside it."""
    if " " not in str(dagster_home):
        return dagster_home / "spark" / "connect.json"
    # Spark's own start script leaves these two names unquoted: a path with a space starts no server.
    name = hashlib.sha256(str(dagster_home).encode()).hexdigest()[:12]
    return private_folder(f"spark-{name}") / "connect.json"


def _discovery() -> Path:
    """Headrace's local server is not the one of the user's other Spark work: stopping it stops nothing else."""
    if told := os.environ.get(DISCOVERY):
        return Path(told)
    home = os.environ.get("DAGSTER_HOME")
    if home and discovery_in(Path(home)).exists():
        return discovery_in(
            Path(home)
        )  # a run from the shell joins the server of the `headrace dev` that is up
    return private_folder("spark") / "connect.json"  # PySpark keeps the server's token there


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """For what Spark starts only: this process's other children must not inherit it."""
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
