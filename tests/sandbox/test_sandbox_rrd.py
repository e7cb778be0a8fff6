"""Graphs: the steps of each archive, what has none, and the live numbers in them."""

import itertools

import pytest
from sandbox_api import Api

from zone9.sandbox import Durations, Sandbox

ROWS = {
    "hour": (60, 60),
    "day": (1440, 60),
    "week": (336, 1800),
    "month": (1440, 1800),
    "year": (1440, 21600),
}


async def test_6_2_rrd_1_no_graph_before_pvestatd_has_been_round_and_one_after_the_end() -> None:
    async with Sandbox(("pve1",), manual_clock=True, durations=Durations(list_lag=10.0), seed=7) as sandbox:
        sandbox.add_template(9000)
        api = Api(sandbox)
        path = "/nodes/pve1/qemu/101/rrddata"
        await api.ok("POST", "/nodes/pve1/qemu", vmid=101)
        await sandbox.clock.advance(1)
        answer = await api.ask("GET", path, timeframe="hour")
        assert answer.status == 500
        assert answer.reason == (
            "RRD error: rrdcached@unix:/var/run/rrdcached.sock: rrd_fetch_r failed: opening "
            "'/var/lib/rrdcached/db/pve-vm-9.0/101': No such file or directory"
        )
        await sandbox.clock.advance(20)
        assert all(list(row) == ["time"] for row in await api.ok("GET", path, timeframe="hour"))
        await sandbox.clock.advance(180)
        assert (await api.ok("GET", path, timeframe="hour"))[-1]["maxmem"] == 512 * 2**20
        await sandbox.operator.delete(101)
        # No numbers of it are left, so its newest row is an empty one.
        assert len(await api.ok("GET", path, timeframe="hour")) == 59
        await api.close()


@pytest.mark.parametrize("frame", ROWS)
async def test_6_2_rrd_1_rows_and_steps(sandbox: Sandbox, api: Api, frame: str) -> None:
    sandbox.cluster.nodes["pve1"].booted_at = 0.0
    count, step = ROWS[frame]
    newest = sandbox.clock.now() // step * step
    rows = await api.ok("GET", "/nodes/pve1/rrddata", timeframe=frame)
    assert len(rows) == count
    assert {later["time"] - row["time"] for row, later in itertools.pairwise(rows)} == {step}
    # A row carries the end of its step, and the newest step that is over is there.
    assert rows[-1]["time"] in {newest, sandbox.clock.now() // step * step}
    assert {"memavailable", "arcsize", "pressurecpusome"} <= set(rows[-1])
    assert rows[-1]["maxcpu"] == sandbox.cluster.nodes["pve1"].cpus


@pytest.mark.parametrize(("up_for", "week"), [(0.0, 335), (0.4, 335), (1.6, 336)])
async def test_6_2_rrd_1_the_newest_row_is_left_out_while_it_is_empty(
    sandbox: Sandbox, api: Api, up_for: float, week: int
) -> None:
    newest = sandbox.clock.now() // 1800 * 1800
    sandbox.cluster.nodes["pve1"].booted_at = newest - up_for * 1800
    rows = await api.ok("GET", "/nodes/pve1/rrddata", timeframe="week")
    assert len(rows) == week
    assert rows[-1]["time"] == (newest if week == 336 else newest - 1800)
    assert rows[0]["time"] == newest - 335 * 1800
    assert (len(rows[-1]) > 1) == (week == 336)


async def test_6_2_rrd_1_a_frame_is_needed_and_a_vm_has_no_decade(api: Api) -> None:
    answer = await api.ask("GET", "/nodes/pve1/qemu/9000/rrddata")
    assert answer.errors == {"timeframe": "property is missing and it is not optional"}
    answer = await api.ask("GET", "/nodes/pve1/qemu/9000/rrddata", timeframe="decade")
    assert "enumeration 'hour, day, week, month, year'" in answer.errors["timeframe"]
    assert len(await api.ok("GET", "/nodes/pve1/rrddata", timeframe="decade")) in {569, 570}


async def test_6_2_rrd_2_lists_of_the_node(sandbox: Sandbox, api: Api) -> None:
    sandbox.add_vm(101, name="web1", disk="64M", net0="virtio=BC:24:11:00:00:01,bridge=vmbr0")
    await api.task("POST", "/nodes/pve1/qemu/101/status/start")
    full = next(row for row in await api.ok("GET", "/nodes/pve1/qemu", full=1) if row["vmid"] == 101)
    assert {"nics", "qmpstatus", "pressurecpufull"} <= set(full)
    assert (await api.ask("GET", "/nodes/pve1/qemu", full=2)).status == 400
    assert await api.ok("GET", "/cluster/metrics/export") == {"data": []}
    rows = await api.ok("GET", "/nodes/pve1/netstat")
    assert [(row["vmid"], row["dev"]) for row in rows] == [("101", "net0")]
