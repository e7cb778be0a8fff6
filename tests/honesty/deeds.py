"""Everything that can happen in a scenario, as a table: how likely, when it can, and what is done."""

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from honesty import asking, operators
from honesty.interfering import Act, kill
from honesty.machine import ANY, DEEDS, Draw, Honesty, Step, deed
from honesty.scene import NODES

MOST_SERVERS = 3
MOST_STRANGERS = 4
PASSING = (
    "lose_answer", "drop_before", "lock_timeout", "locked", "no_quorum", "node_down", "broken_pipe", "proxy_timeout",
    "cut_body", "denied", "digest",
)  # fmt: skip
READING = ("lose_answer", "drop_before", "node_down", "broken_pipe", "cut_body", "denied", "not_found")
WHO = st.sampled_from(operators.USERS)
PATCHES = (
    {"tags": ["a"]},
    {"tags": []},
    {"cores": 2},
    {"memory_mib": 1024},
    {"cores": None, "memory_mib": None},
)


def names() -> list[str]:
    """Returns the names of all deeds; whoever asks has them entered."""
    return list(DEEDS)


def pick(found: list[Any], draw: Draw) -> Any:
    return found[draw(ANY) % len(found)]


def at_once(act: Callable[..., Any], *arguments: Any, **named: Any) -> Step:
    """Returns a step that waits for nothing."""

    async def done() -> None:
        act(*arguments, **named)

    return done


def in_the_middle(machine: Honesty, draw: Draw, act: Act) -> Step:
    """Returns work in the middle of which something happens."""
    at = draw(st.integers(1, 40))
    return lambda: machine.scene.work(at=at, act=act)


# -- zone9 at work -------------------------------------------------------------------------------------


@deed("work", weight=7)
def _work(machine: Honesty, draw: Draw) -> Step:
    most = draw(st.integers(1, 6))
    return lambda: machine.scene.work(most)


@deed("work after a while", weight=7)
def _work_after_a_while(machine: Honesty, draw: Draw) -> Step:
    seconds = draw(st.integers(1, 45))

    async def step() -> None:
        await machine.scene.world.pass_time(seconds)
        await machine.scene.work(6)

    return step


@deed("work and be killed", weight=2)
def _killed(machine: Honesty, draw: Draw) -> Step:
    return in_the_middle(machine, draw, kill)


@deed("work while the database restarts", weight=2)
def _database(machine: Honesty, draw: Draw) -> Step:
    return in_the_middle(machine, draw, machine.scene.lose_database)


@deed("work while people ask", when=Honesty.live)
def _while_asking(machine: Honesty, draw: Draw) -> Step:
    server, number = machine.server(draw(ANY)), draw(ANY)
    return in_the_middle(
        machine, draw, lambda: asking.change(machine.scene, server, {"tags": [f"t{number}"]})
    )


@deed("work while operators edit", weight=4, when=Honesty.own)
def _while_editing(machine: Honesty, draw: Draw) -> Step:
    vm, number, who = machine.vm(draw(ANY)), draw(ANY), draw(WHO)

    async def meanwhile() -> None:
        if machine.scene.sandbox.vms.get(vm.vmid) is vm:
            operators.edit(machine.scene, vm, number, who)

    return in_the_middle(machine, draw, meanwhile)


@deed("sweep", weight=4)
def _sweep(machine: Honesty, _draw: Draw) -> Step:
    return machine.scene.sweep


@deed("nobody works")
def _nobody_works(machine: Honesty, draw: Draw) -> Step:
    seconds = draw(st.integers(5, 90))
    return lambda: machine.scene.world.pass_time(seconds)


# -- people --------------------------------------------------------------------------------------------


@deed("create", when=lambda machine: len(machine.live()) < MOST_SERVERS)
def _create(machine: Honesty, draw: Draw) -> Step:
    power, network = draw(st.sampled_from(("on", "on", "off"))), draw(st.booleans())
    return lambda: asking.create(machine.scene, machine.name(), power=power, network=network)


@deed("change", when=Honesty.live)
def _change(machine: Honesty, draw: Draw) -> Step:
    server, patch = machine.server(draw(ANY)), draw(st.sampled_from(PATCHES))
    return lambda: asking.change(machine.scene, server, patch)


@deed("rename", weight=2, when=Honesty.live)
def _rename(machine: Honesty, draw: Draw) -> Step:
    server = machine.server(draw(ANY))
    return lambda: asking.change(machine.scene, server, name=machine.name())


@deed("power", when=Honesty.live)
def _power(machine: Honesty, draw: Draw) -> Step:
    server = machine.server(draw(ANY))
    action = draw(st.sampled_from(("start", "stop", "shutdown", "restart", "restart")))
    return lambda: asking.power(machine.scene, server, action)


@deed("delete", weight=3, when=lambda machine: len(machine.live()) > 1)
def _delete(machine: Honesty, draw: Draw) -> Step:
    server = machine.server(draw(ANY))
    return lambda: asking.delete(machine.scene, server)


@deed("decide", weight=14, when=Honesty.lost)
def _decide(machine: Honesty, draw: Draw) -> Step:
    server, action = (
        pick(machine.lost(), draw),
        draw(st.sampled_from(("recreate", "recreate", "forget", "link"))),
    )
    theirs = machine.theirs()
    vm = pick(theirs, draw) if theirs else None
    return lambda: asking.decide(machine.scene, server, action, vm)


@deed("take over", weight=3, when=lambda machine: machine.theirs() and len(machine.live()) < MOST_SERVERS)
def _take_over(machine: Honesty, draw: Draw) -> Step:
    vm = pick(machine.theirs(), draw)
    return lambda: asking.take_over(machine.scene, vm, machine.name())


@deed("release", weight=6, when=Honesty.linked)
def _release(machine: Honesty, draw: Draw) -> Step:
    server = pick(machine.linked(), draw)
    return lambda: asking.release(machine.scene, server)


@deed("reconcile", weight=2, when=Honesty.live)
def _reconcile(machine: Honesty, draw: Draw) -> Step:
    server = machine.server(draw(ANY))
    return lambda: asking.reconcile(machine.scene, server)


@deed("verify", weight=2, when=Honesty.live)
def _verify(machine: Honesty, draw: Draw) -> Step:
    server, opened = machine.server(draw(ANY)), draw(st.booleans())
    return lambda: asking.verify(machine.scene, server, opened=opened)


# -- operators -----------------------------------------------------------------------------------------


@deed("edit", weight=3, when=Honesty.own)
def _edit(machine: Honesty, draw: Draw) -> Step:
    return at_once(operators.edit, machine.scene, machine.vm(draw(ANY)), draw(ANY), draw(WHO))


@deed("edit the file", weight=3, when=Honesty.own)
def _edit_file(machine: Honesty, draw: Draw) -> Step:
    return at_once(operators.edit_file, machine.scene, machine.vm(draw(ANY)), draw(ANY))


@deed("switch", weight=3, when=Honesty.own)
def _switch(machine: Honesty, draw: Draw) -> Step:
    vm, who = machine.vm(draw(ANY)), draw(WHO)
    return lambda: operators.switch(machine.scene, vm, who)


@deed("guest crashes", weight=3, when=Honesty.own)
def _crash(machine: Honesty, draw: Draw) -> Step:
    return at_once(machine.scene.sandbox.kill_guest, machine.vm(draw(ANY)).vmid)


@deed("migrate", weight=3, when=Honesty.own)
def _migrate(machine: Honesty, draw: Draw) -> Step:
    vm = machine.vm(draw(ANY))
    return lambda: operators.move(machine.scene, vm)


@deed("destroy", weight=4, when=Honesty.own)
def _destroy(machine: Honesty, draw: Draw) -> Step:
    vm, who = machine.vm(draw(ANY)), draw(WHO)
    return lambda: operators.destroy(machine.scene, vm, who)


@deed("remove the file", weight=3, when=Honesty.own)
def _remove_file(machine: Honesty, draw: Draw) -> Step:
    vm = machine.vm(draw(ANY))
    return lambda: operators.remove_file(machine.scene, vm)


@deed(
    "clone by hand", weight=3, when=lambda machine: machine.own() and len(machine.theirs()) < MOST_STRANGERS
)
def _clone(machine: Honesty, draw: Draw) -> Step:
    vm, number, same = machine.vm(draw(ANY)), machine.free_number(draw(ANY)), draw(st.booleans())
    return at_once(operators.duplicate, machine.scene, vm, number, same_identity=same)


@deed("restore", weight=3, when=Honesty.own)
def _restore(machine: Honesty, draw: Draw) -> Step:
    vm = machine.vm(draw(ANY))
    return lambda: operators.restore(machine.scene, vm)


@deed("number taken", weight=3, when=Honesty.own)
def _take_number(machine: Honesty, draw: Draw) -> Step:
    vm = machine.vm(draw(ANY))
    return lambda: operators.take_number(machine.scene, vm)


@deed("stranger", when=lambda machine: len(machine.theirs()) < MOST_STRANGERS)
def _stranger(machine: Honesty, draw: Draw) -> Step:
    number, running = machine.free_number(draw(ANY)), draw(st.booleans())
    return at_once(operators.stranger, machine.scene, number, running=running)


@deed("edit a stranger", when=Honesty.theirs)
def _edit_theirs(machine: Honesty, draw: Draw) -> Step:
    return at_once(operators.edit, machine.scene, pick(machine.theirs(), draw), draw(ANY), draw(WHO))


@deed("destroy a stranger", when=Honesty.theirs)
def _destroy_theirs(machine: Honesty, draw: Draw) -> Step:
    vm = pick(machine.theirs(), draw)
    return lambda: operators.destroy(machine.scene, vm, "root@pam")


# -- trouble -------------------------------------------------------------------------------------------


@deed("lock", weight=3, when=Honesty.own)
def _lock(machine: Honesty, draw: Draw) -> Step:
    return at_once(operators.lock, machine.scene, machine.vm(draw(ANY)))


@deed("lose VM.Audit", when=Honesty.calm)
def _lose_audit(machine: Honesty, _draw: Draw) -> Step:
    return at_once(operators.lose_audit, machine.scene)


@deed("node away", when=Honesty.calm)
def _node_away(machine: Honesty, draw: Draw) -> Step:
    return at_once(operators.node_away, machine.scene, draw(st.sampled_from(NODES)))


@deed("quorum lost", when=Honesty.calm)
def _quorum_lost(machine: Honesty, _draw: Draw) -> Step:
    return at_once(operators.quorum_lost, machine.scene)


@deed("a write goes wrong", weight=3, when=Honesty.calm)
def _bad_write(machine: Honesty, draw: Draw) -> Step:
    return at_once(
        operators.fault, machine.scene, draw(st.sampled_from(PASSING)), "WRITE", draw(st.integers(0, 2))
    )


@deed("a read goes wrong", weight=2, when=Honesty.calm)
def _bad_read(machine: Honesty, draw: Draw) -> Step:
    return at_once(
        operators.fault, machine.scene, draw(st.sampled_from(READING)), "GET", draw(st.integers(0, 5))
    )
