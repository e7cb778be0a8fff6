"""What the cluster's list knows: the numbers that each node told last, ten seconds ago at most.

Names, states and sizes in /cluster/resources come from there, tags, locks and existence from the configs
(pve-facts 6.24, 6.2 clone-progress 3). With no lag set, rows are always fresh.
"""

import asyncio

from zone9.sandbox.vm import rows
from zone9.sandbox.world import World


def tell(world: World) -> None:
    """Is one round of pvestatd on every node that is up."""
    cluster = world.cluster
    world.rounds += 1
    world.told = {
        vm.vmid: rows.numbers(world, vm) for vm in cluster.vms.values() if cluster.nodes[vm.node].online
    }
    for vmid in world.told:
        world.graphed.setdefault(vmid, world.clock.now())


async def run(world: World) -> None:
    """Goes round for as long as the sandbox runs."""
    while True:
        if not world.durations.list_lag:
            # Rows are fresh as they are; a lag may still be set later.
            await asyncio.sleep(0.5)
            continue
        await world.clock.until(world.clock.now() + world.durations.list_lag)
        tell(world)
