"""A look at the lake table ends in time, and tells a table that is gone from one that can't be looked at."""

import socket
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from headrace.pipeline.health.lake_table_look import LakeTableLook, LakeTableSeen
from headrace.pipeline.settings.model import LandingSettings, Settings
from tests.duties.world import World


def with_landing(landing: LandingSettings) -> Settings:
    return replace(World().settings, landing=landing)


def test_a_home_that_isnt_there_has_no_table_and_is_not_made(tmp_path: Path):
    home = tmp_path / "lake"
    assert LakeTableLook(with_landing(LandingSettings(home=str(home)))).seen() == LakeTableSeen(False)
    assert not home.exists()


def test_a_catalog_without_the_table_says_so(tmp_path: Path):
    assert LakeTableLook(with_landing(LandingSettings(home=str(tmp_path)))).seen() == LakeTableSeen(False)


def test_a_catalog_that_never_answers_is_not_waited_for(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        uri = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        settings = with_landing(
            LandingSettings(catalog={"type": "rest", "uri": uri}, state=str(tmp_path / "state"))
        )
        seen = LakeTableLook(settings, timedelta(seconds=1)).seen()
    assert seen == LakeTableSeen(None, "its catalog, or its metadata, didn't answer within 1 s")


def test_a_catalog_that_refuses_is_told_with_the_reason(tmp_path: Path):
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/no/such/folder.db", "warehouse": str(tmp_path)}
    seen = LakeTableLook(with_landing(LandingSettings(catalog=catalog, state=str(tmp_path / "state")))).seen()
    assert seen.is_there is None
    assert "can't be reached now" in seen.why
    assert "metadata" not in seen.why, "a folder that isn't mounted is no damage to the table"
