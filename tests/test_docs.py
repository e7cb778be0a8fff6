"""What the documents name is there: targets, commands, links, layers, the role; and what no file may hold is not."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer.main

from zone9.cli.app import app
from zone9.products.registry import registry
from zone9.pve.selftest import role_commands
from zone9.sandbox import faults

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
MODULES = sorted((ROOT / "src").rglob("*.py"))
TEXTS = [*DOCUMENTS, ROOT / "Makefile", ROOT / "pyproject.toml", ROOT / ".ci" / "run", *ROOT.glob("*.lock"),
         *(ROOT / "scripts").iterdir()]  # fmt: skip
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LONGEST = 400  # lines of a module
# The hosts that a text may name: this machine, examples, addresses for documentation, and whose licence this is.
NAMEABLE = re.compile(
    r"localhost|host|127\.0\.0\.1|10\.0\.0\.\d+|[\w.-]*example\.(?:org|invalid)|www\.gnu\.org|fsf\.org"
)


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_relative_links_resolve(document: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", document.read_text()):
        if re.match(r"[a-z]+:", link):
            continue
        file, _, anchor = link.partition("#")
        target = (document.parent / file).resolve() if file else document
        assert target.exists(), link
        if anchor:
            titles = re.findall(r"^#+ (.+)$", target.read_text(), re.MULTILINE)
            assert anchor in {re.sub(r"[^a-z0-9 -]", "", one.lower()).replace(" ", "-") for one in titles}, (
                link
            )


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_make_targets_exist(document: Path) -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))

    for target in re.findall(r"(?:`|^    )make ([a-z]+)", document.read_text(), re.MULTILINE):
        assert target in targets, target


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_commands_and_their_options_exist(document: Path) -> None:
    for line in re.findall(
        r"(?:`|^    )(?:\.venv/bin/)?zone9 ([a-z][^`\n]*)", document.read_text(), re.MULTILINE
    ):
        if line.startswith(("backup", "restore")) and "not there yet" in document.read_text():
            continue
        words = [word for word in line.split() if re.fullmatch(r"[\w.:/'*…-]+", word)]
        _check(typer.main.get_command(app), words)


def _check(command: Any, words: list[str]) -> None:
    while words and words[0] in getattr(command, "commands", {}):
        command, words = command.commands[words[0]], words[1:]
    if hasattr(command, "commands"):
        assert not words or words[0].startswith("-"), f"{command.name} has no command {words[0]}"
    known = {option for one in command.params for option in one.opts + one.secondary_opts} | {
        "--output",
        "--help",
    }
    if command.context_settings.get("ignore_unknown_options"):
        for product in registry().values():
            for field in product.spec_model.model_fields:
                known |= {f"--{field.replace('_', '-')}", f"--{field.removesuffix('s').replace('_', '-')}"}
    for word in words:
        assert not word.startswith("--") or word.partition("=")[0] in known, (command.name, word)


def test_the_readme_makes_the_role_that_the_self_test_wants() -> None:
    readme = (ROOT / "README.md").read_text()

    for command in role_commands("zone9@pve", "ctl"):
        assert f"    {command}\n" in readme


def test_the_sandboxs_faults_are_all_named() -> None:
    text = (ROOT / "docs" / "sandbox.md").read_text()

    for kind in [*faults.KINDS, *faults.NAMED]:
        assert re.search(rf"\b{kind}\b", text), kind


def test_the_layers_are_those_that_are_checked() -> None:
    contract = PROJECT["tool"]["importlinter"]["contracts"][0]
    rows = re.findall(r"^\| (`[^|]+) \|", (ROOT / "docs" / "architecture.md").read_text(), re.MULTILINE)

    documented = [re.findall(r"`(\w+)`", row) for row in rows][: len(contract["layers"])]
    assert documented == [layer.split(" | ") for layer in contract["layers"]]


def test_every_module_says_why_it_is_there() -> None:
    without = [
        named(path)
        for path in MODULES
        if path.read_text().strip() and not path.read_text().lstrip().startswith(('"""', 'r"""'))
    ]

    assert without == []


def test_no_module_is_too_long() -> None:
    lines = {named(path): len(path.read_text().splitlines()) for path in MODULES}

    assert {name: n for name, n in lines.items() if n > LONGEST} == {}


@pytest.mark.parametrize("file", TEXTS, ids=named)
def test_no_file_names_a_registry_or_somebodys_directory(file: Path) -> None:
    text = file.read_text()

    assert not re.search(
        r"--(index-url|extra-index-url|find-links|trusted-host)\b", text.replace("--no-emit-", "")
    )
    assert {host for host in re.findall(r"https?://([\w.-]+)", text) if not NAMEABLE.fullmatch(host)} == set()
    assert not re.search(r"(?<![\w.])/(work|opt/wheels|home/\w+|Users)/", text)


def test_decisions_are_numbered_and_a_page_each() -> None:
    files = sorted((ROOT / "docs" / "decisions").glob("*.md"))

    assert [int(file.name[:4]) for file in files] == list(range(1, len(files) + 1))
    for file in files:
        text = file.read_text()
        assert text.startswith(f"# {int(file.name[:4])}. ")
        assert all(f"**{part}.**" in text for part in ("Context", "Decision", "Consequence"))
        assert len(text.splitlines()) <= 60
