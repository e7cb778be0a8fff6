"""The demo's witness: a process of its own, which asks the sandbox and the guests' pages, never zone9.

It reads from standard input what was asked (a JSON list), looks for it in the world, and says of each thing what
it found. It imports nothing of zone9: what zone9 believes cannot reach it.
"""

import json
import sys
import time
import urllib.error
import urllib.request
from typing import Any

PAGE_PATIENCE = 60.0
LOCAL = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def get(url: str, seconds: float = 5.0) -> str:
    """Fetches a page of this machine."""
    with LOCAL.open(url, timeout=seconds) as answer:
        text: str = answer.read().decode()
        return text


def problems(asked: dict[str, Any], vms: list[dict[str, Any]], *, pages: bool) -> list[str]:
    """Returns what of a server is not as it was asked."""
    mine = [vm for vm in vms if vm["config"].get("name") == asked["name"]]
    if len(mine) != 1:
        return [f"{len(mine)} VMs have its name"]
    vm, config, found = mine[0], mine[0]["config"], []
    if (vm["status"] == "running") != (asked["power"] == "on"):
        found.append(f"power {asked['power']} was asked, it is {vm['status']}")
    if int(config.get("cores", 1)) != asked["cores"]:
        found.append(f"{asked['cores']} cores were asked, it has {config.get('cores')}")
    if int(config.get("memory", 512)) != asked["memory_mib"]:
        found.append(f"{asked['memory_mib']} MiB were asked, it has {config.get('memory')}")
    if vm["pending"]:
        found.append(f"changes are pending: {vm['pending']}")
    if not set(asked["tags"]) <= set(config.get("tags", "").split(";")):
        found.append(f"tags {asked['tags']} were asked, it has {config.get('tags')!r}")
    if "uuid=" not in config.get("smbios1", ""):
        found.append("it has no uuid")
    if "ip=" not in config.get("ipconfig0", ""):
        found.append("it has no address")
    if pages and not found:
        found += page_problems(asked["name"], vm)
    return found


def page_problems(name: str, vm: dict[str, Any]) -> list[str]:
    """Returns what is wrong with the guest's own page; a guest that is still booting is waited for."""
    url, until, last = vm["page_url"], time.monotonic() + PAGE_PATIENCE, "no page"
    if not url:
        return ["it has no page"]
    while time.monotonic() < until:
        try:
            text = get(url)
        except (OSError, urllib.error.URLError) as error:
            last = str(error)
            time.sleep(0.5)
            continue
        uuid = vm["config"]["smbios1"].split("uuid=", 1)[1].split(",")[0].lower()
        found = [f"its page does not say {what}" for what in (name, uuid) if what not in text.lower()]
        if not found:
            print(f"{name}: its page at {url} says its name and its uuid", flush=True)
        return found
    return [f"its page does not answer: {last}"]


def main() -> int:
    """Returns 0 only when everything that was asked is there."""
    case = json.load(sys.stdin)
    listed = json.loads(get(case["control_url"] + "/vms"))
    vms = listed["vms"] if isinstance(listed, dict) else listed
    wrong = 0
    for asked in case["servers"]:
        found = problems(asked, vms, pages=case["pages"])
        wrong += bool(found)
        print(f"{asked['name']}: {'; '.join(found) if found else 'is as it was asked'}", flush=True)
    return 1 if wrong or not case["servers"] else 0


if __name__ == "__main__":
    sys.exit(main())
