"""A real worker process with quick clocks: `python worker_main.py DATABASE_URL KEY_FILE BEAT STALLED LIMIT`."""

import asyncio
import sys
from pathlib import Path

import structlog

from zone9.jobs.engine import Pace
from zone9.jobs.heart import Heart
from zone9.wiring import compose

structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))


async def main(url: str, key_file: str, beat: str, stalled: str, limit: str) -> None:
    zone9 = compose(url, Path(key_file), settle_seconds=1.0, task_patience=0.5, pool=6)
    engine = zone9.engine(
        pace=Pace(beat=float(beat), stalled=float(stalled), sweep=0.1, concurrency=10),
        heart=Heart(limit=float(limit)),
    )
    try:
        await engine.run()
    finally:
        await zone9.close()


asyncio.run(main(*sys.argv[1:]))
