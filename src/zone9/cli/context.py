"""What every command of one call shares: the API (made when first needed) and the way to print."""

from dataclasses import dataclass, field

from zone9.cli.client import Api


@dataclass
class Session:
    """Is one call of the command line."""

    url: str | None = None
    project: str | None = None
    json: bool = False
    _api: Api | None = field(default=None)

    @property
    def api(self) -> Api:
        if self._api is None:
            self._api = Api.configured(self.url, self.project)
        return self._api

    def close(self) -> None:
        if self._api is not None:
            self._api.close()
