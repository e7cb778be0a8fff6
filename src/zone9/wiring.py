"""The one composition root: how the layers are joined in a process."""

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from zone9.base.errors import Later
from zone9.base.sealing import Sealer
from zone9.jobs.engine import Engine, Pace
from zone9.jobs.heart import Heart
from zone9.model.ports import Product
from zone9.products.registry import registry
from zone9.pve.client import Client, Endpoint
from zone9.pve.driver import RegionDriver
from zone9.reconcile.asking import Asking
from zone9.reconcile.children import Children
from zone9.reconcile.loop import Loop
from zone9.reconcile.measuring import Measuring
from zone9.reconcile.passes import Passes
from zone9.store import regions
from zone9.store.database import Database
from zone9.store.runs import RunStore


@dataclass
class RegionDrivers:
    """Builds and keeps a driver for each region, and a new one for a new version of its intent."""

    database: Database
    sealer: Sealer
    settle_seconds: float = 35.0
    task_patience: float = 5.0
    _kept: dict[str, tuple[int, RegionDriver]] = field(default_factory=dict)

    async def of(self, region: str) -> RegionDriver:
        """Raises Later when the region is gone."""
        kept = self._kept.get(region)
        facts = await regions.connection_facts(
            self.database, region, self.sealer, None if kept is None else kept[0]
        )
        if facts is None:
            raise Later("the region is not there any more", code="region_gone", delay=30.0)
        if facts.spec is not None and facts.secret is not None:
            if kept is not None:
                await kept[1].client.aclose()
            kept = self._kept[region] = (facts.version, self._build(facts.spec, facts.secret))
        assert kept is not None, "without a known version the facts are whole"
        return replace(kept[1], wanting=facts.wanting)

    def _build(self, spec: Mapping[str, object], secret: str) -> RegionDriver:
        endpoint = Endpoint(
            urls=tuple(str(url) for url in spec["urls"]),  # type: ignore[attr-defined]  # validated JSON
            token=f"{spec['token_id']}={secret}",
            fingerprint=str(spec["fingerprint"] or ""),
            ca_pem=str(spec["ca_pem"] or ""),
        )
        return RegionDriver(
            Client(endpoint),
            settle_seconds=self.settle_seconds,
            task_patience=self.task_patience,
            clones_per_template=int(str(spec["clones_per_template"])),
            storage=None if spec["storage"] is None else str(spec["storage"]),
            full_clone=bool(spec["full_clone"]),
        )

    async def close(self) -> None:
        for _version, driver in self._kept.values():
            await driver.client.aclose()
        self._kept.clear()


@dataclass
class Zone9:
    """Is everything that one process needs, joined."""

    database: Database
    sealer: Sealer
    products: dict[str, Product]
    drivers: RegionDrivers
    store: RunStore
    loop: Loop
    measuring: Measuring
    asking: Asking
    passes: Passes

    def engine(self, *, pace: Pace | None = None, heart: Heart | None = None) -> Engine:
        return Engine(
            self.database, reconcile=self.loop.run, verify=self.measuring.run, pace=pace, heart=heart
        )

    async def close(self) -> None:
        await self.drivers.close()
        await self.database.close()


def compose(
    database_url: str,
    key_file: Path,
    *,
    epoch: int = 1,
    pool: int = 12,
    settle_seconds: float = 35.0,
    task_patience: float = 5.0,
    pass_seconds: float = 10.0,
) -> Zone9:
    """Joins the layers for one process."""
    database = Database(database_url, size=pool)
    sealer = Sealer.from_file(key_file)
    products = registry()
    drivers = RegionDrivers(database, sealer, settle_seconds, task_patience)
    store = RunStore(database)
    holder = f"{socket.gethostname()}:{os.getpid()}"
    return Zone9(
        database=database,
        sealer=sealer,
        products=products,
        drivers=drivers,
        store=store,
        loop=Loop(store, products, drivers, Children(database, products, sealer)),
        measuring=Measuring(store, products, drivers),
        asking=Asking(database, products, sealer, epoch),
        passes=Passes(database, drivers, holder, every=pass_seconds),
    )
