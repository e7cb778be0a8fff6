"""Why: reads that do not depend on one another cost one round trip together, and still fail as one read would."""

import asyncio
from collections.abc import Coroutine
from typing import Any


async def together(*calls: Coroutine[Any, Any, Any]) -> tuple[Any, ...]:
    """Runs calls side by side and returns their results in order.

    The first error ends the others and is raised as itself, not as a group, so that it can be caught by its kind.
    """
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(call) for call in calls]
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return tuple(task.result() for task in tasks)
