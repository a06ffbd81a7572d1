"""The forms in which `headrace status` prints what it found: text, CSV, JSON and data frames."""

import csv
import io

import pandas as pd
import pytest

from headrace.pipeline.cli import main
from headrace.pipeline.inspect.as_frame import observe_frame
from headrace.pipeline.inspect.lease_rows import COLUMNS
from tests.cli.asking_status import Say, json_of
from tests.cli.kcl_tables import KclTables, a_lease, a_worker, leases_of


def test_csv_has_one_line_for_each_lease_with_kcls_attribute_names(kcl: KclTables, say: Say):
    kcl.put([*leases_of("east-1", "west-1"), a_lease("ended", checkpoint={"S": "SHARD_END"})])
    rows = list(csv.DictReader(io.StringIO(say("--csv")[1])))
    assert [(row["leaseKey"], row["clusterName"], row["state"]) for row in rows] == [
        ("ended", "", "ended"),
        ("shardId-000000000000", "east", "open"),
        ("shardId-000000000001", "west", "open"),
    ]
    assert rows[1]["checkpoint"] == "49650000000000000000000000000000000000000000000000000002"


def test_a_data_frame_of_leases_can_be_grouped_by_owner_and_cluster(kcl: KclTables):
    kcl.put(leases_of("east-1", "east-1", "east-2", "west-1", None))
    frame = observe_frame(kcl.client, kcl.lease_table)
    assert list(frame.columns) == list(COLUMNS)
    assert frame.groupby("clusterName")["leaseKey"].count().to_dict() == {"east": 3, "west": 1}
    assert frame.groupby("leaseOwner")["leaseKey"].count().to_dict() == {
        "east-1": 2,
        "east-2": 1,
        "west-1": 1,
    }
    assert frame["moved"].isna().all()
    assert frame["startingHashKey"].map(int).max() == 4 * (2**128 // 5)


def test_a_table_without_leases_is_a_frame_of_the_same_columns(kcl: KclTables):
    frame = observe_frame(kcl.client, kcl.lease_table)
    assert isinstance(frame, pd.DataFrame)
    assert (frame.empty, list(frame.columns)) == (True, list(COLUMNS))


def test_the_text_is_a_table_with_one_sentence_at_the_end(kcl: KclTables, say: Say):
    kcl.fill_three_tables("east-1", "east-1", "east-2", "west-1")
    code, out, _ = say()
    assert code == 0
    lines = out.splitlines()
    assert lines[1].startswith("layout: M: three tables")
    assert (
        lines[2]
        == "leases: 4 rows, 4 open, 0 ended; of the open ones 0 without an owner, 0 being handed over"
    )
    assert [line.split()[:3] for line in lines[6:9]] == [
        ["east-1", "2", "50.0%"],
        ["east-2", "1", "25.0%"],
        ["west-1", "1", "25.0%"],
    ]
    assert lines[-1].startswith(f"{kcl.lease_table}: ")


def test_a_stopping_worker_is_shown_as_stopping_not_as_old(kcl: KclTables, say: Say):
    stopping = a_worker("east-2", key="wid") | {"stopping": {"BOOL": True}, "lut": {"N": "1"}}
    kcl.put(leases_of("east-1", "east-2"))
    kcl.make_table("WorkerMetricStats", "wid", [a_worker("east-1", key="wid"), stopping])
    rows = {line.split()[0]: line for line in say()[1].splitlines() if line.startswith("east-")}
    assert "stopping" in rows["east-2"]
    assert " old *" not in rows["east-2"]
    assert " old *" in rows["east-1"]


def test_small_rates_are_shown_with_enough_digits(kcl: KclTables, say: Say):
    rates = {"east-1": "0.1415", "east-2": "0.0741", "west-1": "1234.56", "west-2": "0"}
    kcl.put([row | {"throughputKBps": {"N": rates[row["leaseOwner"]["S"]]}} for row in leases_of(*rates)])
    shown = [line.split()[4] for line in say()[1].splitlines() if line.startswith(tuple(rates))]
    assert shown == ["0.14", "0.07", "1,234.6", "0.0"]


def test_clusters_may_be_formed_by_another_rule(kcl: KclTables, say: Say):
    kcl.put(leases_of("a.zone1:1", "a.zone1:2", "b.zone2:3"))
    assert [c["cluster"] for c in json_of(say("--json", "--cluster-by", r"(zone\d)"))["clusters"]] == [
        "zone1",
        "zone2",
    ]


@pytest.mark.parametrize("words", [["--cluster-by", "("], ["--for", "soon"], ["--json", "--csv"]])
def test_argparse_answers_a_mistyped_option(words: list[str], capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as caught:
        main(["status", "--table", "t", *words])
    assert caught.value.code == 2
    assert "usage: headrace status" in capsys.readouterr().err


def test_strict_fails_only_for_findings_that_need_a_person(kcl: KclTables, say: Say):
    kcl.put(leases_of("a", None))
    assert say("--strict")[0] == 0, "one look isn't enough to report an unowned lease"
    kcl.put([a_lease("broken", leaseCounter={"S": "x"})])
    assert say("--strict")[0] == 1
    assert say()[0] == 0
