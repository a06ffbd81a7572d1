"""The harness itself, on cases of the project's own."""

import json

import pytest

from tests.vectors.__main__ import main
from tests.vectors.run import FORMS, is_same, run_all


def a_case(number, fn, given, expected, **more):
    return {"id": f"case-{number}", "fn": fn, "name": "", "input": given, "expected": expected, **more}


CASES = [
    a_case(1, "target", {"leases": 7, "workers": 2}, 4),
    a_case(2, "ema", {"values": [4, 8], "alpha": 0.5}, 6.0),
    a_case(3, "esn_cmp", {"a": ["7", 0], "b": ["oops", 0]}, "error"),
    a_case(4, "cpuset", {"text": "0-1"}, 2),
]


def a_file(folder, *cases):
    path = folder / "cases.json"
    path.write_text(json.dumps({"source": "ours", "graphs": {}, "vectors": cases}), encoding="utf-8")
    return [str(path)]


def test_a_file_that_agrees_ends_well(tmp_path, capsys):
    assert main(a_file(tmp_path, *CASES)) == 0
    assert capsys.readouterr().out == "4 passed, 0 failed\n"


def test_each_failure_is_a_line_with_what_was_expected_and_found(tmp_path, capsys):
    wrong = a_case(5, "target", {"leases": 7, "workers": 2}, 3, note="somebody's slip")
    assert main(a_file(tmp_path, *CASES, wrong)) == 1
    assert capsys.readouterr().out.splitlines() == [
        "case-5 target: expected 3, got 4 (note: somebody's slip)",
        "4 passed, 1 failed",
    ]


def test_the_order_counts_where_the_note_says_so():
    shards = [
        {"id": name, "parents": [], "start": start, "end": None, "hash": ["0", "9"]}
        for name, start in (("b", "1"), ("a", "2"))
    ]
    given = {"shards": shards, "leases": [], "initial_position": "LATEST"}
    backwards = a_case(1, "sync_custom", given, {"a": "LATEST", "b": "LATEST"})
    assert run_all({"vectors": [backwards]}).failed == 0
    assert run_all({"vectors": [{**backwards, "note": "expected is an ordered list"}]}).failed == 1


def test_an_unknown_group_and_a_broken_case_fail_by_themselves():
    report = run_all({"vectors": [a_case(1, "tarot", {}, 1), a_case(2, "target", {}, 1), *CASES[:1]]})
    assert (report.passed, report.failed) == (1, 2)
    assert "unknown fn 'tarot'" in report.lines[0]
    assert "raised KeyError" in report.lines[1]


@pytest.mark.parametrize("arguments", [[], ["a", "b"]])
def test_without_a_file_it_says_how_it_is_called(arguments, capsys):
    assert main(arguments) == 2
    assert "make vectors VECTORS=path" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("got", "expected", "same"),
    [
        (1, 1.0, True),
        (0.1 + 0.2, 0.3, True),
        (0.300001, 0.3, False),
        (float("nan"), float("nan"), True),
        (2**128, 2**128 - 1, False),
        (True, 1, False),
        (0, False, False),
        (None, [], False),
        ([1, 2], [2, 1], False),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({"a": [1.0]}, {"a": [1]}, True),
    ],
)
def test_answers_are_compared_by_value_and_kind(got, expected, same):
    assert is_same(got, expected) is same


def test_every_group_of_the_form_is_built():
    groups = (
        "sync_nonempty sync_empty sync_tiles sync_inconsistent sync_custom hole auditor taker target lam lam_seq "
        "metric_failing metric_valid ema esn_cmp lease_available handoff_blocked block_on_parent cleanup_completed "
        "shutdown_reason response_valid shard_end_merge sleep kpl cpuset proc_stat cgroup ecs throughput segments "
        "intervals init_version table_status det_leader stream_id lease_key checkpointer iterator parents_first"
    )
    assert set(groups.split()) == FORMS.keys()
