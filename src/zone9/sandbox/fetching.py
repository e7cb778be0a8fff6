"""Fetching a URL as a node does, without ever leaving this machine.

A node's own address and loopback are really asked, on this machine's loopback. For every other host a node of the
sandbox is one without a network: names do not resolve, addresses cannot be reached. The texts are wget's and LWP's
(pve-facts 6.2, upload 9); redirects are followed by the same rule.
"""

import asyncio
import ipaddress
import os
import ssl
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import urljoin, urlsplit

import aiohttp
from yarl import URL

from zone9.sandbox.answers import PveError
from zone9.sandbox.state import Cluster

PATIENCE = aiohttp.ClientTimeout(total=60)
CHUNK = 2**18
MOST_REDIRECTS = 20
MIB = 2**20
# wget's progress in the style that Proxmox asks for: a dot a MiB, by eights, 32 a line.
DOTS, GROUP = 32, 8


class Unreachable(Exception):
    """Says why no connection came to be; `named` is the host as wget shows it, None when its name is unknown."""

    def __init__(self, why: str, named: str | None) -> None:
        super().__init__(why)
        self.why = why
        self.named = named


@dataclass(frozen=True, slots=True)
class Place:
    """Is where a URL leads: the host and port it names, and where on this machine that is."""

    host: str
    port: int
    address: str

    @property
    def shown(self) -> str:
        if self.host == "localhost":
            return f"localhost (localhost)|{self.address}|:{self.port}"
        return f"{self.host}:{self.port}"


def place_of(cluster: Cluster, url: str) -> Place:
    """Answers where a URL leads; raises Unreachable for anything that is not this machine."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    if host == "localhost" or any(host == node.address for node in cluster.nodes.values()):
        return Place(host, port, "127.0.0.1")
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        raise Unreachable("Temporary failure in name resolution", None) from None
    if not address.is_loopback:
        raise Unreachable("Network is unreachable", f"{host}:{port}")
    return Place(host, port, host)


@asynccontextmanager
async def opened(
    cluster: Cluster, method: str, url: str, *, verify: bool
) -> AsyncIterator[aiohttp.ClientResponse]:
    """Asks for a URL without following redirects; raises Unreachable."""
    place = place_of(cluster, url)
    literal = f"[{place.address}]" if ":" in place.address else place.address
    parts = urlsplit(url)
    target = URL(parts._replace(netloc=f"{literal}:{place.port}", fragment="").geturl(), encoded=True)
    # No proxy of this machine's environment may carry the request elsewhere.
    async with aiohttp.ClientSession(timeout=PATIENCE, trust_env=False, auto_decompress=False) as session:
        try:
            response = await session.request(
                method, target, headers={"Host": parts.netloc}, allow_redirects=False, ssl=verify
            )
        except (aiohttp.ClientConnectorCertificateError, ssl.SSLError) as error:
            raise Unreachable("certificate verify failed", place.shown) from error
        except aiohttp.ClientConnectorError as error:
            why = os.strerror(error.errno) if error.errno else "Connection refused"
            raise Unreachable(why, place.shown) from error
        except (aiohttp.ClientError, TimeoutError) as error:
            raise Unreachable("Connection timed out", place.shown) from error
        async with response:
            yield response


async def metadata(cluster: Cluster, url: str, *, verify: bool) -> dict[str, Any]:
    """Answers a URL's file name, size and type, as pve-manager's query-url-metadata does."""
    parts = urlsplit(url)
    try:
        async with opened(cluster, "HEAD", url, verify=verify) as response:
            if response.status != HTTPStatus.OK:
                raise PveError(f"invalid server response: '{response.status} {response.reason}'")
            found: dict[str, Any] = {}
            disposition = response.content_disposition
            name = disposition.filename if disposition else None
            if name := name or parts.path.rsplit("/", 1)[-1]:
                found["filename"] = name
            if response.content_length is not None:
                found["size"] = response.content_length
            if "Content-Type" in response.headers:
                found["mimetype"] = response.content_type
            return found
    except Unreachable as error:
        where = f"{parts.hostname}:{parts.port or (443 if parts.scheme == 'https' else 80)}"
        why = f"500 Can't connect to {where} ({error.why})"
        raise PveError(f"invalid server response: '{why}'") from error


@dataclass(slots=True)
class Download:
    """Is one run of wget; `room` is how many bytes its target can take, `target` how it is called on the node."""

    cluster: Cluster
    target: str
    room: int
    verify: bool
    write: Callable[[bytes], None]
    log: Callable[[str], None]
    now: Callable[[], float]

    async def run(self, url: str) -> None:
        """Fetches it; raises what the task ends with."""
        for _ in range(MOST_REDIRECTS):
            self.log(f"--{self._moment()}--  {url}")
            try:
                following = await self._one(url)
            except Unreachable as error:
                raise PveError(f"download failed: {self._failed(url, error)}") from error
            if following is None:
                return
            url = following
        raise PveError(f"download failed: {MOST_REDIRECTS} redirections exceeded.")

    def _failed(self, url: str, error: Unreachable) -> str:
        host = urlsplit(url).hostname or ""
        if error.named is None:
            self.log(f"Resolving {host} ({host})... failed: {error.why}.")
            return f"wget: unable to resolve host address '{host}'"
        if error.why == "certificate verify failed":
            self.log(f"Connecting to {error.named}... connected.")
            self.log(f"ERROR: cannot verify {host}'s certificate")
            return f"To connect to {host} insecurely, use `--no-check-certificate'."
        return f"Connecting to {error.named}... failed: {error.why}."

    async def _one(self, url: str) -> str | None:
        """Asks once; answers where a redirect leads, None when the file is here."""
        async with opened(self.cluster, "GET", url, verify=self.verify) as response:
            if urlsplit(url).hostname == "localhost":
                self.log("Resolving localhost (localhost)... 127.0.0.1")
            self.log(f"Connecting to {place_of(self.cluster, url).shown}... connected.")
            self.log(f"HTTP request sent, awaiting response... {response.status} {response.reason}")
            location = response.headers.get("Location")
            if location and response.status in {301, 302, 303, 307, 308}:
                self.log(f"Location: {location} [following]")
                return urljoin(url, location)
            if response.status != HTTPStatus.OK:
                self.log(f"{self._moment()} ERROR {response.status}: {response.reason}.")
                raise PveError("download failed: exit code 8")
            await self._receive(response)
            return None

    async def _receive(self, response: aiohttp.ClientResponse) -> None:
        total = response.content_length
        length = (
            "unspecified" if total is None else f"{total} ({_short(total)})" if total > 1023 else str(total)
        )
        kind = f" [{response.content_type}]" if "Content-Type" in response.headers else ""
        self.log(f"Length: {length}{kind}")
        self.log(f"Saving to: '{self.target}'")
        done, began = 0, time.monotonic()
        async for chunk in response.content.iter_chunked(CHUNK):
            if done + len(chunk) > self.room:
                self._dots(self.room - 1, total, began, over=False)
                raise PveError(f"download failed: Cannot write to '{self.target}' (No space left on device).")
            self.write(chunk)
            done += len(chunk)
            await asyncio.sleep(0)
        self._dots(done, total, began, over=True)
        rate = done / max(time.monotonic() - began, 1e-6) / MIB
        saved = f"{done}/{total}" if total is not None else f"{done}"
        self.log(f"{self._moment()} ({rate:.0f} MB/s) - '{self.target}' saved [{saved}]")

    def _dots(self, done: int, total: int | None, began: float, *, over: bool) -> None:
        """Shows the progress, all lines of it at once."""
        seconds = max(time.monotonic() - began, 1e-6)
        dots = done // MIB
        for line in range(0, max(dots, 1), DOTS):
            shown = min(dots - line, DOTS)
            last = line + DOTS >= dots
            groups = "".join(f" {'.' * min(GROUP, shown - at)}" for at in range(0, max(shown, 1), GROUP))
            reached = done if last else (line + DOTS) * MIB
            share = "" if not total else f"{100 * reached // total:3}%"
            spent = f"={seconds:.2g}s" if last else " 0s"
            ending = f" {done / seconds / MIB:4.0f}M{spent}"
            self.log(f"{line * 1024:6}K{groups:<{DOTS + DOTS // GROUP}}{share}{ending}")

    def _moment(self) -> str:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(self.now()))


def _short(size: int) -> str:
    """Writes a size as wget does: one digit after the point below ten."""
    number, unit = size / 1024, "K"
    for larger in "MGT":
        if number < 1024:
            break
        number, unit = number / 1024, larger
    return f"{number:.1f}{unit}" if number < 10 else f"{number:.0f}{unit}"
