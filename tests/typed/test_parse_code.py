"""What the ledger of a typed table tells about the code that parsed."""

import importlib
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.pipeline.core.ledger.accounting import read_accounting
from headrace.pipeline.settings.blocks.parse import ParseSettings, Written
from headrace.pipeline.settings.choices import ParseFormat
from headrace.pipeline.typed import code_digest as parse_code
from headrace.pipeline.typed.code_digest import TargetCode
from tests.typed.parsings import BAD, SETTINGS, A, Bed, good, with_ports


def code_of(target: ParseSettings) -> str:
    return TargetCode(target).text()


def test_the_digests_follow_what_decides_about_a_row():
    first = code_of(SETTINGS)
    assert first.startswith("json of headrace ")
    assert code_of(replace(SETTINGS, name="n", table="a.b", version="2", stop_above=1)) == first
    code, schema = first.split(", ")[1:]
    filtered = code_of(replace(SETTINGS, filter="true")).split(", ")[1:]
    assert (filtered[0] != code, filtered[1]) == (True, schema)
    wider = code_of(replace(SETTINGS, schema="id BIGINT, name STRING, n INT")).split(", ")[1:]
    assert (wider[0], wider[1] != schema) == (code, True)


def test_the_digest_of_a_function_beside_the_settings_follows_what_it_imports_from_there(tmp_path: Path):
    target = replace(
        SETTINGS, format=ParseFormat.CALLABLE, callable="own_code:rows", written=Written(str(tmp_path))
    )
    (tmp_path / "own_code.py").write_text("import own_code_part\ndef rows(): return own_code_part.x\n")
    codes = []
    for number in (1, 2, 1):
        (tmp_path / "own_code_part.py").write_text(f"x = {number}\n")
        run = TargetCode(target)
        codes.append(run.text())
        # A run keeps what it has read, whatever becomes of the file.
        (tmp_path / "own_code_part.py").write_text("x = 9\n")
        function: Any = run.function()
        assert function() == number
        assert run.text() == codes[-1]
    assert codes[0] == codes[2] != codes[1]


def test_the_digest_of_an_installed_function_follows_the_source_of_its_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.syspath_prepend(str(tmp_path))
    target = replace(SETTINGS, format=ParseFormat.CALLABLE, callable="headrace_own_parsers:rows")
    codes = []
    for source in ("def rows(): return 1\n", "def rows(): return 222\n"):
        (tmp_path / "headrace_own_parsers.py").write_text(source)
        importlib.invalidate_caches()
        sys.modules.pop("headrace_own_parsers", None)
        parse_code._source_of.cache_clear()
        codes.append(code_of(target))
    sys.modules.pop("headrace_own_parsers")
    parse_code._source_of.cache_clear()
    assert all(each.startswith("headrace_own_parsers:rows, code ") for each in codes)
    assert codes[0] != codes[1]
    # A module of C has no source.
    assert code_of(replace(target, callable="_struct:pack")).startswith("_struct:pack, code ")


def test_each_range_of_a_wave_and_of_a_redrive_tells_the_code(tmp_path: Path):
    bed = Bed(tmp_path)
    bed.land(A, {1: good(1), 2: BAD})
    with_ports(bed.parsing(), code=lambda: "one").wave()
    bed.parser.fixes = {BAD: good(2)}
    list(with_ports(bed.redriving(), code=lambda: "two").portions())
    told = [read_accounting(each.account) for page in bed.typed().pages() for each in page.ranges]
    assert [each.code for each in told] == ["two", "one"]
    before = {key: value for key, value in json.loads(told[1].text()).items() if key != "code"}
    assert read_accounting(json.dumps(before)) == replace(told[1], code="")
