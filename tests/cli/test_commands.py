"""The command line against a served zone9: what it prints, how it exits, and that an error is one line."""

import ast
import io
import json
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from served import Served, serving
from zone9.cli import client
from zone9.cli.app import COMMANDS, KINDS, run
from zone9.products.registry import registry

CREATE = (
    "server",
    "create",
    "web1",
    "--region",
    "r1",
    "--plan",
    "small",
    "--image",
    "tiny",
    "--network",
    "lan",
)
Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def _own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps the user's own settings out, and English in."""
    for name in ("ZONE9_URL", "ZONE9_TOKEN", "ZONE9_PROJECT", "LC_ALL", "LANG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ZONE9_LANG", "en")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def served(database_url: str, tmp_path: Path) -> Iterator[Served]:
    with serving(database_url, tmp_path / "key") as one:
        client.write_config(one.url, one.token)
        yield one


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    def call(*arguments: str) -> tuple[int, str, str]:
        code = run(list(arguments))
        out, err = capsys.readouterr()
        return code, out, err

    return call


def as_json(cli: Cli, *arguments: str, code: int = 0) -> Any:
    got, out, err = cli(*arguments, "--output", "json")
    assert got == code, (got, out, err)
    return json.loads(out)


def one_line(err: str) -> str:
    assert err.count("\n") == 1, err
    assert "Traceback" not in err
    assert err.startswith("zone9: ")
    return err[7:-1]


def test_a_servers_life(served: Served, cli: Cli) -> None:
    code, out, err = cli(*CREATE)
    assert (code, err) == (0, "")
    assert "web1 is at version 1, read back" in out
    shown = as_json(cli, "server", "show", "web1")
    assert (shown["intent_version"], shown["applied_version"]) == (1, 1)
    code, out, _ = cli("server", "list")
    assert code == 0
    assert out.splitlines()[1].split()[:4] == ["web1", "1", "1", "applied"]
    assert cli("server", "set", "web1", "--name", "www", "--tag", "a", "--tag", "b")[0] == 0
    assert as_json(cli, "server", "show", "www")["spec"]["tags"] == ["a", "b"]
    code, out, _ = cli("server", "set", "www", "--power", "on")
    assert (code, out) == (0, "www: nothing to do\n") or "nothing to do" in out
    for action in ("stop", "start", "restart", "verify", "reconcile"):
        code, out, err = cli("server", action, "www")
        assert code == 0, (action, out, err)
    assert cli("server", "delete", "www")[0] == 0
    code, _, err = cli("server", "show", "www")
    assert code == 1
    assert one_line(err) == "there is no server www"
    assert served.world.sandbox.vms.keys() == {9000}


def test_a_change_that_waits_for_a_person_exits_3(served: Served, cli: Cli) -> None:
    assert cli(*CREATE)[0] == 0
    code, _, err = cli("server", "set", "web1", "--memory-mib", "1024")
    assert (code, one_line(err)) == (3, "waiting for: restart")
    told = as_json(cli, "server", "set", "web1", "--memory-mib", "1024", code=3)
    assert told["job"]["needs"] == "restart"
    assert told["resource"]["state"]["chip"] == "pending_restart"
    assert cli("server", "restart", "web1")[0] == 0
    assert as_json(cli, "server", "show", "web1")["applied_version"] == 3


def test_jobs_are_listed_watched_and_canceled(served: Served, cli: Cli) -> None:
    told = as_json(cli, *CREATE, "--no-wait")
    job = told["job"]["id"]
    assert told["job"]["status"] in {"queued", "running"}
    code, out, _ = cli("job", "watch", job)
    assert (code, "succeeded" in out) == (0, True)
    assert as_json(cli, "job", "show", job)["status"] == "succeeded"
    assert job in cli("job", "list")[1]
    code, _, err = cli("job", "cancel", job)
    assert (code, one_line(err)) == (1, "the job is succeeded already")


def test_a_job_that_fails_exits_1_and_says_why(served: Served, cli: Cli) -> None:
    assert cli(*CREATE)[0] == 0
    vmid = as_json(cli, "server", "show", "web1")["facts"]["vmid"]

    async def exchange() -> None:
        served.world.sandbox.operator.forget(vmid)
        served.world.sandbox.operator.create_stranger(vmid, "pve1")

    served.do(exchange())
    code, _, err = cli("server", "delete", "web1")
    assert code == 1
    assert one_line(err).startswith("server web1: ")
    assert vmid in served.world.sandbox.vms


def test_a_stack_is_applied_in_order_and_prunes_only_when_asked(
    served: Served, cli: Cli, tmp_path: Path
) -> None:
    stack = tmp_path / "stack.yaml"
    stack.write_text(
        """
- kind: server
  name: app
  spec: {region: r1, plan: tiny-plan, image: tiny, networks: [{network: private}]}
- kind: network
  name: private
  spec: {region: r1, vlan: 5, cidr: 10.50.0.0/24, gateway: 10.50.0.1}
- kind: plan
  name: tiny-plan
  spec: {cores: 1, memory_mib: 512, disk_gib: 4}
"""
    )
    code, out, err = cli("apply", "-f", str(stack), "--dry-run")
    assert code == 0, err
    assert [line.split()[:2] for line in out.splitlines()] == [
        ["plan", "tiny-plan:"], ["network", "private:"], ["server", "app:"]
    ]  # fmt: skip
    assert as_json(cli, "server", "list") == []
    code, out, err = cli("apply", "-f", str(stack))
    assert code == 0, err
    assert "server app is at version 1, read back" in out
    code, out, _ = cli("apply", "-f", str(stack))
    assert code == 0
    assert out.count("nothing to do") == 3
    assert cli(*CREATE)[0] == 0
    assert cli("apply", "-f", str(stack))[0] == 0
    assert {one["name"] for one in as_json(cli, "server", "list")} == {"app", "web1"}
    code, out, err = cli("apply", "-f", str(stack), "--prune", "--dry-run")
    assert code == 0
    assert "server web1" in out
    code, out, err = cli("apply", "-f", str(stack), "--prune")
    assert code == 1, (out, err)
    assert {one["name"] for one in as_json(cli, "server", "list")} == {"app", "web1"}


def test_pruning_deletes_what_the_file_leaves_out_of_its_kinds(
    served: Served, cli: Cli, tmp_path: Path
) -> None:
    assert cli("plan", "create", "old", "--cores", "1", "--memory-mib", "512", "--disk-gib", "4")[0] == 0
    stack = tmp_path / "stack.yaml"
    stack.write_text("- {kind: plan, name: small, spec: {cores: 1, memory_mib: 512, disk_gib: 4}}\n")
    assert cli("apply", "-f", str(stack), "--prune", "--yes")[0] == 0
    assert [one["name"] for one in as_json(cli, "plan", "list")] == ["small"]
    assert [one["name"] for one in as_json(cli, "network", "list")] == ["lan"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("{", "not YAML"),
        ("a: 1", "not a list of kind, name, spec"),
        ("- {kind: nosuch, name: a, spec: {}}", "there is no kind nosuch"),
        ("- {kind: plan, name: a}", "entry 1 is not kind, name, spec"),
        ("- {kind: plan, name: a, spec: {}}\n- {kind: plan, name: a, spec: {}}", "is there twice"),
        ("- {kind: [plan], name: a, spec: {}}", "entry 1"),
        ("- {kind: plan, name: [a], spec: {}}", "entry 1"),
    ],
)
def test_a_stack_that_is_wrong_is_a_usage_error(cli: Cli, tmp_path: Path, text: str, line: str) -> None:
    stack = tmp_path / "stack.yaml"
    stack.write_text(text)
    code, _, err = cli("apply", "-f", str(stack))
    assert code == 2
    assert line in one_line(err)


def test_tokens_and_projects(served: Served, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cli("project", "create", "other")[0] == 0
    assert "other" in cli("project", "list")[1]
    made = as_json(cli, "--project", "other", "token", "create", "ci", "--role", "viewer")
    monkeypatch.setenv("ZONE9_TOKEN", made["token"])
    assert as_json(cli, "server", "list") == []
    code, _, err = cli(*CREATE)
    assert (code, one_line(err)) == (1, "this token may not do that")
    monkeypatch.delenv("ZONE9_TOKEN")
    assert cli("token", "revoke", made["id"])[0] == 0
    code, _, err = cli("token", "revoke", made["token"])
    assert (code, made["token"] in err) == (2, False)
    monkeypatch.setenv("ZONE9_TOKEN", made["token"])
    code, _, err = cli("server", "list")
    assert (code, one_line(err)) == (1, "a valid API token is needed")


def test_a_region_is_measured_by_its_self_test(served: Served, cli: Cli) -> None:
    code, out, err = cli("region", "self-test", "r1")
    assert code == 0, err
    assert "read.nodes" in out
    secret = served.world.sandbox.token.split("=", 1)[1]
    assert secret not in cli("region", "show", "r1", "--output", "json")[1]


def test_a_secret_comes_from_a_file_or_from_standard_input(
    served: Served, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = served.world.sandbox.token.split("=", 1)[1]
    code, _, err = cli("region", "set", "r1", "--token-secret", secret)
    assert (code, secret in err) == (2, False)
    assert one_line(err).endswith("give --token-secret @FILE, or --token-secret @- and type it")

    token_ref = as_json(cli, "region", "show", "r1")["spec"]["token_ref"]
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{secret}\n"))
    assert cli("region", "set", "r1", "--token-secret", "@-")[0] == 0
    assert as_json(cli, "region", "show", "r1")["spec"]["token_ref"] != token_ref
    file = tmp_path / "secret"
    file.write_text(f"{secret}\n")
    assert cli("region", "set", "r1", "--token-secret", f"@{file}")[0] == 0

    code, _, err = cli("region", "set", "r1", "--token-secret", "@/nosuch")
    assert (code, one_line(err)) == (2, "--token-secret: /nosuch cannot be read: No such file or directory")
    file.write_bytes(b"\xff\xfe")
    assert cli("region", "set", "r1", "--token-secret", f"@{file}")[0] == 2


def test_errors_are_one_line_in_the_users_language(
    served: Served, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, _, err = cli(*CREATE[:-1], "nosuch")
    assert code == 1
    assert one_line(err) == "there is no network named nosuch (/spec/networks/0/network)"
    monkeypatch.setenv("ZONE9_LANG", "tr")
    assert "nosuch adında bir network yok." in one_line(cli(*CREATE[:-1], "nosuch")[2])
    assert cli(*CREATE)[0] == 0
    assert "uygulandı" in cli("server", "list")[1]
    assert as_json(cli, "server", "show", "web1")["state"]["chip"] == "applied"


@pytest.mark.parametrize(
    "arguments",
    [
        ("nosuch",),
        ("server", "nosuch"),
        ("server", "show"),
        ("server", "create", "web1", "--nosuch", "x"),
        ("server", "create", "web1", "--region"),
        ("server", "create", "web1", "stray"),
        ("server", "list", "--output", "xml"),
        ("token", "create", "t"),
        ("apply",),
        ("apply", "-f", "/nosuch/stack.yaml"),
        ("server", "list", "--url", "ftp://x"),
        ("--url", "ftp://x", "server", "list"),
        ("serve", "--port", "99999999"),
        ("serve", "--role", "nosuch"),
    ],
)
def test_wrong_usage_exits_2_with_one_line(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.setenv("ZONE9_TOKEN", "z9_x")
    code, _, err = cli(*arguments)
    assert code == 2, err
    one_line(err)


def test_the_help_names_every_kind_and_imports_no_driver(cli: Cli) -> None:
    assert list(KINDS) == list(registry())
    looked = "import sys; from zone9.cli.app import run; run(['--help']); print(sorted(sys.modules), file=sys.stderr)"
    told = subprocess.run([sys.executable, "-c", looked], capture_output=True, text=True, check=True)
    assert all(name in told.stdout for name in COMMANDS)
    assert not {"sqlalchemy", "psycopg", "procrastinate", "fastapi"} & set(ast.literal_eval(told.stderr))
    for name in COMMANDS:
        code, out, _ = cli(name, "--help")
        assert (code, f" {name} " in out, "completion" in out) == (0, True, False), out


def test_nobody_there_exits_4(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZONE9_TOKEN", "z9_x")
    monkeypatch.setenv("ZONE9_URL", "http://127.0.0.1:9")
    for arguments in (("server", "list"), CREATE, ("events",)):
        code, _, err = cli(*arguments)
        assert (code, one_line(err)) == (4, "nobody answers at http://127.0.0.1:9")


def test_without_an_address_it_says_what_to_do(cli: Cli) -> None:
    code, _, err = cli("server", "list")
    assert code == 2
    assert "zone9 serve" in one_line(err)


def test_a_damaged_settings_file_is_one_line(cli: Cli) -> None:
    path = client.write_config("http://127.0.0.1:9", "z9_x")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_text("not toml")
    code, _, err = cli("server", "list")
    assert code == 2
    assert str(path) in one_line(err)


def test_events_are_followed_from_another_process(served: Served, cli: Cli) -> None:
    lines = client.Api(served.url, served.token).stream("/v1/events")
    assert next(lines).startswith("id: e1-")
    assert cli(*CREATE, "--no-wait")[0] == 0
    seen = [next(lines) for _ in range(12)]
    assert any(line.startswith("event: job") for line in seen)


def test_the_audit_is_computed_again_here_and_a_changed_row_is_named(
    served: Served, cli: Cli, database_url: str
) -> None:
    code, head, _ = cli("audit", "head")
    assert code == 0
    assert cli("project", "create", "shop")[0] == 0
    code, out, _ = cli("audit", "verify", "--head", head.strip())
    assert (code, "entries hold" in out) == (0, True)
    assert "project" in cli("audit", "list")[1]
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute("UPDATE audit SET entry = replace(entry, 'create', 'change') WHERE seq = 2")
    code, _, err = cli("audit", "verify")
    assert (code, "entry 2 is not what was written" in err) == (1, True)
    assert cli("audit", "verify", "--head", "x")[0] == 2


def test_convergence_is_shown(served: Served, cli: Cli) -> None:
    assert cli(*CREATE)[0] == 0
    code, out, _ = cli("convergence")
    assert (code, "p99 s" in out, "server" in out) == (0, True, True)


def test_a_guest_is_shown_given_to_a_project_taken_over_and_let_go(served: Served, cli: Cli) -> None:
    async def stranger() -> None:
        served.world.sandbox.operator.create_stranger(7001, name="old-db", tags="prod", cores=2)
        await served.world.sweep()
        await served.world.sweep()

    served.do(stranger())
    listed = as_json(cli, "guest", "list", "--tag", "prod")
    assert [(one["vmid"], one["origin"], one["status"]) for one in listed] == [(7001, "adopted", "stopped")]
    assert "old-db" in cli("guest", "list")[1]
    counts = cli("guest", "list", "--by", "tag")
    assert (counts[0], "prod" in counts[1]) == (0, True)
    assert "old-db" in cli("guest", "show", "r1", "7001")[1]
    assert as_json(cli, "guest", "attribute", "r1", "7001", "default")["project"] == "default"
    code, _, err = cli("guest", "attribute", "r1", "7001")
    assert (code, one_line(err)) == (2, "give a project, or --nobody")
    code, out, _ = cli("guest", "manage", "r1", "7001", "--dry-run")
    assert (code, "link" in out) == (0, True)
    code, out, _ = cli("guest", "manage", "r1", "7001", "--name", "db")
    assert (code, "db is at version 1, read back" in out) == (0, True)
    assert as_json(cli, "server", "show", "db")["spec"]["cores"] == 2
    code, out, _ = cli("server", "release", "db")
    assert (code, "no longer managed" in out) == (0, True)
    assert 7001 in served.world.sandbox.vms
    sweep = as_json(cli, "region", "sweep", "r1")
    assert (sweep["guests"], sweep["frozen"]) == (2, [])
    assert "frozen" in cli("region", "sweep", "r1")[1]
    code, _, err = cli("guest", "show", "r1", "42")
    assert (code, one_line(err)) == (1, "there is no guest 42 in r1")
