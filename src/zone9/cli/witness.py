"""The demo's witness: a process of its own, which asks the sandbox and the guests' pages, never zone9.

It reads from standard input what was asked, looks for it in the world, and says of each thing what it found. It
imports nothing of zone9: what zone9 believes cannot reach it. Exit code 0 only when everything is there.
"""

import ipaddress
import json
import sys
import time
import urllib.parse
import urllib.request
from typing import Any

PAGE_PATIENCE = 60.0  # seconds; an emulated guest boots in about five
LOCAL = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def get(url: str, seconds: float = 5.0) -> Any:
    """Fetches a JSON document from this machine."""
    with LOCAL.open(url, timeout=seconds) as answer:
        return json.loads(answer.read())


def parts(line: str) -> dict[str, str]:
    """Reads a line of `key=value,key=value`."""
    return dict(one.partition("=")[::2] for one in line.split(","))


def problems(asked: dict[str, Any], vms: list[dict[str, Any]]) -> list[str]:
    """Returns what of a server is not as it was asked."""
    mine = [vm for vm in vms if vm["config"].get("name") == asked["name"]]
    if len(mine) != 1:
        return [f"{len(mine)} VMs have its name"]
    vm, config, found = mine[0], mine[0]["config"], []
    if not vm["node"] or vm["template"]:
        found.append("it is not a VM on a node")
    if vm["status"] != {"on": "running", "off": "stopped"}[asked["power"]]:
        found.append(f"power {asked['power']} was asked, it is {vm['status']}")
    if int(config.get("cores", 1)) != asked["cores"]:
        found.append(f"{asked['cores']} cores were asked, it has {config.get('cores', 1)}")
    if int(config.get("memory", 512)) != asked["memory_mib"]:
        found.append(f"{asked['memory_mib']} MiB were asked, it has {config.get('memory', 512)}")
    if vm["pending"] or vm["pending_delete"]:
        found.append(f"changes are pending: {vm['pending'] or vm['pending_delete']}")
    if not set(asked["tags"]) <= set(config.get("tags", "").split(";")):
        found.append(f"the tags {', '.join(asked['tags'])} were asked, it has {config.get('tags', 'none')}")
    if asked["ssh_key"] not in urllib.parse.unquote(config.get("sshkeys", "")):
        found.append("it does not have the SSH key")
    if not parts(config.get("smbios1", "")).get("uuid"):
        found.append("it has no uuid")
    address = parts(config.get("ipconfig0", "")).get("ip", "").split("/")[0]
    if not address or ipaddress.ip_address(address) not in ipaddress.ip_network(asked["cidr"]):
        found.append(f"an address of {asked['cidr']} was asked, it has {address or 'none'}")
    return found


def page_problems(asked: dict[str, Any], vm: dict[str, Any]) -> list[str]:
    """Returns what is wrong with the guest's own page; a guest that is still booting is waited for."""
    if not vm["page_url"]:
        return ["it has no page"]
    url, until, last = f"{vm['page_url']}facts.json", time.monotonic() + PAGE_PATIENCE, "no answer"
    print(f"{asked['name']}: waiting for its page at {vm['page_url']}", flush=True)
    while time.monotonic() < until:
        try:
            says = get(url)
        except (OSError, ValueError) as error:
            last = str(error)
            time.sleep(0.3)
            continue
        uuid = parts(vm["config"]["smbios1"])["uuid"]
        address = parts(vm["config"]["ipconfig0"])["ip"].split("/")[0]
        wanted = {"name": asked["name"], "uuid": uuid.lower(), "address": address}
        said = {key: str(says.get(key, "")).lower() for key in wanted}
        return [
            f"its page says the {key} {said[key]!r}, not {one!r}"
            for key, one in wanted.items()
            if said[key] != one
        ]
    return [f"its page does not answer: {last}"]


def main() -> int:
    """Returns 0 only when everything that was asked is there."""
    case = json.load(sys.stdin)
    try:
        vms = get(case["control_url"] + "/vms")
    except (OSError, ValueError) as error:
        print(f"the sandbox does not answer: {error}", flush=True)
        return 1
    wrong = 0
    for asked in case["servers"]:
        found = problems(asked, vms)
        vm = next((vm for vm in vms if vm["config"].get("name") == asked["name"]), None)
        if not found and vm is not None and case["pages"]:
            found = page_problems(asked, vm)
        wrong += bool(found)
        if found or vm is None:
            print(f"{asked['name']}: not found as asked: {'; '.join(found)}", flush=True)
        else:
            page = " and its page says its name, uuid and address" if case["pages"] else ""
            where = f"VM {vm['vmid']} on {vm['node']}, {vm['status']}"
            print(f"{asked['name']}: {where}, is as it was asked{page}", flush=True)
    return 1 if wrong or not case["servers"] else 0


if __name__ == "__main__":
    sys.exit(main())
