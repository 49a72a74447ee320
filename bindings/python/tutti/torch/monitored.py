"""The barrier that names who does not come. It goes by the group's store, so it works while ranks are stuck elsewhere."""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from typing import Any


def barrier_by_store(store: Any, prefix: str, rank: int, size: int, limit: timedelta, wait_all_ranks: bool) -> None:
    """Rank 0 waits for all others, then lets them go. `prefix` is this barrier's own.

    Errors: RuntimeError, in the words of gloo's: at rank 0 the first rank that did not come, or all of them; at others that
    rank 0 did not let them go.
    """
    milliseconds = int(limit.total_seconds() * 1000)
    store.add(f"{prefix}/{rank}", 1)
    if rank:
        if not _raised(store, f"{prefix}/all", limit):
            raise RuntimeError(f"[Rank {rank}]: Rank 0 did not pass monitoredBarrier within {milliseconds} ms")
        return
    if not limit:
        raise RuntimeError(f"[Rank 0]: Rank 0 timed out in monitoredBarrier after {milliseconds} ms")
    deadline, missing = time.monotonic() + limit.total_seconds(), []
    for other in range(1, size):
        if not _raised(store, f"{prefix}/{other}", timedelta(seconds=max(0.0, deadline - time.monotonic()))):
            missing.append(other)
            if not wait_all_ranks:
                break
    if missing:
        ranks = ", ".join(map(str, missing))
        raise RuntimeError(f"[Rank 0]: Rank{'s' if len(missing) > 1 else ''} {ranks} failed to pass monitoredBarrier in {milliseconds} ms")
    store.add(f"{prefix}/all", 1)


def _raised(store: Any, key: str, limit: timedelta) -> bool:
    """Whether the counter `key` was raised within the limit. Waiting inside the store would lock it for other threads."""
    deadline, pause, seconds = time.monotonic() + limit.total_seconds(), threading.Event(), 0.0005
    while not store.add(key, 0):
        if time.monotonic() >= deadline:
            return False
        pause.wait(seconds)
        seconds = min(0.02, 2 * seconds)
    return True
