"""Replays recorded answers of Proxmox's own code against the sandbox.

Nothing here knows a row by its number: what happened outside of HTTP stands in `left_out.toml`, with a reason.
"""

import asyncio
import hashlib
import io
import json
import os
import re
import ssl
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import aiohttp
import furnishing
import recorded_files
from comparing import CONSOLE_PORT, UPID, Comparison, Pairs
from recorded_consoles import Consoles
from renaming import SAME, Renaming

from zone9.sandbox import Sandbox, pvestatd
from zone9.sandbox.state import Volume

HERE = Path(__file__).parent
# The web server that the recordings fetched from.
RECORDED_SERVER = "10.99.0.1:8099"


def data_directory() -> Path | None:
    """Answers where the recordings are, None when they are not there."""
    found = Path(os.environ.get("ZONE9_TEST_DATA", HERE.parents[2] / "shared" / "data"))
    return found if (found / "pve-9.2-recorded.jsonl").exists() else None


def load_rows(name: str) -> list[dict[str, Any]]:
    directory = data_directory()
    assert directory is not None
    with (directory / name).open() as lines:
        return [json.loads(line) for line in lines]


@dataclass
class Notes:
    """Is `left_out.toml`: what happened besides, and which rows are not compared, and why."""

    left_out: dict[tuple[str, int], str] = field(default_factory=dict)
    events: dict[tuple[str, int], list[dict[str, Any]]] = field(default_factory=dict)
    flows: dict[tuple[str, str], str] = field(default_factory=dict)

    @classmethod
    def load(cls) -> "Notes":
        document = tomllib.loads((HERE / "left_out.toml").read_text())
        notes = cls()
        for entry in document.get("left_out", []):
            for number in _numbers(entry["rows"]):
                notes.left_out[entry["file"], number] = entry["why"]
        notes.flows = {(entry["file"], entry["flow"]): entry["why"] for entry in document.get("skip", [])}
        for entry in document.get("event", []):
            notes.events.setdefault((entry["file"], entry["before"]), []).append(entry)
        return notes


def _numbers(rows: list[Any]) -> list[int]:
    found: list[int] = []
    for row in rows:
        if isinstance(row, str):
            first, _, last = row.partition("-")
            found += range(int(first), int(last) + 1)
        else:
            found.append(row)
    return found


def _had_ended(row: dict[str, Any]) -> bool:
    """Tells whether a task that was looked at had ended: that it had was chance, what it ended with was not."""
    document = row["response"].get("json")
    data = document.get("data") if isinstance(document, dict) else None
    return isinstance(data, dict) and "upid" in data and data.get("status") == "stopped"


class Replay:
    """Is one recording, or one part of one, against one sandbox."""

    def __init__(self, file: str, sandbox: Sandbox, notes: Notes, rename: Renaming = SAME) -> None:
        self.rename = self._rename = rename
        self._node = f"/nodes/{rename.text('pve1')}"
        self._file = file
        self._sandbox = sandbox
        self._notes = notes
        self._pairs = Pairs()
        self._tickets: dict[str, str] = {}
        self._consoles = Consoles()
        self._tokens: dict[str, str] = {}
        self.equal: list[int] = []
        self.different: dict[int, str] = {}

    def serve(self, port: int) -> None:
        """Says where the files are that the recording fetched."""
        self._pairs.meet(RECORDED_SERVER, f"10.99.0.1:{port}")

    def know(self, name: str, token: str) -> None:
        self._tokens[name] = token

    async def run(self, rows: list[dict[str, Any]]) -> None:
        context = ssl.create_default_context(cadata=self._sandbox.certificate_pem)
        connector = aiohttp.TCPConnector(ssl=context)
        async with aiohttp.ClientSession(connector=connector, skip_auto_headers=["Content-Type"]) as session:
            for recorded in rows:
                row = self._rename.row(recorded)
                if "request" not in row or (self._file, row["flow"]) in self._notes.flows:
                    continue
                for event in self._notes.events.get((self._file, row["n"]), []):
                    await self._happen(event)
                await self._one(session, row)

    async def _one(self, session: aiohttp.ClientSession, row: dict[str, Any]) -> None:
        number, recorded = row["n"], row["response"]
        if "at the end" in str(row.get("note")) or _had_ended(row):
            await self._wait_for(row["request"]["url"])
        status, reason, document = await self._ask(session, row["request"], str(row.get("note")))
        self._consoles.keep(recorded.get("json"), document)
        self._consoles.shown(document)
        if (self._file, number) in self._notes.left_out:
            self._learn(recorded.get("json"), document)
            return
        comparison = Comparison(self._pairs)
        reasons = [CONSOLE_PORT.sub("#", str(one)) for one in (recorded.get("reason"), reason)]
        if status != recorded.get("status") or reasons[0] != reasons[1]:
            wanted = f"{recorded.get('status')} {recorded.get('reason')}"
            self.different[number] = f"{wanted!r} != {f'{status} {reason}'!r}"
            self._learn(recorded.get("json"), document)
        elif comparison.same(recorded.get("json"), document):
            self.equal.append(number)
        else:
            self.different[number] = comparison.why
            self._learn(recorded.get("json"), document)

    def _learn(self, recorded: Any, ours: Any) -> None:
        """Pairs ids even of an answer that is not equal, so that later rows can be asked."""
        left, right = json.dumps(recorded), json.dumps(ours)
        for pattern in (UPID,):
            found = zip(pattern.findall(left), pattern.findall(right), strict=False)
            for one, other in found:
                if one.split(":")[5:] == other.split(":")[5:]:
                    self._pairs.meet(one, other)
        if isinstance(recorded, dict) and isinstance(ours, dict):
            one, other = recorded.get("data"), ours.get("data")
            if isinstance(one, dict) and isinstance(other, dict) and "digest" in one and "digest" in other:
                self._pairs.ours[one["digest"]] = other["digest"]

    async def _ask(
        self, session: aiohttp.ClientSession, request: dict[str, Any], note: str
    ) -> tuple[int, str, Any]:
        url = request["url"]
        url = re.sub(r"UPID(?:%3A[^/?&]*)+", self._encoded_upid, url)
        body = request.get("body")
        headers = self._headers(request.get("auth"))
        data: str | bytes | None = None
        # Files take a while on their way, and their tasks must not be over when they are looked at.
        patience = 0.3 if isinstance(body, dict) else 0.03
        if isinstance(body, dict):
            data, headers["Content-Type"], files = recorded_files.multipart(body, note)
            for checksum, file in self._checksums(files):
                data = data.replace(checksum.encode(), file.encode())
        elif body is not None:
            self._checksums(recorded_files.fetched(body) if body[:1] != "{" else {})
            data = self._pairs.translate(body).replace("<TICKET>", quote(self._tickets.get("ticket", "")))
            if data.startswith("{"):
                headers["Content-Type"] = "application/json"
            elif data:
                headers["Content-Type"] = "application/x-www-form-urlencoded"
        url = self._pairs.translate(self._consoles.url(url))

        async def asked() -> tuple[int, str, Any]:
            target = aiohttp.client.URL(self._sandbox.url + url, encoded=True)
            sent = io.BytesIO(data) if isinstance(data, bytes) else data
            async with session.request(request["method"], target, data=sent, headers=headers) as response:
                text = await response.text()
                is_json = "json" in response.headers.get("Content-Type", "")
                return response.status, response.reason or "", json.loads(text) if text and is_json else None

        answer = asyncio.ensure_future(asked())
        while not answer.done():
            await asyncio.wait({answer}, timeout=patience)
            if not answer.done():
                await self._sandbox.clock.advance(0.25)
        status, reason, document = answer.result()
        if status == 200 and isinstance(document, dict) and isinstance(document.get("data"), dict):
            self._keep(request, document["data"])
        return status, reason, document

    def _checksums(self, files: dict[str, bytes]) -> list[tuple[str, str]]:
        """Pairs the checksums of the recording's files with those of ours."""
        pairs = [(recorded, hashlib.sha256(file).hexdigest()) for recorded, file in files.items()]
        for recorded, ours in pairs:
            self._pairs.meet(recorded, ours)
        return pairs

    def _keep(self, request: dict[str, Any], data: dict[str, Any]) -> None:
        if "ticket" in data and "CSRFPreventionToken" in data:
            self._tickets = {"ticket": data["ticket"], "csrf": data["CSRFPreventionToken"]}
            data.update(ticket="<TICKET>", CSRFPreventionToken="<CSRF>")
        if "full-tokenid" in data:
            self._tokens["ctl"] = f"{data['full-tokenid']}={data['value']}"
            data["value"] = "<TOKEN_SECRET>"

    def _encoded_upid(self, match: re.Match[str]) -> str:
        plain = unquote(match[0])
        return quote(self._pairs.ours.get(plain, plain), safe="")

    def _headers(self, auth: str | None) -> dict[str, str]:
        if auth is None:
            return {}
        if auth.startswith("ticket"):
            headers = {"Cookie": f"PVEAuthCookie={quote(self._tickets['ticket'], safe='')}"}
            if auth == "ticket":
                headers["CSRFPreventionToken"] = self._tickets["csrf"]
            return headers
        text = self._rename.text
        bad = {"badsecret": text("z9@pve!ctl=no"), "badtoken": text("z9@pve!no=no"), "badform": "rubbish"}
        return {"Authorization": f"PVEAPIToken={bad.get(auth) or self._tokens[auth]}"}

    async def _wait_for(self, url: str) -> None:
        match = re.search(r"UPID(?:%3A[^/?&]*)+", url)
        if match is None:
            return
        task = self._sandbox.tasks.by_upid.get(self._pairs.ours.get(unquote(match[0]), ""))
        for _ in range(400):
            if task is None or not task.running:
                return
            await self._sandbox.clock.advance(0.25)
            # What is fetched comes in real time.
            await asyncio.sleep(0.002)

    async def _happen(self, event: dict[str, Any]) -> None:
        sandbox, operator = self._sandbox, self._sandbox.operator
        event, node = self._rename.document(event), self._rename.text("pve1")
        match event["do"]:
            case "wait":
                for _ in range(int(event["seconds"] * 4)):
                    await sandbox.clock.advance(0.25)
            case "edit":
                operator.edit_file(event["vmid"], **event["config"])
            case "lock":
                operator.set_lock(event["vmid"], event.get("lock"))
            case "kill":
                operator.kill_guest(event["vmid"])
            case "flock":
                self._held = asyncio.ensure_future(self._hold(event["vmid"], event["seconds"]))
                await asyncio.sleep(0.01)
            case "release":
                self._held.cancel()
                await asyncio.gather(self._held, return_exceptions=True)
            case "kill_worker":
                running = [task for task in sandbox.tasks.by_upid.values() if task.running]
                await sandbox.tasks.kill(running[-1])
            case "clone":
                await self._clone(**event["of"])
            case "come":
                await self._consoles.come(
                    sandbox, self._tokens["ctl"], event["vmid"], event["port"], event.get("line")
                )
            case "go":
                await self._consoles.go(event["port"])
            case "delete":
                await operator.delete(event["vmid"])
            case "pvestatd":
                pvestatd.tell(sandbox.world)
            case "graphed":
                minute = sandbox.clock.now() // 60 * 60
                sandbox.cluster.nodes[node].booted_at = minute - 60 * event["node_minutes"]
                sandbox.world.graphed[event["vmid"]] = minute - 60 * event["vm_minutes"]
            case "drop":
                for key in event["keys"]:
                    sandbox.vms[event["vmid"]].file.values.pop(key, None)
                sandbox.vms[event["vmid"]].file.touch()
            case "template":
                vm = sandbox.add_vm(
                    event["vmid"],
                    storage=self._rename.text("vmstore"),
                    name="tmpl-nocd",
                    disk="300M",
                    used=300 * 2**20,
                    prefix="base",
                    boot="order=scsi0;net0",
                    memory="128",
                    scsihw="virtio-scsi-single",
                )
                del vm.config["cores"]
                vm.file.put("template", "1")
                furnishing.rename_configs(sandbox, self)
            case "start":
                await self._quietly(f"{self._node}/qemu/{event['vmid']}/status/start", {})
            case "create":
                await self._create(event["with"])
            case "set":
                target = getattr(sandbox, event["what"])
                for name, value in event["to"].items():
                    setattr(target, name, value)
            case "vm":
                setattr(sandbox.vms[event["vmid"]], event["field"], event["to"])
            case "grant":
                for who in map(self._rename.text, ("z9@pve", "z9@pve!ctl")):
                    sandbox.accounts.grant(event["path"], who, frozenset(event["privileges"]))
            case "revoke":
                for who in map(self._rename.text, ("z9@pve", "z9@pve!ctl")):
                    sandbox.accounts.revoke(event["path"], who)
            case "files":
                for volid in event["volumes"]:
                    content, _, name = volid.partition(":")[2].partition("/")
                    suffix = "iso" if content == "iso" else name.rsplit(".", 1)[-1]
                    volume = Volume(volid, content, suffix, 2**20, sandbox.world.now(node))
                    sandbox.cluster.storages[volid.partition(":")[0]].on(node)[volid] = volume
            case "option":
                sandbox.world.options[event["name"]] = event["to"]

    async def _clone(self, **details: Any) -> None:
        """Clones as the flow did before its first recorded row."""
        source = details.pop("source")
        await self._quietly(f"{self._node}/qemu/{source}/clone", details)

    async def _create(self, details: dict[str, Any]) -> None:
        await self._quietly(f"{self._node}/qemu", details)

    async def _quietly(self, path: str, details: dict[str, Any]) -> None:
        context = ssl.create_default_context(cadata=self._sandbox.certificate_pem)
        headers = {"Authorization": f"PVEAPIToken={self._tokens['root']}"}
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=context), headers=headers
        ) as session:
            url = f"{self._sandbox.url}/api2/json{path}"
            async with session.post(
                url, data={key: str(value) for key, value in details.items()}
            ) as response:
                assert response.status == 200, (response.reason, await response.text())
        while any(task.running for task in self._sandbox.tasks.by_upid.values()):
            await self._sandbox.clock.advance(0.25)

    async def _hold(self, vmid: int, seconds: float) -> None:
        async with self._sandbox.world.locks.hold(vmid):
            await self._sandbox.clock.sleep(seconds)
