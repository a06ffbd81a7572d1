"""`headrace dev`: Dagster's UI and daemon on the user's own settings, until a signal."""

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.cli.options import add_config, load

if TYPE_CHECKING:
    from pipeline.cli.options import Subparsers
    from pipeline.settings_file import Loaded


def add(subparsers: "Subparsers") -> None:
    parser = subparsers.add_parser(
        "dev", description="Run Dagster's UI and daemon on this machine with these settings."
    )
    add_config(parser)
    parser.add_argument("--port", type=int, default=3000, help="the UI's port on 127.0.0.1 (default: 3000)")


def run(args: argparse.Namespace) -> int:
    from pipeline.cli import services
    from pipeline.errors import BadSetting

    loaded = load(args)
    config = Path(loaded.name)
    if not services.is_free(args.port):
        raise BadSetting(f"port {args.port} is taken: name a free one with --port; nothing was started")
    home = services.dagster_home(config)
    workspace = services.prepare_dagster_home(home)
    print(_sentence(loaded, home), flush=True)
    with services.stopped_by_signals(), services.spark_of_its_own(home):
        command = services.dagster_command(workspace, args.port)
        dagster = services.Group(command, env=services.environment(os.environ, config, home))
        try:
            for _ in services.wait_for_ui(dagster, args.port):
                continue
            print(f"headrace: UI at http://{services.HOST}:{args.port} - press Ctrl-C to stop", flush=True)
            return dagster.wait()
        except KeyboardInterrupt:
            return 0
        finally:
            print("headrace: stopping Dagster, its runs and the local Spark", flush=True)
            dagster.stop()


def _sentence(loaded: "Loaded", home: Path) -> str:
    settings = loaded.settings
    streams = ", ".join(s.name for s in settings.streams)
    workers = ", ".join(w.id for w in settings.workers)
    where = settings.aws.endpoint or settings.aws.region or "the environment's region"
    return (
        f"headrace: starting Dagster for {settings.application} ({loaded.name}): stream {streams} at {where}, "
        f"workers {workers}, table {settings.landing.table}; DAGSTER_HOME {home}"
    )
