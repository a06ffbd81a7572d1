"""The archive of the Java classes with which a user's local Spark servers start."""

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from headrace.pipeline.lake.spark.server.classes import OPTIONS, caches, keep, with_archive
from headrace.pipeline.lake.spark.server.process import CONF, pid_of
from headrace.pipeline.lake.spark.session import DISCOVERY, spark_session, stop_local_server
from headrace.pipeline.settings.model import SparkSettings
from tests.spark_classes import OPTIONS as SUBMIT_OPTIONS

CONFIGURATION = {OPTIONS: "-XX:+UseSerialGC", "spark.driver.memory": "768m"}


class Host:
    """A host with a Java, Spark's jars and a folder for caches, and with servers that start and end."""

    def __init__(self, folder: Path) -> None:
        self.java, self.jars, self.home = folder / "jdk", folder / "jars", folder / "home of a user"
        (self.java / "bin").mkdir(parents=True)
        (self.java / "bin" / "java").touch()
        self.jars.mkdir()
        (self.jars / "spark.jar").write_text("classes")
        (self.home / ".cache").mkdir(parents=True)
        self.environ = {"HOME": str(self.home), "JAVA_HOME": str(self.java)}
        self._folder = folder

    @property
    def archives(self) -> list[Path]:
        return sorted((self.home / ".cache" / "headrace").glob("*"))

    def start(self, server: str = "server") -> str:
        """Java's options for the archive of a server that starts."""
        folder = self._folder / server
        folder.mkdir(exist_ok=True)
        options = with_archive(CONFIGURATION, folder, self.jars, self.environ)
        assert options["spark.driver.memory"] == "768m"
        return options[OPTIONS].removesuffix(CONFIGURATION[OPTIONS])

    def end(self, server: str = "server", *, written: str = "") -> None:
        if written:
            (begun,) = (path for path in self.archives if path.suffix == ".begun")
            begun.write_text(written)
        keep(self._folder / server)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    monkeypatch.setattr("sys.platform", "linux")
    return Host(tmp_path)


def test_the_first_server_writes_the_archive_with_which_the_next_ones_start(host: Host):
    assert "-XX:ArchiveClassesAtExit=" in host.start()
    host.end(written="all classes")
    (archive,) = host.archives
    assert archive.read_text() == "all classes"
    for server in ("server", "of another project"):
        assert f'"-XX:SharedArchiveFile={archive}"' in host.start(server), "also where its path has a space"
        host.end(server)
    assert host.archives == [archive]


def test_one_of_two_servers_writes_it_and_another_one_tries_a_day_after_it_was_killed(host: Host):
    assert "ArchiveClassesAtExit" in host.start()
    assert host.start("of another project") == ""
    host.end("of another project")
    host.end()
    assert host.start() == "", "it was killed, and wrote nothing"
    (begun,) = host.archives
    os.utime(begun, (0, 0))
    assert "ArchiveClassesAtExit" in host.start()


def test_another_java_or_other_jars_have_an_archive_of_their_own(host: Host):
    host.start()
    host.end(written="all classes")
    (host.jars / "spark.jar").write_text("other classes")
    assert "ArchiveClassesAtExit" in host.start()
    host.end(written="the other classes")
    (host.java / "release").write_text('JAVA_VERSION="21"')
    assert "ArchiveClassesAtExit" in host.start()
    assert len(host.archives) == 3


def test_an_archive_that_no_server_has_used_for_a_month_is_deleted(host: Host):
    host.start()
    host.end(written="all classes")
    (old,) = host.archives
    os.utime(old, (0, 0))
    (host.jars / "spark.jar").write_text("other classes")
    host.start()
    host.end(written="the other classes")
    assert old not in host.archives
    assert len(host.archives) == 1


def _compiled(folder: Path) -> list[str]:
    """The arguments of a Java program that prints `done`, with a class of its own."""
    source = folder / "Done.java"
    source.write_text(
        "import java.util.stream.*; public class Done { public static void main(String[] words) {"
        ' System.out.println(Stream.of("done").map(word -> word).collect(Collectors.joining())); } }'
    )
    subprocess.run(["javac", source.name], cwd=folder, check=True)
    subprocess.run(["jar", "cf", "done.jar", "Done.class"], cwd=folder, check=True)
    return ["-cp", str(folder / "done.jar"), "Done"]


def test_an_archive_of_which_a_part_is_lost_keeps_no_server_from_starting(host: Host, tmp_path: Path):
    """A host that loses its power may keep a file's length and its beginning, and nothing between. Java believes an archive
    by its beginning, and would crash at each start."""
    program = _compiled(tmp_path)
    host.start()
    (begun,) = host.archives
    begun.unlink()
    subprocess.run(["java", f"-XX:ArchiveClassesAtExit={begun}", *program], check=True)
    host.end()
    (archive,) = host.archives
    whole = archive.read_bytes()
    lost = len(whole) // 4
    for hole in range(lost // 2, len(whole) - lost, lost // 2):
        archive.chmod(0o600)
        archive.write_bytes(whole[:hole] + bytes(lost) + whole[hole + lost :])
        java = subprocess.run(
            ["java", *shlex.split(host.start()), *program],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            check=False,
        )
        assert (java.returncode, java.stdout) == (0, "done\n"), hole


def test_what_the_user_lets_java_log_stays(host: Host):
    given = {OPTIONS: "-Xlog:gc"}
    options = with_archive(given, host.home, host.jars, host.environ)[OPTIONS]
    assert options.startswith("-Xlog:disable ")
    assert options.endswith(" -Xlog:gc"), "a later option of Java's counts"


@pytest.mark.parametrize("option", ["-Xshare:off", "-XX:SharedArchiveFile=/mine.jsa"])
def test_a_users_own_options_for_an_archive_stay(host: Host, option: str):
    host.environ[SUBMIT_OPTIONS] = option
    assert host.start() == ""
    given = {OPTIONS: option}
    host.environ.pop(SUBMIT_OPTIONS)
    assert with_archive(given, host.home, host.jars, host.environ) == given


def test_where_nothing_can_be_kept_servers_start_as_they_are(host: Host):
    """No folder for caches, as in a container; no Java; a folder that can't be made; jars that are gone."""
    usual = dict(host.environ)
    host.environ["HOME"] = str(host.jars)
    assert host.start() == ""
    host.environ = {**usual, "JAVA_HOME": "/nowhere"}
    assert host.start() == ""
    host.environ = usual
    (host.home / ".cache" / "headrace").touch()
    assert host.start() == ""
    (host.home / ".cache" / "headrace").unlink()
    (host.jars / "spark.jar").unlink()
    host.jars.rmdir()
    assert host.start() == ""
    host.end()


def test_the_archive_of_another_user_is_left_alone(host: Host, monkeypatch: pytest.MonkeyPatch):
    """A cache folder may be one for all users of a host. Java runs what an archive says."""
    host.start()
    host.end(written="all classes")
    monkeypatch.setattr("os.getuid", lambda: host.home.stat().st_uid + 1)
    assert host.start() == ""


def test_the_folder_for_caches_is_that_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.platform", "darwin")
    (tmp_path / "Library" / "Caches").mkdir(parents=True)
    assert caches({"HOME": str(tmp_path)}) == tmp_path / "Library" / "Caches"
    assert caches({"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}) == tmp_path
    assert caches({}) is None


@pytest.mark.slow
def test_java_writes_an_archive_at_the_end_of_a_server_and_the_next_one_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "caches").mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    monkeypatch.setenv(DISCOVERY, str(tmp_path / "server" / "connect.json"))
    monkeypatch.delenv(SUBMIT_OPTIONS)
    for _ in range(2):
        session = spark_session(SparkSettings(remote="local[2]"), "classes")
        assert session.range(3).count() == 3
        pid = pid_of(tmp_path / "server")
        maps = Path(f"/proc/{pid}/maps").read_text()
        options = (tmp_path / "server" / CONF).read_text()
        stop_local_server()
    (archive,) = (tmp_path / "caches" / "headrace").iterdir()
    assert f"SharedArchiveFile={archive}" in options
    assert str(archive) in maps, "Java has taken it"
