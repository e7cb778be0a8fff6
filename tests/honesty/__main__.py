"""`python -m honesty [SECONDS]`: plays scenarios for so long and prints what came of them; exit code 1 for any untruth."""

import sys

from honesty.machine import Tally
from honesty.playing import play_for
from postgres_servers import KINDS, Servers

PLURAL = {
    "false green": "false greens",
    "wrong write": "wrong writes",
    "false absence": "false absences",
    "not converged": "not converged",
}


def progress(tally: Tally) -> None:
    if sys.stderr.isatty():
        print(f"\r{tally.scenarios} scenarios", end="", file=sys.stderr, flush=True)


def main(arguments: list[str]) -> int:
    seconds = float(arguments[0]) if arguments else 60.0
    with Servers() as servers:
        tally = play_for(servers.of(KINDS[0]).databases, seconds, progress)
    for name, count in tally.rules.most_common():
        print(f"{count:6} {name}")
    print(
        f"{tally.scenarios} scenarios, {sum(tally.rules.values())} steps, {tally.requests} requests to Proxmox"
    )
    found = sorted(set(tally.lies))
    for kind in ("false green", "wrong write", "false absence", "not converged"):
        print(f"{PLURAL[kind]}: {sum(one.startswith(kind) for one in found)}")
    print("\n".join(tally.stories), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
