"""Runs the benchmarks, or those that are named: `python -m bench [servers lists pickup passes sandbox]`."""

import sys

from bench import lists, passes, pickup, sandbox, servers
from bench.kit import installation

ALL = {"servers": servers, "lists": lists, "pickup": pickup, "passes": passes, "sandbox": sandbox}


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in ALL]
    if unknown:
        print(f"no benchmark {', '.join(unknown)}; there are {', '.join(ALL)}", file=sys.stderr)
        return 2
    print("figures of one run on this machine; the last column is the ratio to the baseline\n")
    with installation() as made:
        for name in names or list(ALL):
            print(f"{name} …", file=sys.stderr)
            for figure in ALL[name].run(made):
                print(figure.line(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
