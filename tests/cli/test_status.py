"""`headrace status` reads any KCL application's tables, prints what they say, and writes nothing."""

import json
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from headrace.pipeline.aws.clients.clients import dynamodb_client
from headrace.pipeline.cli import main
from headrace.pipeline.inspect.findings import findings_of
from headrace.pipeline.inspect.looking import look_at_tables
from headrace.pipeline.inspect.read import TableNames, TableReader
from headrace.pipeline.local.endpoint import LocalAws
from headrace.pipeline.settings.blocks.aws import AwsSettings
from tests.cli.asking_status import Say, json_of
from tests.cli.kcl_tables import KclTables, a_lease, a_lock, a_worker, leases_of
from tests.memory.clock import MemoryClock

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


# --- layouts ------------------------------------------------------------------------------------------------


def test_status_reads_a_table_of_kcl_2_without_settings(kcl: KclTables, say: Say):
    kcl.put(leases_of("east-1", "east-1", "east-2", "east-2", "west-1", "west-2", None))
    seen = json_of(say("--json"))
    assert seen["layout"]["kind"] == "leases-only"
    assert seen["leases"] == {"rows": 7, "open": 7, "ended": 0, "unowned": 1, "handover": 0}
    assert seen["leader"] is None
    assert {w["worker"]: (w["cluster"], w["leases"]) for w in seen["workers"]} == {
        "east-1": ("east", 2),
        "east-2": ("east", 2),
        "west-1": ("west", 1),
        "west-2": ("west", 1),
    }
    assert {c["cluster"]: (c["workers"], c["leases"], c["mean"]) for c in seen["clusters"]} == {
        "east": (2, 4, 2.0),
        "west": (2, 2, 1.0),
    }
    assert (seen["spread"], seen["unowned"]) == (1, ["shardId-000000000006"])
    assert {f["code"]: f["needs_person"] for f in seen["findings"]} == {
        "unowned": False,
        "clusters-uneven": True,
    }


def test_the_three_tables_of_kcl_3_are_read_together(kcl: KclTables, say: Say):
    kcl.fill_three_tables("east-1", "east-2", workers=["east-1", "east-2", "east-3"])
    seen = json_of(say("--json"))
    assert seen["layout"]["kind"] == "M"
    assert seen["leader"] == {"worker": "east-1", "promised_seconds": 120.0, "beats": None, "assigned": None}
    assert [(w["worker"], w["leases"], w["has_row"]) for w in seen["workers"]] == [
        ("east-1", 1, True),
        ("east-2", 1, True),
        ("east-3", 0, True),
    ]
    assert seen["spread"] == 1, "a living worker without leases counts"
    assert seen["findings"] == []
    assert not seen["needs_person"]


def test_rows_of_all_kinds_in_one_table_are_distinguished(kcl: KclTables, say: Say):
    kcl.fill_one_table("east-1", "east-2")
    seen = json_of(say("--json"))
    assert seen["layout"]["kind"] == "S"
    assert seen["leases"]["rows"] == 2
    assert [w["worker"] for w in seen["workers"]] == ["east-1", "east-2"]
    assert seen["leader"]["worker"] == "east-1"
    assert seen["odd_rows"] == []


def test_rows_that_kcl_3_4_wrote_without_a_type_are_recognized_by_their_keys(kcl: KclTables, say: Say):
    kcl.fill_three_tables("east-1", "east-2")
    migration = {"key": {"S": "Migration3.0"}, "cv": {"S": "CLIENT_VERSION_3X"}, "mb": {"S": "east-1"}}
    kcl.put([migration], table=f"{kcl.lease_table}-CoordinatorState")
    seen = json_of(say("--json"))
    assert seen["layout"]["kind"] == "M"
    assert seen["odd_rows"] == []


def test_a_stray_state_table_is_reported_with_its_repair(kcl: KclTables, say: Say):
    kcl.fill_one_table("east-1", "east-2")
    kcl.make_table("CoordinatorState", "key")
    code, out, _ = say("--strict")
    assert code == 1
    assert "layout-trap" in out
    assert f"COMPLETE into table {kcl.lease_table}-CoordinatorState" in out
    done = {"key": {"S": "TableMigration3.5"}, "tm": {"S": "TABLE_MIGRATION_STATUS_COMPLETE"}}
    kcl.put([done], table=f"{kcl.lease_table}-CoordinatorState")
    code, out, _ = say("--strict")
    assert (code, "layout: S" in out) == (0, True)


def test_worker_and_state_tables_may_have_other_names(kcl: KclTables, say: Say):
    kcl.put(leases_of("w-1"))
    workers = kcl.make_table("w", "wid", [a_worker("w-1", key="wid")])
    state = kcl.make_table("s", "key", [a_lock("w-1", key="key")])
    seen = json_of(say("--json", "--worker-table", workers, "--state-table", state))
    assert (seen["layout"]["kind"], seen["leader"]["worker"]) == ("M", "w-1")


def test_an_owner_of_ended_leases_only_is_in_the_json_and_doesnt_count_for_the_balance(
    kcl: KclTables, say: Say
):
    kcl.put([*leases_of("a-1", "a-2", "b-1"), a_lease("old", owner="b-2", checkpoint={"S": "SHARD_END"})])
    seen = json_of(say("--json"))
    assert [(w["worker"], w["leases"], w["ended"]) for w in seen["workers"]][-1] == ("b-2", 0, 1)
    assert [(c["cluster"], c["workers"]) for c in seen["clusters"]] == [("a", 2), ("b", 1)]
    assert (seen["spread"], seen["findings"]) == (0, [])


# --- what may be wrong with a table -------------------------------------------------------------------------


def test_no_odd_row_hides_the_others(kcl: KclTables, say: Say):
    broken = [
        {"leaseKey": {"S": "no-counter"}, "checkpoint": {"S": "LATEST"}},
        a_lease("counter-as-text", leaseCounter={"S": "7"}),
        a_lease("no-checkpoint", checkpoint={"S": "soon"}),
        a_lease("odd-range", startingHashKey={"S": "ten"}),
        a_lease("backwards", startingHashKey={"S": "9"}, endingHashKey={"S": "3"}),
        a_lease("owner-as-number", leaseOwner={"N": "1"}),
        a_lease("type-as-number", entityType={"N": "1"}),
        {"leaseKey": {"S": "Leader"}, "ownerName": {"S": "w"}, "leaseDuration": {"S": "soon"}},
        {"leaseKey": {"S": "w9"}, "entityType": {"S": "WORKER_METRIC_STATS"}, "lut": {"S": "now"}},
        {"leaseKey": {"S": "Migration3.0"}, "cv": {"N": "3"}},
    ]
    kcl.put([*leases_of("a", "b"), *broken, a_lease("new", entityType={"S": "NEWER_THAN_THIS"})])
    seen = json_of(say("--json"))
    assert seen["leases"]["rows"] == 2
    assert {row["key"] for row in seen["odd_rows"] if row["broken"]} == {
        row["leaseKey"]["S"] for row in broken
    }
    assert [row["key"] for row in seen["odd_rows"] if not row["broken"]] == ["new"]
    assert {f["code"]: len(f["names"]) for f in seen["findings"]} == {"rows-broken": 10, "rows-unknown": 1}


def test_holes_handovers_and_early_children_are_named(kcl: KclTables, say: Say):
    left, _, right = leases_of("a", "b", "c")
    handing = a_lease("middle", n=1, of=4, owner="c", checkpointOwner={"S": "a"})
    child = a_lease("child", n=0, of=3, owner="b", parentShardId={"SS": [left["leaseKey"]["S"]]})
    kcl.put([left, handing, right, child])
    seen = json_of(say("--json"))
    third, quarter = 2**128 // 3, 2**128 // 4
    assert seen["uncovered"] == [{"stream": None, "start": str(2 * quarter), "end": str(2 * third - 1)}]
    assert seen["handovers"] == [{"lease": "middle", "from": "a", "to": "c", "all_the_while": False}]
    assert seen["early"] == [{"child": "child", "parent": "shardId-000000000000"}]
    assert {f["code"] for f in seen["findings"] if f["needs_person"]} == {
        "hash-keys-uncovered",
        "child-before-parent",
    }


def test_the_error_for_a_missing_table_names_region_and_endpoint(
    aws: LocalAws, dynamodb: "DynamoDBClient", capsys: pytest.CaptureFixture[str]
):
    code = main(["status", "--table", "nosuch", "--endpoint", aws.endpoint, "--region", aws.region])
    assert code == 2
    said = capsys.readouterr().err
    assert "no table nosuch in us-east-1" in said
    assert "tables create" not in said


def test_a_table_of_another_kind_is_refused(kcl: KclTables, say: Say):
    kcl.put(leases_of("a"))
    kcl.make_table("WorkerMetricStats", "id")
    code, _, err = say()
    assert code == 2
    assert "has the key id, not wid" in err


def test_a_role_that_may_read_only_the_lease_table_sees_the_leases(kcl: KclTables, aws: LocalAws, say: Say):
    kcl.fill_three_tables("east-1", "east-2")
    denied = f"{kcl.lease_table}-CoordinatorState"
    aws.inject("error", operation="Scan", resource=denied, code="AccessDeniedException", status=400)
    seen = json_of(say("--json"))
    assert seen["leases"]["rows"] == 2
    assert [(row["table"], row["key"]) for row in seen["odd_rows"]] == [(denied, "all of it")]


def test_after_long_throttling_the_error_says_to_try_again_later(
    kcl: KclTables, aws: LocalAws, say: Say, no_backoff: None
):
    kcl.put(leases_of("a"))
    aws.inject("throttle", operation="Scan", resource=kcl.lease_table)
    code, _, err = say()
    assert code == 75
    assert "throttled" in err


def test_a_table_of_many_pages_is_read_completely_with_progress(kcl: KclTables, say: Say):
    padding = {"note": {"S": "x" * 500}}
    kcl.put(leases_of(*(f"east-{n % 50}" for n in range(2_100)), **padding))
    code, out, err = say()
    assert code == 0, err
    assert "leases: 2,100 rows, 2,100 open" in out
    assert "... 10 between" in out, (
        "the text has the twenty busiest and the twenty idlest workers, --json has all"
    )
    assert err == f"table {kcl.lease_table}: 2,000 rows read\n"


# --- nothing is written -------------------------------------------------------------------------------------


def test_only_describe_and_scan_are_requested(kcl: KclTables, aws: LocalAws):
    kcl.fill_three_tables("east-1", "east-2", None)
    before = kcl.everything()
    client = dynamodb_client(AwsSettings(region=aws.region, endpoint=aws.endpoint))
    asked: list[str] = []
    client.meta.events.register("before-call.dynamodb", lambda model, **_: asked.append(model.name))
    look_at_tables(client, kcl.lease_table, watch=timedelta(seconds=30), clock=MemoryClock())
    assert set(asked) == {"DescribeTable", "Scan"}
    assert len(asked) == 12, "two requests for each of three tables, twice"
    assert kcl.everything() == before


def test_the_reader_of_tables_has_no_client_that_can_write(kcl: KclTables):
    reader = TableReader(kcl.client, TableNames.of(kcl.lease_table), clock=MemoryClock())
    assert {name for name in vars(reader._client) if not name.startswith("_")} == {
        "meta",
        "scan",
        "describe_table",
    }


# --- two looks ----------------------------------------------------------------------------------------------


def test_two_looks_show_dead_workers_and_a_leader_that_assigns_nothing(kcl: KclTables, aws: LocalAws):
    kcl.fill_three_tables("east-1", "east-2", None)

    class Meanwhile(MemoryClock):
        def pause(self, seconds: float) -> None:
            assert seconds == 60.0
            self.advance(timedelta(seconds=60.5))
            kcl.renew(["shardId-000000000000"])
            lock = a_lock("east-1", key="key", version="5f0b")
            kcl.put([lock], table=f"{kcl.lease_table}-CoordinatorState")

    client = dynamodb_client(AwsSettings(region=aws.region, endpoint=aws.endpoint))
    seen = look_at_tables(client, kcl.lease_table, watch=timedelta(seconds=60), clock=Meanwhile())
    assert seen.watched == timedelta(seconds=60.5)
    assert seen.still == ("east-2",)
    assert seen.still_unowned == ("shardId-000000000002",)
    assert {finding.code for finding in findings_of(seen) if finding.needs_person} == {
        "leader-idle",
        "unowned",
        "workers-still",
    }


def test_with_the_option_for_the_command_looks_twice_and_says_so(kcl: KclTables, say: Say):
    kcl.fill_three_tables("east-1", "east-2")
    code, out, err = say("--for", "1ms")
    assert code == 0
    assert "looking again" in err
    assert ", watched for 0 s" in out
    assert (
        out.splitlines()[3]
        == "leader: east-1, lock of 120 s: whether it is renewed can't be told from this look"
    )


# --- answers of a script ------------------------------------------------------------------------------------


def test_max_behind_exits_with_1_and_the_sentence_where_a_row_doesnt_tell(kcl: KclTables, say: Say):
    kcl.put(leases_of("a-1", "a-2"))
    code, out, _ = say("--max-behind", "10m")
    assert code == 1
    assert "the rows of 2 shards don't tell how far behind they are" in out.splitlines()[-1]


def test_max_behind_is_well_where_each_shard_was_read_to_its_end_and_json_stays_whole(
    kcl: KclTables, say: Say
):
    kcl.put(leases_of("a-1", checkpoint={"S": "SHARD_END"}))
    code, out, err = say("--max-behind", "10m", "--json")
    assert (code, json.loads(out)["leases"]["ended"]) == (0, 1)
    assert "no shard is more than 10 min behind" in err


@pytest.mark.parametrize("more", ["--json", "--strict", "--max-behind=1m"])
def test_watch_refuses_what_ends_with_one_answer(say: Say, more: str, capsys: pytest.CaptureFixture[str]):
    code, _, err = say("--watch", more)
    assert code == 2
    assert "--watch goes on until Ctrl-C" in err
