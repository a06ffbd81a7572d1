"""The harness itself, tried on cases of this project."""

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.vectors.__main__ import main
from tests.vectors.run import FORMS, NOT_BUILT, is_same, run_all


def a_case(number, fn, given, expected, **more):
    return {"id": f"case-{number}", "fn": fn, "name": "", "input": given, "expected": expected, **more}


PROJECT_CASES = json.loads(Path(__file__).with_name("cases.json").read_text(encoding="utf-8"))
"""The project's own cases: answers of KCL 3.5.1 to random input, and answers written by hand from the rules."""
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


def test_a_file_whose_cases_all_agree_succeeds(tmp_path, capsys):
    assert main(a_file(tmp_path, *CASES)) == 0
    assert capsys.readouterr().out == "4 passed, 0 failed\n"


def test_each_failure_is_a_line_with_what_was_expected_and_found(tmp_path, capsys):
    wrong = a_case(5, "target", {"leases": 7, "workers": 2}, 3, note="somebody's slip")
    assert main(a_file(tmp_path, *CASES, wrong)) == 1
    assert capsys.readouterr().out.splitlines() == [
        "case-5 target: expected 3, got 4 (note: somebody's slip)",
        "4 passed, 1 failed",
    ]


def test_the_order_counts_if_the_note_says_so():
    shards = [
        {"id": name, "parents": [], "start": start, "end": None, "hash": ["0", "9"]}
        for name, start in (("b", "1"), ("a", "2"))
    ]
    given = {"shards": shards, "leases": [], "initial_position": "LATEST"}
    backwards = a_case(1, "sync_custom", given, {"a": "LATEST", "b": "LATEST"})
    assert run_all({"vectors": [backwards]}).failed == 0
    assert run_all({"vectors": [{**backwards, "note": "expected is an ordered list"}]}).failed == 1


def test_an_unknown_group_and_a_broken_case_fail_without_stopping_the_others():
    report = run_all({"vectors": [a_case(1, "tarot", {}, 1), a_case(2, "target", {}, 1), *CASES[:1]]})
    assert (report.passed, report.failed) == (1, 2)
    assert "unknown fn 'tarot'" in report.lines[0]
    assert "raised KeyError" in report.lines[1]


@pytest.mark.parametrize(
    "odd",
    [
        None,
        7,
        "a case",
        {},
        {"fn": "target"},
        {"fn": "target", "input": {"leases": 7, "workers": 2}},
        {"fn": ["target"], "input": {}, "expected": None},
        a_case(9, "target", None, None),
        a_case(9, "lam", {"config": {"colour": 1}, "leases": {}, "workers": []}, {}),
        a_case(9, "tarot", {}, "unknown fn 'tarot'"),
        a_case(9, "target", {}, "raised KeyError: 'leases'"),
        a_case(9, "target", {"leases": 7, "workers": 2}, 4, note="no ordered list"),
        a_case(9, "target", {"leases": 10**400, "workers": 1}, 1.5),
    ],
)
def test_a_malformed_case_is_one_failure(odd):
    report = run_all({"vectors": [odd, *CASES]})
    assert (report.passed, report.failed, len(report.lines)) == (len(CASES), 1, 1)


def test_any_note_and_an_unprintable_name_are_accepted(tmp_path, capsys):
    odd = [{**CASES[0], "note": 7}, {**CASES[0], "id": "\ud800", "expected": "\ud800"}]
    assert main(a_file(tmp_path, *odd)) == 1
    assert capsys.readouterr().out.splitlines() == [
        '\\ud800 target: expected "\\ud800", got 4',
        "1 passed, 1 failed",
    ]


def test_groups_that_arent_implemented_are_counted_separately_with_their_reason(monkeypatch):
    monkeypatch.setitem(NOT_BUILT, "target", "no step uses it")
    report = run_all({"vectors": [*CASES, CASES[0]]})
    assert (report.passed, report.failed) == (3, 0)
    assert report.lines == ["not built: target (2 cases): no step uses it"]


@pytest.mark.parametrize("text", ["", "[]", "7", "{}", '{"vectors": {}}', "no json", "[" * 10**5])
def test_the_error_for_a_file_without_cases_says_so(text, tmp_path, capsys):
    path = tmp_path / "cases.json"
    path.write_text(text, encoding="utf-8")
    assert main([str(path)]) == 2
    assert "isn't a file of cases" in capsys.readouterr().err


@pytest.mark.parametrize("case", PROJECT_CASES["vectors"], ids=lambda case: case["id"])
def test_the_projects_own_cases_agree(case):
    assert run_all({"graphs": PROJECT_CASES["graphs"], "vectors": [case]}).lines == []


def test_the_projects_own_cases_cover_nearly_every_group():
    counts = Counter(case["fn"] for case in PROJECT_CASES["vectors"])
    elsewhere = {
        "sync_nonempty",
        "sync_empty",
        "sync_inconsistent",
    }  # cases of these groups need the graphs of their file
    assert counts.keys() == FORMS.keys() - elsewhere
    assert min(counts.values()) >= 2


@pytest.mark.parametrize(
    ("fn", "given", "expected"),
    [
        ("lease_available", {"duration_ns": 1, "now_ns": 5, "last_ns": 5}, True),
        ("lease_available", {"duration_ns": 1, "now_ns": 5, "owner": "x"}, True),
        ("segments", {"bytes": None}, 10),
        (
            "intervals",
            {"failover_ms": 10_000},
            {"renewer_ms": 3308, "taker_ms": 20_050, "discoverer_ms": 9975},
        ),
        ("ema", {"values": [4, 8]}, 6.0),
        ("kpl", {"data_hex": "00", "partition_key": "k"}, [["k", None, "00", 0, False]]),
        ("iterator", {"checkpoint": "LATEST"}, {"type": "LATEST"}),
        ("response_valid", {"child_parent_lists": [["p"]]}, True),
        ("parents_first", {"shards": {"b": {}, "a": {"parents": ["b"]}}}, ["b", "a"]),
        ("throughput", {"bytes": [1024], "period_ms": 1000}, 1.0),
        ("esn_cmp", {"a": "7", "b": ["7", 0]}, 0),
        ("table_status", {}, "COMPLETE"),
    ],
)
def test_optional_fields_may_be_left_out(fn, given, expected):
    assert run_all({"vectors": [a_case(1, fn, given, expected)]}).lines == []


@pytest.mark.parametrize("arguments", [[], ["a", "b"]])
def test_without_a_file_the_usage_is_printed(arguments, capsys):
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
def test_answers_are_compared_by_value_and_type(got, expected, same):
    assert is_same(got, expected) is same


def test_every_group_of_cases_has_a_form():
    groups = (
        "sync_nonempty sync_empty sync_tiles sync_inconsistent sync_custom hole auditor taker target lam lam_seq "
        "metric_failing metric_valid ema esn_cmp lease_available handoff_blocked block_on_parent cleanup_completed "
        "shutdown_reason response_valid shard_end_merge sleep kpl cpuset proc_stat cgroup ecs throughput segments "
        "intervals init_version table_status det_leader stream_id lease_key checkpointer iterator parents_first"
    )
    assert set(groups.split()) == FORMS.keys()
