"""Streams and groups."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from ctypes import byref, c_void_p
from typing import Any

from ._library import library
from .errors import Result, check, failure


class Stream:
    """An in-order queue of operations, run by one worker thread of the library.

    Arrays that were passed to calls on it are kept alive until ``synchronize``. Use it in a ``with`` block, or call
    ``close``; both wait for what was issued.
    """

    def __init__(self) -> None:
        handle = c_void_p()
        check(library.StreamCreate(byref(handle)))
        self._handle: int | None = handle.value
        self._kept: list[Any] = []

    @property
    def handle(self) -> int:
        if self._handle is None:
            raise ValueError("the stream is closed")
        return self._handle

    def keep(self, *arrays: Any) -> None:
        self._kept.extend(arrays)

    def synchronize(self) -> None:
        """Blocks until all that was issued is done; raises the first error among it since the last call."""
        check(library.StreamSynchronize(self.handle))
        self._kept.clear()

    def done(self) -> bool:
        """Whether all that was issued is done. Never blocks."""
        result = library.StreamQuery(self.handle)
        if result == Result.IN_PROGRESS:
            return False
        check(result)
        return True

    def close(self) -> None:
        if self._handle is not None:
            handle, self._handle = self._handle, None
            result = library.StreamDestroy(handle)
            self._kept.clear()
            check(result)

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        try:
            if kind is None:
                self.synchronize()
        finally:
            self.close()


class _OpenGroup(threading.local):
    """What the calling thread's open group holds: nesting, and the arrays that must live until its end."""

    def __init__(self) -> None:
        self.depth = 0
        self.kept: list[Any] = []


_open_group = _OpenGroup()


def keep_until_done(stream: Stream | None, *arrays: Any) -> None:
    """Holds the arrays of a call that has been issued and may not have run."""
    if stream is not None:
        stream.keep(*arrays)
    elif _open_group.depth:
        _open_group.kept.extend(arrays)


@contextlib.contextmanager
def group() -> Iterator[None]:
    """Calls of this thread within the block are collected and run together at its end: sends and receives at once,
    small all_reduces as one, several communicators of one thread side by side. Their arrays are kept alive until then.

    Raises the first error of what was collected. When the block itself raises, what it collected is still run, because
    the peers wait for it; its exception is the one that is seen.
    """
    check(library.GroupStart())
    _open_group.depth += 1
    result = 0
    try:
        yield
    finally:
        result = library.GroupEnd()
        _open_group.depth -= 1
        if not _open_group.depth:
            _open_group.kept.clear()
    if result:
        raise failure(result)
