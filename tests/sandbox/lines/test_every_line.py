"""Every line that was measured on the real code has a test that names it, or stands in a list with its reason.

A test names a line of section 6 as `test_6_<line>_…`, and one of section 6.2 as `test_6_2_<part>_<line>_…`.
"""

import ast
import os
import re
import tomllib
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TESTS = HERE.parents[1]
# The parts of 6.2 by the names in their headings; one heading holds four.
PARTS = (
    "clone_progress", "identity", "self_test", "upload", "console", "firewall", "pools", "sdn", "ha", "backup", "disks",
    "nics", "memory_cpu", "rrd", "scale",
)  # fmt: skip
SHARED_HEADING = {"1": "pools", "2": "sdn", "3": "ha", "4": "backup"}
NAME = re.compile(rf"test_6_(?:2_(?P<part>{'|'.join(PARTS)})_(?P<in_part>\d+)|(?P<line>\d+))_")
CEILING = 8


def facts() -> str:
    data = Path(os.environ.get("ZONE9_TEST_DATA", TESTS.parents[1] / "shared" / "data"))
    file = data.parent / "pve-facts.md"
    if not file.exists():
        if os.environ.get("CI"):
            pytest.fail("the measured facts are missing: set ZONE9_TEST_DATA")
        pytest.skip("no measured facts here: set ZONE9_TEST_DATA to the directory beside them")
    return file.read_text()


def lines() -> set[str]:
    """Returns the numbered lines of section 6 and 6.2 as `6/4` and `6.2/upload/3`."""
    found, section, part = set(), "", ""
    for line in facts().splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
            if line.startswith(("## ", "### ")):
                section, part = heading.split(" ")[0].rstrip("."), ""
            tag = re.search(r"\[([\w-]+)\]", heading)
            if line.startswith("#### "):
                part = tag[1].replace("-", "_") if tag else "pools"
        elif (number := re.match(r"(\d+)\. ", line)) is not None:
            if section == "6":
                found.add(f"6/{number[1]}")
            elif section == "6.2" and part:
                shared = part == "pools"
                found.add(f"6.2/{SHARED_HEADING[number[1]] if shared else part}/{number[1]}")
    return found


def named() -> set[str]:
    """Returns the lines that tests name."""
    found = set()
    for file in TESTS.rglob("test_*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (match := NAME.match(node.name)):
                found.add(
                    f"6.2/{match['part']}/{match['in_part']}" if match["part"] else f"6/{match['line']}"
                )
                # A name may carry a second line: test_6_2_scale_2_and_4_…
                more = re.match(rf"{re.escape(match[0])}and_(\d+)_", node.name)
                if more and match["part"]:
                    found.add(f"6.2/{match['part']}/{more[1]}")
    return found


def left_out() -> dict[str, str]:
    entries = tomllib.loads((HERE / "not_shown.toml").read_text())["line"]
    return {entry["is"]: entry["why"] for entry in entries}


def test_the_facts_are_read_as_they_are_written() -> None:
    found = lines()
    assert {"6/1", "6/26", "6.2/upload/9", "6.2/backup/4", "6.2/memory_cpu/6"} <= found
    assert len(found) > 100


def test_every_line_has_a_test_or_a_reason() -> None:
    assert sorted(lines() - named() - set(left_out())) == []


def test_no_reason_is_given_for_a_line_that_has_a_test() -> None:
    assert sorted(set(left_out()) & named()) == []


def test_no_test_names_a_line_that_is_not_there() -> None:
    assert sorted(named() - lines()) == []


def test_the_list_of_reasons_stays_short() -> None:
    assert sorted(set(left_out()) - lines()) == []
    assert len(left_out()) <= CEILING
    assert all(len(why) > 20 for why in left_out().values())
