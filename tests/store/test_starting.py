"""A step that is shown as begun: on an open job only, once for each try."""

from world import World
from zone9.store.starting import Starting


async def test_a_step_again_is_one_line_with_its_tries(world: World) -> None:
    answer = await world.server(networks=[])
    run = await world.zone9.store.begin(answer.resource)
    assert run is not None
    for name in ("clone", "clone", "start"):
        assert (
            await world.zone9.store.start_job(run, Starting("apply", name, run.intent.project)) == answer.job
        )
    job = await world.job(answer.job)
    assert job["status"] == "running"
    assert [(one["step"], one["status"], one.get("tries")) for one in job["steps"]] == [
        ("clone", "done", 2), ("start", "running", None),
    ]  # fmt: skip
    events = await world.all("SELECT data FROM events WHERE kind = 'job' AND data ->> 'status' = 'running'")
    assert len([one for one in events if one["data"]["job"] == answer.job]) == 1


async def test_a_job_that_has_ended_shows_no_further_step(world: World) -> None:
    answer = await world.server(networks=[])
    run = await world.zone9.store.begin(answer.resource)
    assert run is not None
    await world.all("UPDATE jobs SET status = 'canceled' WHERE id = :id RETURNING id", id=answer.job)
    await world.zone9.store.start_job(run, Starting("apply", "clone", run.intent.project))
    job = await world.job(answer.job)
    assert (job["status"], job["steps"]) == ("canceled", [])
