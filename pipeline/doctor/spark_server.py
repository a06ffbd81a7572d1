"""A check: the local Spark server of the project. Other Spark servers of this user on this host are named too,
and left alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.pipeline.doctor.case import Case
from headrace.pipeline.doctor.diagnosis import Diagnosis, Health
from headrace.pipeline.lake.spark.server.facts import LocalServer, servers_of_user
from headrace.pipeline.lake.spark.server.joining import is_reachable
from headrace.pipeline.lake.spark.server.key import ServerKey
from headrace.pipeline.lake.spark.session import key_of_server, server_folder

_OWN, _OTHER = "local Spark server", "other Spark servers"


def own_server(case: Case) -> Iterator[Diagnosis]:
    if not case.uses_local_spark:
        yield Diagnosis(_OWN, Health.WELL, "not used: no worker has a local Spark")
        return
    folder = server_folder(settings=case.file)
    server = next((server for server in servers_of_user() if server.is_own(folder)), None)
    if server is None:
        yield Diagnosis(_OWN, Health.WELL, "none runs; the first run or command that needs it starts it")
    # A process that is there may still hang, or not be up yet.
    elif not is_reachable(folder):
        yield Diagnosis(
            _OWN,
            Health.NOTE,
            f"{server}. It doesn't accept connections: it is starting, or it hangs",
            f"If that lasts, end it with `kill {server.process.pid}`: "
            "the next run or command starts a new one, and no landed record is touched",
        )
    else:
        yield Diagnosis(_OWN, Health.WELL if server.is_watched else Health.NOTE, str(server))


def other_servers(case: Case) -> Iterator[Diagnosis]:
    folder = server_folder(settings=case.file)
    foreign = [server for server in servers_of_user() if not server.is_own(folder)]
    if not foreign:
        yield Diagnosis(_OTHER, Health.WELL, "none of this user on this host")
    own = key_of_server(settings=case.file)
    for server in foreign:
        yield Diagnosis(_OTHER, Health.NOTE, f"{_whose(server, own)}: {server}", _advice(server))


def _whose(server: LocalServer, own: ServerKey) -> str:
    key = server.key
    if key is None:
        return "a Spark server of no known project"
    if not server.is_of_project(own):
        return (
            f"of another project ({key.settings or 'no settings file'}, DAGSTER_HOME "
            f"{key.dagster_home or 'not set'})"
        )
    return f"of this project in another environment ({', '.join(own.differences(key)) or 'nothing'} differs)"


def _advice(server: LocalServer) -> str:
    pid = server.process.pid
    if server.users:
        return "This project never joins it"
    if server.is_watched:
        return f"This project never joins it; `kill {pid}` ends it earlier"
    return f"This project never joins it. If no other program of yours uses it, end it with `kill {pid}`"
