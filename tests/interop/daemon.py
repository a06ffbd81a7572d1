"""KCL's MultiLangDaemon: its command, and its file."""

from __future__ import annotations

import os
from pathlib import Path

from headrace.pipeline.local.endpoint import LocalAws
from tests.interop.build import daemon_class_path

CLASS_PATH = "MULTILANG_CLASS_PATH"
"""The environment variable with the class path of a daemon that was built by hand: Maven Central lacks some versions."""
_MAIN = "software.amazon.kinesis.multilang.MultiLangDaemon"


def class_path_of_daemon(kcl: str) -> str:
    return os.environ.get(CLASS_PATH) or daemon_class_path(kcl)


def daemon_command(
    folder: Path, executable: str, aws: LocalAws, class_path: str, *, app: str, stream: str, **more: object
) -> list[str]:
    """The command of a daemon that reads a stream from its oldest record on. `more`: further lines of its file."""
    properties: dict[str, object] = {
        "executableName": executable,
        "streamName": stream,
        "applicationName": app,
        "AwsCredentialsProvider": "DefaultCredentialsProvider",
        "initialPositionInStream": "TRIM_HORIZON",
        "regionName": aws.region,
        "kinesisEndpoint": aws.endpoint,
        "dynamoDBEndpoint": aws.endpoint,
        "retrievalMode": "POLLING",
        "metricsLevel": "NONE",
        "shardSyncIntervalMillis": 1000,
        **more,
    }
    file = folder / f"{app}.properties"
    file.write_text("".join(f"{key} = {value}\n" for key, value in properties.items()))
    # Older versions of Java take the character set of their lines from the host's language.
    return ["java", "-Dfile.encoding=UTF-8", "-cp", class_path, _MAIN, "--properties-file", str(file)]
