"""The API as the command line sees it: where it is, with which token, and errors as one line with a code."""

import os
import tomllib
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx2

from zone9.cli.words import language, say


class CommandError(Exception):
    """Ends the command with one line and an exit code."""

    def __init__(self, line: str, code: int = 1) -> None:
        super().__init__(line)
        self.line = line
        self.code = code


def config_file() -> Path:
    """Returns where `zone9 serve` leaves the address and the first token for this user (mode 0600)."""
    home = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(home) / "zone9" / "cli.toml"


def _kept() -> dict[str, Any]:
    path = config_file()
    try:
        return tomllib.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise CommandError(f"{path} cannot be read: {error}", 2) from None


def write_config(url: str, token: str) -> Path:
    """Writes the address and a token, readable by this user alone."""
    path = config_file()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(f'url = "{url}"\ntoken = "{token}"\n')
    return path


class Api:
    """Speaks to one zone9. A read is tried once; a write carries an Idempotency-Key, so it may be tried again."""

    def __init__(self, url: str, token: str, project: str | None = None) -> None:
        headers = {"Authorization": f"Bearer {token}", "Accept-Language": language()}
        if project:
            headers["Zone9-Project"] = project
        self.url = url
        self._http = httpx2.Client(
            base_url=url, headers=headers, timeout=httpx2.Timeout(70, connect=5), trust_env=False
        )

    @classmethod
    def configured(cls, url: str | None, project: str | None) -> "Api":
        """Takes the address and the token from the environment, else from the file that `zone9 serve` left."""
        token = os.environ.get("ZONE9_TOKEN")
        url = url or os.environ.get("ZONE9_URL")
        if url is None or token is None:
            kept = _kept()
            url, token = url or kept.get("url"), token or kept.get("token")
        if not url or not token:
            raise CommandError(
                say("no address or token: set ZONE9_URL and ZONE9_TOKEN, or run `zone9 serve` first"), 2
            )
        if not url.startswith(("http://", "https://")):
            raise CommandError(f"not an address: {url}", 2)
        return cls(url, token, project or os.environ.get("ZONE9_PROJECT"))

    def close(self) -> None:
        self._http.close()

    def get(self, path: str, *, headers: Mapping[str, str] | None = None, **params: Any) -> Any:
        given = {key: value for key, value in params.items() if value is not None}
        return self._answer(lambda: self._http.get(path, params=given, headers=headers))

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        **params: Any,
    ) -> Any:
        """Sends a write; when the answer was lost, the same request with the same key is sent once more."""
        with_key = {"Idempotency-Key": uuid.uuid4().hex, **(headers or {})}
        given = {key: value for key, value in params.items() if value is not None}

        def once() -> httpx2.Response:
            return self._http.request(method, path, json=body, params=given, headers=with_key)

        try:
            return self._answer(once)
        except CommandError as error:
            if error.code != 4:
                raise
            return self._answer(once)

    def all(self, path: str, **params: Any) -> Iterator[dict[str, Any]]:
        """Yields the items of all pages."""
        token = None
        while True:
            page = self.get(path, page_size=500, page_token=token, **params)
            yield from page["items"]
            token = page["next_page_token"]
            if token is None:
                return

    def stream(self, path: str) -> Iterator[str]:
        """Yields the lines of an event stream."""
        try:
            with self._http.stream("GET", path, timeout=None) as response:
                if response.status_code != 200:
                    response.read()
                    raise refused(response)
                yield from response.iter_lines()
        except httpx2.TransportError as error:
            raise CommandError(say("nobody answers at {url}", url=self.url), 4) from error

    def _answer(self, send: Any) -> Any:
        try:
            response: httpx2.Response = send()
        except (httpx2.TransportError, httpx2.InvalidURL) as error:
            raise CommandError(say("nobody answers at {url}", url=self.url), 4) from error
        if response.status_code >= 400:
            raise refused(response)
        try:
            return response.json()
        except ValueError:
            raise CommandError(f"{self.url} is not a zone9", 4) from None


def refused(response: httpx2.Response) -> CommandError:
    """Returns a problem document as one line."""
    try:
        problem = response.json()
        line = str(problem["detail"])
        pointers = [one["pointer"] for one in problem.get("errors", []) if one.get("pointer")]
    except (ValueError, KeyError, TypeError):
        return CommandError(f"HTTP {response.status_code}", 1)
    where = f" ({', '.join(pointers)})" if pointers else ""
    return CommandError(
        f"{line}{where}", 4 if response.status_code == 503 else 2 if response.status_code == 400 else 1
    )
