"""The command line: it talks to the API, not to the database. `main` turns every error into one line and a code.

Exit codes: 0 read back (or nothing to do), 1 failed, 2 the command was wrong, 3 waiting for a person, 4 nobody
answered.
"""

import sys


def main() -> None:
    """Runs one command."""
    from zone9.cli.app import run  # here: `import zone9.cli` must stay cheap for the processes that serve

    sys.exit(run(sys.argv[1:]))
