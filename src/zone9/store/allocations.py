"""VMIDs and addresses, unique by constraint.

A VMID comes from the region's own range, never from Proxmox's `nextid`, and is used once: after a failed
clone, after a delete, or when a stranger has it, it is `burnt`. An address rests for an hour after its
release, so that nobody's cached ARP entry or firewall rule meets a new owner.
"""

import ipaddress
from typing import Any

from zone9.base.errors import FieldProblem, Later, Refused
from zone9.store.database import Connection, row, rows, run

REST_SECONDS = 3600


async def take_vmid(connection: Connection, *, region: str, resource: str, first: int, last: int) -> int:
    """Takes the id above the highest used one of the region's range, then its gaps. Raises Later when it is used up."""
    # One taker a region at a time: cheaper than colliding on the constraint fifty times.
    await run(connection, "SELECT pg_advisory_xact_lock(hashtext('vmid:' || :region))", region=region)
    top = await row(
        connection,
        "SELECT max(vmid) AS top FROM vmids WHERE region = :region AND vmid BETWEEN :first AND :last",
        region=region,
        first=first,
        last=last,
    )
    vmid = first if top is None or top["top"] is None else int(top["top"]) + 1
    if vmid > last:
        free = await row(
            connection,
            """
            SELECT min(one) AS vmid FROM generate_series(CAST(:first AS int), CAST(:last AS int)) AS one
            WHERE NOT EXISTS (SELECT FROM vmids WHERE region = :region AND vmid = one)
            """,
            region=region,
            first=first,
            last=last,
        )
        if free is None or free["vmid"] is None:
            raise Later(
                f"the region's VMID range {first} to {last} is used up; give it a wider one",
                code="vmids_used_up",
            )
        vmid = int(free["vmid"])
    await run(
        connection,
        "INSERT INTO vmids (region, vmid, resource, state) VALUES (:region, :vmid, :resource, 'held')",
        region=region,
        vmid=vmid,
        resource=resource,
    )
    return vmid


async def burn_vmid(connection: Connection, *, region: str, vmid: int, why: str) -> None:
    """Marks an id as never to be used again; an id that was never taken is burnt as well."""
    await run(
        connection,
        """
        INSERT INTO vmids (region, vmid, state, why) VALUES (:region, :vmid, 'burnt', :why)
        ON CONFLICT (region, vmid) DO UPDATE SET state = 'burnt', why = excluded.why, at = z9_now()
        WHERE vmids.state <> 'burnt'
        """,
        region=region,
        vmid=vmid,
        why=why,
    )


async def claim_vmid(connection: Connection, *, region: str, vmid: int, resource: str) -> bool:
    """Gives a VM that is there to a resource, and burns the one it had; False when another resource has it."""
    await run(
        connection,
        """
        UPDATE vmids SET state = 'burnt', why = 'another VM was linked', at = z9_now()
        WHERE region = :region AND resource = :resource AND state = 'held' AND vmid <> :vmid
        """,
        region=region,
        resource=resource,
        vmid=vmid,
    )
    taken = await run(
        connection,
        """
        INSERT INTO vmids (region, vmid, resource, state, why) VALUES (:region, :vmid, :resource, 'held', 'linked')
        ON CONFLICT (region, vmid) DO UPDATE SET state = 'held', resource = excluded.resource, why = 'linked',
            at = z9_now()
        WHERE vmids.state = 'burnt' OR vmids.resource = excluded.resource
        """,
        region=region,
        vmid=vmid,
        resource=resource,
    )
    return taken > 0


async def take_address(
    connection: Connection, *, network: str, spec: dict[str, Any], resource: str, wanted: str | None
) -> str:
    """Takes `wanted`, or the lowest free address. Network, broadcast, gateway and reserved ones are never given.

    Raises Refused when the wanted address is not free or not in the network, or when none is left.
    """
    cidr = ipaddress.ip_network(spec["cidr"])
    await run(connection, "SELECT pg_advisory_xact_lock(hashtext('address:' || :network))", network=network)
    await run(
        connection,
        """
        DELETE FROM addresses WHERE network = :network AND state = 'resting'
          AND at < z9_now() - make_interval(secs => :rest)
        """,
        network=network,
        rest=REST_SECONDS,
    )
    held = await row(
        connection,
        "SELECT host(address) AS address FROM addresses WHERE network = :network AND resource = :resource AND state = 'held'",
        network=network,
        resource=resource,
    )
    if held is not None and (wanted is None or str(held["address"]) == wanted):
        return str(held["address"])
    taken = {
        str(one["address"])
        for one in await rows(
            connection,
            "SELECT host(address) AS address FROM addresses WHERE network = :network",
            network=network,
        )
    }
    taken |= {spec.get("gateway") or "", str(cidr.network_address), str(cidr.broadcast_address)}
    if wanted is not None:
        if ipaddress.ip_address(wanted) not in cidr or wanted in taken:
            problem = FieldProblem(
                "/spec/networks", f"the address {wanted} is not free in {cidr}", "address_taken"
            )
            raise Refused(
                f"the address {wanted} is not free in {cidr}",
                code="address_taken",
                status=409,
                fields=(problem,),
                address=wanted,
                cidr=str(cidr),
            )
        address = wanted
    else:
        found = next((str(one) for one in cidr.hosts() if str(one) not in taken), None)
        if found is None:
            raise Refused(f"no address is free in {cidr}", code="network_full", status=409, cidr=str(cidr))
        address = found
    await run(
        connection,
        """
        INSERT INTO addresses (network, address, resource, state)
        VALUES (:network, CAST(:address AS inet), :resource, 'held')
        """,
        network=network,
        address=address,
        resource=resource,
    )
    return address


async def release_addresses(connection: Connection, resource: str, *, left: bool) -> None:
    """Lets a deleted resource's addresses rest; called only after its absence was read back.

    `left`: its machine was let go of and may still use them, so nobody else gets them.
    """
    await run(
        connection,
        """
        UPDATE addresses SET state = CASE WHEN :left THEN 'reserved' ELSE 'resting' END,
            why = CASE WHEN :left THEN 'in use by a VM that was let go of' ELSE why END, resource = NULL, at = z9_now()
        WHERE resource = :resource
        """,
        resource=resource,
        left=left,
    )
