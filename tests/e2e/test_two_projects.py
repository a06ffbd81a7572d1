"""Two projects of one user on one host, with streams of one name in two AWS accounts: each lands its own records only."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.projects import Project, two_projects
from tests.eventually import eventually


@pytest.fixture
def projects(tmp_path: Path) -> Iterator[tuple[Project, Project]]:
    with two_projects(tmp_path) as made:
        yield made


@pytest.mark.slow  # tests/cli/test_two_projects.py and tests/lake/spark/test_spark_server_key.py show the two halves of it
def test_commands_of_two_projects_in_turns_land_and_prove_their_own_records_only(
    projects: tuple[Project, Project],
):
    one, other = projects
    for project, count in ((one, 30), (other, 10)):
        project.make_leases()
        project.produce(count)
    for project in (one, other, one):
        project.produce(5)
        project.consume()
        project.check()
    for project in (other, one):
        assert f"proved: {len(project.put)} records" in project.headrace("prove")

    [server], [server_of_other] = one.servers(), other.servers()
    assert f"local Spark server: process {server.process.pid}, since " in one.headrace("status")
    # No daemon runs here, which a person has to know.
    seen = other.headrace("doctor", code=2)
    assert f"local Spark server: process {server_of_other.process.pid}, since " in seen
    assert f"other Spark servers: of another project ({one.config}, " in seen
    assert f"): process {server.process.pid}, since " in seen


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, 1], ids=["headrace dev first", "dagster dev first"])
def test_two_projects_with_dagster_and_commands_at_once_land_parse_and_prove_their_own_records_only(
    projects: tuple[Project, Project], first: int
):
    one, other = projects
    for project, count in ((one, 30), (other, 10)):
        project.produce(count)
    starts = [one.headrace_dev, other.dagster_dev]
    with starts[first](), starts[1 - first]():
        for project in projects:
            eventually(project.has_landed_all, f"{project.name}: all has landed: {project.log()}", within=300)
        for project in (other, one, one, other):
            project.produce(5)
            project.consume()
            project.headrace("parse")
        for project in (one, other):
            project.headrace("prove")
            project.check()
            assert project.parsed() == sorted(project.put)
            assert len(project.servers()) == 1, "Dagster and the commands of a project share one server"
    assert one.servers() == [], "headrace dev has ended its server"
    assert len(other.servers()) == 1, "the server of dagster dev stays for some minutes"
    one.produce(5)
    one.consume()
    for project in projects:
        assert "proved: " in project.headrace("prove")
        project.check()


@pytest.mark.slow
def test_a_command_goes_on_where_the_headrace_dev_whose_server_it_uses_ends(
    projects: tuple[Project, Project],
):
    one, _ = projects
    one.produce(30)
    with one.headrace_dev() as dev:
        eventually(one.has_landed_all, f"all has landed: {one.log()}", within=300)
        [server] = one.servers()
        with one.user_of_the_server() as user:
            dev.send_signal(signal.SIGINT)
            assert dev.wait(180) == 0
            [still] = one.servers()
            assert still.process.pid == server.process.pid
            assert [each.pid for each in still.users] == [user.pid]
            one.consume()
    one.check()
