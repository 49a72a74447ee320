"""Work: one operation under way; and the lane that runs a process group's operations in order.

An operation is run by whoever comes first: the lane's worker thread, so that callers go on (and DDP overlaps with its
backward pass), or a thread that waits for it, which saves two changes of thread when the caller waits at once. ctypes
frees the interpreter's lock during the library's calls.
"""

from __future__ import annotations

import atexit
import contextlib
import queue
import threading
import weakref
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from ..errors import TimedOutError, TuttiError

_Base = dist.Work if hasattr(dist, "Work") else dist._Work  # type: ignore[attr-defined]
#: c10d's exception for a backend's failures, where this torch has it.
DistError: type[Exception] = getattr(dist, "DistBackendError", RuntimeError)

_NO_TIMEOUT = timedelta(0)


# C++ that calls a process group (DDP's reducer) holds the C++ half of the work it gets; were the Python half collected,
# C++ would call the base class, which waits for ever. So a work is held until somebody waits for it or takes its future.
# Who does neither would hold tensors for ever: of those, only the last ones are kept.
_HELD_AT_MOST = 256
_held: dict[int, TuttiWork] = {}


def _hold(work: TuttiWork) -> None:
    _held[id(work)] = work
    while len(_held) > _HELD_AT_MOST:
        with contextlib.suppress(StopIteration, RuntimeError):  # another thread was faster
            _held.pop(next(iter(_held)), None)


def raised_by_backend(error: BaseException) -> BaseException:
    """`error` as torch's programs expect it; the library's own exception is its cause."""
    if isinstance(error, TuttiError):
        # c10d's programs look for the word.
        text = f"a timeout ended the operation: {error}" if isinstance(error, TimedOutError) else str(error)
        converted = DistError(text)
        converted.__cause__ = error
        return converted
    return error


class TuttiWork(_Base):  # type: ignore[misc,valid-type]
    """What c10d's calls return. ``wait`` blocks until the operation is done and raises its error."""

    def __init__(self, run: Callable[[], Any] | None, tensors: list, title: str, lane: Lane | None = None,
                 default_timeout: timedelta | None = None, watch: Callable[[], None] | None = None) -> None:
        super().__init__()
        self._run = run  # dropped, with all it holds, when it has run
        self._tensors = tensors
        self._title = title
        self._lane = lane
        self._default_timeout = default_timeout
        self._watch = watch
        self._done = False
        self._error: BaseException | None = None
        self._source = -1
        self._lock = threading.Lock()
        self._event: threading.Event | None = None
        self._future: torch.futures.Future | None = None
        _hold(self)

    # ---- the side that runs it

    def run(self) -> None:
        run, error = self._run, None
        try:
            run()  # type: ignore[misc]
        except BaseException as caught:
            error = raised_by_backend(caught)
        self.finish(error)

    def finish(self, error: BaseException | None = None, source: int = -1) -> None:
        with self._lock:
            if self._done:
                return
            self._run = None
            self._error, self._source = error, source
            self._done = True
            event, future = self._event, self._future
        if event is not None:
            event.set()
        if future is not None:
            self._complete(future)

    def _complete(self, future: torch.futures.Future) -> None:
        if self._error is None:
            future.set_result(self._tensors)
        else:
            future.set_exception(self._error)

    # ---- c10d's side

    def wait(self, timeout: timedelta | None = None) -> bool:
        limit = timeout if timeout is not None and timeout > _NO_TIMEOUT else None
        if not self._done:
            if self._lane is not None and limit is None:
                self._lane.run_until(self)
            else:
                self._wait_for_others(limit or self._default_timeout)
        _held.pop(id(self), None)
        if self._error is not None:
            raise self._error
        return True

    def _wait_for_others(self, limit: timedelta | None) -> None:
        """Blocks until another thread has finished it."""
        with self._lock:
            if self._done:
                return
            if self._event is None:
                self._event = threading.Event()
        left = limit.total_seconds() if limit is not None else None
        while not self._event.wait(0.5 if left is None else min(0.5, left)):
            if self._watch is not None:
                self._watch()
            if left is not None:
                left -= 0.5
                if left <= 0:
                    raise DistError(f"{self._title}: not done after {limit.total_seconds():g} s")  # type: ignore[union-attr]

    def is_completed(self) -> bool:
        return self._done

    def is_success(self) -> bool:
        return self._done and self._error is None

    def exception(self) -> BaseException | None:
        return self._error

    def synchronize(self) -> None:
        self.wait()

    def result(self) -> list:
        self.wait()
        return self._tensors

    def source_rank(self) -> int:
        return self._source

    _source_rank = source_rank

    def get_future(self) -> torch.futures.Future:
        _held.pop(id(self), None)
        with self._lock:
            fresh = self._future is None
            if fresh:
                self._future = torch.futures.Future()
            done = self._done
        if fresh and done:
            self._complete(self._future)  # type: ignore[arg-type]
        return self._future  # type: ignore[return-value]


_lanes: weakref.WeakSet[Lane] = weakref.WeakSet()


@atexit.register
def _end_workers() -> None:
    """A thread that wants the interpreter back while it ends is killed, and inside torch's C++ that ends the process with
    an error: workers that are still telling a future of its result are let finish."""
    for lane in list(_lanes):
        lane.end_worker(seconds=1)


class Lane:
    """Runs operations one after the other, in the order of `submit`."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._turn = threading.Lock()  # held by the thread that runs an operation
        self._pending: deque[TuttiWork] = deque()
        self._wake: queue.SimpleQueue = queue.SimpleQueue()  # one entry for each submission: the worker looks once for each
        self._worker: threading.Thread | None = None
        _lanes.add(self)

    def submit(self, work: TuttiWork) -> None:
        self._pending.append(work)
        self._wake.put(True)
        if self._worker is None:
            self._worker = threading.Thread(target=self._serve, name=self._name, daemon=True)
            self._worker.start()

    def run_now(self, run: Callable[[], None]) -> None:
        """Runs in the calling thread, after all that was submitted."""
        with self._turn:
            while self._pending:
                self._pending.popleft().run()
            run()

    def run_until(self, work: TuttiWork) -> None:
        """Returns when `work` is done, having run it and what comes before it, if nobody else did."""
        with self._turn:
            while not work._done:
                self._pending.popleft().run()

    def close(self) -> None:
        """Runs what is left; then the worker ends."""
        with self._turn:
            while self._pending:
                self._pending.popleft().run()
        self.end_worker()

    def end_worker(self, seconds: float = 0) -> None:
        """The worker ends after the operation that it runs; waits for that at most so long."""
        self._wake.put(False)
        if seconds and self._worker is not None and self._worker is not threading.current_thread():
            self._worker.join(seconds)

    def _serve(self) -> None:
        while self._wake.get():
            # Looked at first without the turn: it is held by a thread that waits for its operation, which is no longer
            # pending then, and waiting for it here would cost a change of thread.
            if self._pending:
                with self._turn:
                    if self._pending:
                        self._pending.popleft().run()
