"""Starting and stopping: in a thread, as a command, as pytest fixtures."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from http.client import HTTPConnection

import pytest

from headrace.pipeline.local.__main__ import main
from headrace.pipeline.local.clock import MovableClock
from headrace.pipeline.local.endpoint import LocalAws, local_aws
from headrace.pipeline.local.server import serve
from tests.docs.pages import ROOT
from tests.local.builders import a_stream, an_iterator, refuses

COMMAND = [sys.executable, "-m", "headrace.pipeline.local", "--port", "0"]


def is_open(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_a_server_in_a_thread_serves_until_its_context_ends():
    with serve(transition=0) as server:
        client = LocalAws(server.endpoint).client("kinesis")
        a_stream(client, name="orders")
        assert client.list_streams()["StreamNames"] == ["orders"]
        assert is_open(server.port)
    assert not is_open(server.port)


def test_connections_that_come_while_the_server_stops_are_closed_too():
    for _ in range(20):
        with serve() as server:
            probes = [socket.create_connection(("127.0.0.1", server.port), timeout=30) for _ in range(5)]
        assert [what_is_left(probe) for probe in probes] == [b""] * 5


def what_is_left(probe):
    """What the server still sends; empty if it has closed the connection."""
    with probe, contextlib.suppress(ConnectionResetError):
        return probe.recv(1)
    return b""


def test_a_server_can_be_started_with_any_clock_and_with_throttling():
    with serve(throttle=True, transition=0, base=MovableClock()) as server:
        aws = LocalAws(server.endpoint)
        client = aws.client("kinesis", config=None)
        a_stream(client)
        token = an_iterator(client)
        server.kinesis.faults.clear()
        for _ in range(5):
            client.get_records(ShardIterator=token)
        once = aws.client("kinesis", config=one_attempt())
        with refuses("ProvisionedThroughputExceededException"):
            once.get_records(ShardIterator=token)
        aws.advance(1)
        assert once.get_records(ShardIterator=token)["Records"] == []


def one_attempt():
    from botocore.config import Config

    return Config(retries={"total_max_attempts": 1})


def test_the_server_listens_on_loopback_only_and_a_port_in_use_is_an_error(capsys):
    with serve() as server:
        assert server.endpoint == f"http://127.0.0.1:{server.port}"
        with pytest.raises(OSError, match="did not start"):
            serve(server.port)
        assert main(["--port", str(server.port)]) == 2
        told = capsys.readouterr().err
        assert told.startswith(f"headrace: port {server.port} of this machine can't be listened on (")
        assert told.endswith("name a free port with --port; nothing was started\n")


@pytest.mark.parametrize(
    "words",
    [
        ("--port", "http"),
        ("--port", "65536"),
        ("--port", "9" * 5000),
        ("--port", "٣"),
        ("--transition", "soon"),
        ("--transition", "nan"),
        ("--transition", "-1"),
        ("--transition", "1e300"),
        ("--region", "europe"),
        ("--region", "x; rm -rf /"),
        ("--seed", "0.5"),
    ],
)
def test_a_wrong_argument_is_refused_with_what_is_allowed(capsys, words):
    with pytest.raises(SystemExit) as stopped:
        main(["--port", "0", *words])
    assert stopped.value.code == 2
    assert f"argument {words[0]}: " in capsys.readouterr().err


def test_equal_seeds_give_streams_the_same_ids_and_different_seeds_others():
    def iterator(seed):
        # It has the stream's id, and the time.
        with serve(seed=seed, base=lambda: 1_800_000_000.0, transition=0) as server:
            client = LocalAws(server.endpoint).client("kinesis")
            a_stream(client)
            return an_iterator(client)

    first, again, other = iterator(1), iterator(1), iterator(2)
    assert first == again != other


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_the_command_prints_its_address_and_ends_with_code_0_on_a_signal(stop):
    with subprocess.Popen(COMMAND, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        port = int(line.split()[5].rpartition(":")[2])
        connection = HTTPConnection(
            "127.0.0.1", port
        )  # this connection stays open: an idle connection must not delay the stop
        connection.request("GET", "/_headrace/health")
        status = connection.getresponse().status
        process.send_signal(stop)
        rest = process.stdout.read()
        code = process.wait()
        connection.close()
    assert (status, rest, code) == (200, "", 0)
    assert f"AWS_ENDPOINT_URL=http://127.0.0.1:{port}" in line


def test_boto3_understands_the_export_that_the_command_prints():
    asks = "import boto3; print(boto3.client('kinesis').list_streams()['StreamNames'])"
    with subprocess.Popen(COMMAND, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        export = line[line.index("(export ") + 1 : line.rindex(")")]
        without = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        found = subprocess.run(
            ["/bin/sh", "-c", f'{export}; exec "$0" -c "$1"', sys.executable, asks],
            env={**without, "HOME": "/nonexistent"},
            capture_output=True,
            check=False,
            text=True,
        )
        process.terminate()
    assert (found.stdout, found.stderr, found.returncode) == ("[]\n", "", 0)


def test_the_region_that_the_command_prints_is_that_of_the_example_and_of_the_readme():
    """A stream that a producer makes by the printed line is the one that Headrace reads by these settings."""
    (example,) = re.findall(
        r"AWS_DEFAULT_REGION=(\S+)", (ROOT / "examples/own-stream/README.md").read_text(encoding="utf-8")
    )
    assert f"  region: {example}\n" in (ROOT / "README.md").read_text(encoding="utf-8")
    for more, region in (((), example), (("--region", "us-east-1"), "us-east-1")):
        with subprocess.Popen([*COMMAND, *more], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            line = process.stdout.readline()
            process.terminate()
        assert f" AWS_REGION={region} AWS_DEFAULT_REGION={region} " in line


def test_the_command_can_be_told_to_end_with_its_parent_process():
    with subprocess.Popen(
        [*COMMAND, "--while-stdin"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        ready = process.stdout.readline()
        process.stdin.close()
        code = process.wait()
    assert "ready" in ready
    assert code == 0


@pytest.mark.parametrize(
    "argv", [["--port", "x"], ["--port", "70000"], ["--transition", "-1"], ["--transition", "nan"]]
)
def test_a_bad_option_is_refused(argv, capsys):
    with pytest.raises(SystemExit):
        main(argv)
    assert "error: argument" in capsys.readouterr().err


def test_reset_removes_streams_tables_buckets_faults_and_the_clocks_offset():
    with local_aws("--transition", "0") as aws:
        kinesis, s3 = aws.client("kinesis"), aws.client("s3")
        a_stream(kinesis)
        s3.create_bucket(Bucket="lake")
        aws.set_clock_off(60)
        aws.inject("delay", operation="Nothing")
        aws.reset()
        assert (kinesis.list_streams()["StreamNames"], s3.list_buckets()["Buckets"], aws.faults()) == (
            [],
            [],
            [],
        )


def test_another_process_finds_the_stand_in_by_environment_variables_alone():
    code = "import boto3; print(boto3.client('kinesis').list_streams()['StreamNames'])"
    with local_aws("--transition", "0") as aws:
        a_stream(aws.client("kinesis"))
        said = subprocess.run(
            [sys.executable, "-c", code], env=aws.environment, capture_output=True, text=True, check=True
        )
    assert said.stdout == "['orders']\n"


def test_users_of_the_pytest_plugin_get_its_fixtures(tmp_path):
    (tmp_path / "test_mine.py").write_text(
        "def test_served(headrace_aws):\n"
        "    kinesis = headrace_aws.client('kinesis')\n"
        "    kinesis.create_stream(StreamName='mine', ShardCount=1)\n"
        "    assert kinesis.list_streams()['StreamNames'] == ['mine']\n"
        "def test_in_process(headrace_kinesis):\n"
        "    client = headrace_kinesis.client()\n"
        "    client.create_stream(StreamName='mine', ShardCount=1)\n"
        "    headrace_kinesis.clock.advance(1)\n"
        "    assert client.list_streams()['StreamNames'] == ['mine']\n"
    )
    # The plugin is named by its path and not by an entry point, so that a checkout that isn't installed works too.
    plugin = ["-p", "no:headrace", "-p", "headrace.pipeline.local.pytest_plugin", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "-q", *plugin, "--rootdir", str(tmp_path), str(tmp_path)]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "2 passed" in said.stdout, said.stdout + said.stderr


def test_the_plugin_imports_nothing_in_test_runs_that_dont_use_it():
    code = "import sys, headrace.pipeline.local.pytest_plugin; print({'moto', 'boto3', 'orjson', 'flask'} & set(sys.modules))"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout == "set()\n"
