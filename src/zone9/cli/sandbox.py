"""`zone9 sandbox`: a Proxmox to try zone9 against without owning one, and its faults.

The sandbox itself is imported only where one is started: no other command pays for it.
"""

import asyncio
import contextlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zone9.cli.client import CommandError

if TYPE_CHECKING:
    from zone9.sandbox import Sandbox
    from zone9.sandbox.guests.seam import Guests

app = typer.Typer(invoke_without_command=True, no_args_is_help=False, help="a Proxmox to try zone9 against")

TEMPLATE = 9000


@app.callback()
def sandbox(
    ctx: typer.Context,
    nodes: Annotated[int, typer.Option(min=1, max=32)] = 3,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: a free one")] = 0,
    control_port: Annotated[int, typer.Option(min=0, max=65535, help="0: a free one")] = 0,
    qemu: Annotated[
        bool | None, typer.Option("--qemu/--no-qemu", help="real guests; the default is where QEMU is")
    ] = None,
    time_scale: Annotated[
        float, typer.Option(min=0.0, help="real seconds a second of Proxmox's tasks takes")
    ] = 0.0,
    keep: Annotated[
        Path | None, typer.Option(help="a file to keep the cluster in, and to begin with when it is there")
    ] = None,
) -> None:
    """Serves a ready-made small cluster on loopback until it is told to stop."""
    if ctx.invoked_subcommand is not None:
        return
    options = {"port": port, "control_port": control_port, "time_scale": time_scale}
    try:
        asyncio.run(_serve(nodes, qemu, keep, as_json=ctx.obj.json, **options))
    except OSError as error:
        raise CommandError(f"the sandbox cannot listen: {error.strerror}", 1) from None


async def _serve(nodes: int, qemu: bool | None, keep: Path | None, *, as_json: bool, **options: Any) -> None:
    from zone9.cli.keeping import Kept
    from zone9.sandbox import serve

    kept = None if keep is None else Kept(keep)
    guests, why = await real_guests(qemu)

    def ready(one: "Sandbox") -> None:
        told = {
            "url": one.url,
            "fingerprint": one.fingerprint,
            "token": one.token,
            "control_url": one.control_url,
            "template": TEMPLATE,
            "qemu": guests is not None,
            "why": why,
        }
        print(json.dumps(told) if as_json else _told(told), flush=True)
        if kept is not None:
            one.world.spawn(kept.keep(one))

    def furnish(one: "Sandbox") -> None:
        if kept is not None and kept.restore(one):
            return
        one.add_template(TEMPLATE, "pve1", name="tiny")
        one.add_vm(200, "pve1", name="theirs", running=guests is None, disk="8G", cores="2")

    names = tuple(f"pve{number}" for number in range(1, nodes + 1))
    try:
        await serve(ready=ready, furnish=furnish, nodes=names, guests=guests, **options)
    finally:
        if guests is not None:
            await guests.close()
        if kept is not None:
            kept.close()


async def real_guests(wanted: bool | None) -> tuple["Guests | None", str]:
    """Returns QEMU's guests, or None and why; raises CommandError when they were asked for and cannot be."""
    from zone9.sandbox.guests.missing import Missing
    from zone9.sandbox.guests.qemu import QemuGuests

    if wanted is False:
        return None, "a VM is a row: --no-qemu"
    try:
        return await QemuGuests.prepare(), "a running VM is a QEMU process"
    except (Missing, OSError) as error:
        if wanted:
            raise CommandError(str(error), 1) from None
        return None, f"a VM is a row: {error}"


def _told(told: dict[str, Any]) -> str:
    token_id, secret = told["token"].split("=", 1)
    return (
        f"a Proxmox sandbox is at {told['url']} ({told['why']})\n"
        f"its certificate: {told['fingerprint']}\n"
        f"its token: {told['token']}\n"
        f"its control port: {told['control_url']}\n"
        f"attach it:\n"
        f"  echo {secret} | zone9 region add sandbox --urls {told['url']} \\\n"
        f"    --fingerprint {told['fingerprint']} \\\n"
        f"    --token-id '{token_id}' --token-secret @-\n"
        f"  zone9 image create tiny --region sandbox --vmid {TEMPLATE}"
    )


@app.command()
def prepare() -> None:
    """Makes the tiny guest once, so that nothing has to be fetched later."""

    async def make() -> None:
        guests, why = await real_guests(None)
        if guests is not None:
            await guests.close()
        print(why, file=sys.stderr)

    asyncio.run(make())


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def fault(
    ctx: typer.Context,
    control: Annotated[str, typer.Option(help="the control port's address")],
    kind: Annotated[
        str | None, typer.Argument(help="what goes wrong; left out: the list of what is set")
    ] = None,
    method: str = "*",
    path: str = "*",
    times: int | None = None,
    after: int = 0,
    clear: Annotated[bool, typer.Option("--clear", help="take all faults away")] = False,
) -> None:
    """Sets a fault: an answer lost, a lock time-out, a task that fails, a write that does nothing …"""
    document: dict[str, Any] = {"kind": kind, "method": method, "path": path, "after": after}
    if times is not None:
        document["times"] = times
    rest = list(ctx.args)
    while len(rest) >= 2 and rest[0].startswith("--"):
        name, value = rest.pop(0)[2:], rest.pop(0)
        document[name] = int(value) if value.lstrip("-").isdigit() else value
    if rest:
        raise CommandError(f"unexpected argument: {rest[0]}", 2)
    verb = "DELETE" if clear else "GET" if kind is None else "POST"
    print(json.dumps(control_port(control, verb, "/faults", document if verb == "POST" else None), indent=2))


def control_port(address: str, method: str, path: str, document: dict[str, Any] | None = None) -> Any:
    """Asks a sandbox's control port. Raises CommandError with its own sentence."""
    import httpx2  # here: only this needs it

    try:
        answer = httpx2.request(method, f"{address.rstrip('/')}{path}", json=document, trust_env=False)
        said = answer.json()
    except (httpx2.TransportError, httpx2.InvalidURL, httpx2.UnsupportedProtocol, ValueError):
        raise CommandError(f"no sandbox answers at {address}", 4) from None
    if answer.status_code >= 400:
        with contextlib.suppress(TypeError, KeyError):
            said = said["error"]
        raise CommandError(f"the sandbox refused it: {said}", 2)
    return said
