"""Mailbox: c10d's point-to-point messages, with tags, from a named rank or from any.

The library's messages between two ranks match in order, and an operation that waits holds up those behind it. c10d asks
for more: sends and receives are independent of each other and of collectives, and match by tag. So each direction
between two ranks is a communicator of its own, made when it is first used, with one thread at each end. A message is a
frame of 512 bytes, which tells tag and size and holds what fits, and one more message for what does not. The receiving
end keeps messages whose tag nobody has asked for yet.
"""

from __future__ import annotations

import contextlib
import ctypes
import struct
import threading
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import torch

from .._library import library
from ..communicator import Communicator, unique_id
from ..errors import TuttiError, check
from ..types import DataType
from .tensors import bytes_of, for_reading, for_writing
from .work import TuttiWork

_FRAME_BYTES = 512
_HEADER = struct.Struct("=qq")  # tag, bytes
_INLINE_BYTES = _FRAME_BYTES - _HEADER.size
# A receiver may wait for a message as long as it likes: the limit is the request's own.
_FOR_EVER_S = (2**31 - 1) / 1000


class _Closed(Exception):
    pass


class _Request(NamedTuple):
    source: int | None
    tag: int
    tensor: torch.Tensor
    work: TuttiWork

    def wants(self, source: int, tag: int) -> bool:
        return self.source in (None, source) and self.tag == tag


class _Message:
    """A message whose frame has come: its payload is in the frame, still to be received, or put aside."""

    def __init__(self, frame: bytearray) -> None:
        self.tag, self.size = _HEADER.unpack_from(frame)
        self.payload: bytearray | None = frame[_HEADER.size:_HEADER.size + self.size] if self.size <= _INLINE_BYTES else None


class _End:
    """One end of a direction. Its calls may be ended by another thread."""

    def __init__(self, comm: Communicator, peer: int) -> None:
        self._comm, self._peer = comm, peer
        self._lock = threading.Lock()  # guards the two below
        self._busy = self._ended = False

    def transfer(self, function: Callable, address: int, size: int) -> None:
        """Send or Recv of `size` bytes."""
        with self._lock:
            if self._ended:
                raise _Closed
            self._busy = True
            handle = self._comm.handle
        try:
            check(function(address, size, DataType.UINT8, self._peer, handle, None), handle)
        finally:
            with self._lock:
                self._busy = False

    def end(self) -> None:
        """An abort would take messages away that the peer has not read yet: only what waits is aborted."""
        with self._lock:
            if self._ended:
                return
            self._ended = True
            busy = self._busy
        if busy:
            self._comm.abort()
        else:
            with contextlib.suppress(TuttiError):  # the peer may have aborted its end
                self._comm.close()


def _address(buffer: bytearray) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer)) if buffer else 0


class Mailbox:
    """One rank's messages within a process group. `store` is the group's own."""

    def __init__(self, name: str, store: object, rank: int, size: int) -> None:
        self._name, self._store, self._rank, self._size = name, store, rank, size
        self._changed = threading.Condition()  # guards all below
        self._closed = False
        self._requests: list[_Request] = []
        self._kept: list[deque[_Message]] = [deque() for _ in range(size)]
        self._senders: dict[int, _Sender] = {}
        self._readers: dict[int, threading.Thread] = {}
        self._failed: dict[int, BaseException] = {}  # readers that ended
        self._ends: list[_End] = []

    # ---- c10d's side

    def send(self, tensor: torch.Tensor, destination: int, tag: int, work: TuttiWork) -> None:
        if destination == self._rank:
            self._send_to_self(tensor, tag, work)
            return
        with self._changed:
            sender = self._senders.get(destination)
            if sender is None:
                sender = self._senders[destination] = _Sender(self, destination)
        sender.post(tensor, tag, work)

    def recv(self, tensor: torch.Tensor, source: int | None, tag: int, work: TuttiWork) -> None:
        request = _Request(source, tag, tensor, work)
        found = None
        with self._changed:
            sources = range(self._size) if source is None else [source]
            for peer in sources:
                found = next(((peer, message) for message in self._kept[peer] if message.tag == tag), None)
                if found:
                    self._kept[peer].remove(found[1])
                    break
            else:
                broken = [self._failed[peer] for peer in sources if peer in self._failed]
                if broken and len(broken) == len([peer for peer in sources if peer != self._rank]):
                    work.finish(broken[0])
                    return
                self._requests.append(request)
                for peer in sources:
                    if peer != self._rank and peer not in self._readers:
                        self._readers[peer] = threading.Thread(target=self._read, args=(peer,), daemon=True,
                                                               name=f"tutti recv {self._name} {peer}")
                        self._readers[peer].start()
                self._changed.notify_all()
        if found:
            self._deliver(request, *found)

    def close(self) -> None:
        """Ends all threads; what is under way fails."""
        with self._changed:
            self._closed = True
            requests, self._requests = self._requests, []
            ends, self._ends = self._ends, []
            senders = list(self._senders.values())
            self._changed.notify_all()
        for sender in senders:
            sender.close()
        for end in ends:
            end.end()
        for request in requests:
            request.work.finish(RuntimeError(f"{self._name}: the process group was destroyed before a message came"))

    # ---- making communicators

    def _keys(self, source: int, destination: int) -> tuple[str, str]:
        return f"p2p/{source}>{destination}", f"p2p/{source}>{destination}/made"

    def connect_to(self, destination: int) -> _End:
        """The sending end. Blocks until the receiver asks for its first message."""
        key, made = self._keys(self._rank, destination)
        point = unique_id()
        self._store.set(key, point.hex())  # type: ignore[attr-defined]
        self._store.add(made, 1)  # type: ignore[attr-defined]
        return self._adopt(Communicator(2, point, 0, timeout=_FOR_EVER_S, name=f"{self._name} {self._rank}>{destination}"), 1)

    def _connect_from(self, source: int) -> _End:
        """The receiving end. The store's wait would hold its lock against this process's other threads, so it is asked."""
        key, made = self._keys(source, self._rank)
        pause = 0.0005
        while not self._store.add(made, 0):  # type: ignore[attr-defined]
            with self._changed:
                self._wait_for(lambda: bool(self._requests), pause)
            pause = min(0.02, 2 * pause)
        point = bytes.fromhex(self._store.get(key).decode())  # type: ignore[attr-defined]
        return self._adopt(Communicator(2, point, 1, timeout=_FOR_EVER_S, name=f"{self._name} {source}>{self._rank}"), 0)

    def _adopt(self, comm: Communicator, peer: int) -> _End:
        end = _End(comm, peer)
        with self._changed:
            if not self._closed:
                self._ends.append(end)
                return end
        end.end()
        raise _Closed

    def _wait_for(self, condition: Callable[[], bool], pause: float = 0) -> None:
        """Waits at least `pause`, unless something changes, then until `condition` holds. The lock is held."""
        if pause and not self._closed:
            self._changed.wait(pause)
        while not self._closed and not condition():
            self._changed.wait()
        if self._closed:
            raise _Closed

    # ---- the receiving end

    def _awaited(self, source: int) -> bool:
        """Whether some request may be served by the next message from `source`. The lock is held."""
        return any(request.source in (None, source) for request in self._requests)

    def _take_request(self, source: int, tag: int) -> _Request | None:
        for index, request in enumerate(self._requests):
            if request.wants(source, tag):
                return self._requests.pop(index)
        return None

    def _read(self, source: int) -> None:
        try:
            end = self._connect_from(source)
            while True:
                with self._changed:
                    self._wait_for(lambda: self._awaited(source))
                frame = bytearray(_FRAME_BYTES)
                end.transfer(library.Recv, _address(frame), _FRAME_BYTES)
                message = _Message(frame)
                with self._changed:
                    request = self._take_request(source, message.tag)
                if request is not None:
                    self._deliver(request, source, message, end)
                else:
                    self._keep(source, message, end)
        except _Closed:
            pass
        except BaseException as error:
            self._fail(source, error)

    def _keep(self, source: int, message: _Message, end: _End) -> None:
        """Puts a message aside that nobody has asked for, or gives it to who asked meanwhile."""
        if message.payload is None:
            message.payload = bytearray(message.size)
            end.transfer(library.Recv, _address(message.payload), message.size)
        with self._changed:
            request = self._take_request(source, message.tag)
            if request is None:
                self._kept[source].append(message)
                return
        self._deliver(request, source, message)

    def _deliver(self, request: _Request, source: int, message: _Message, end: _End | None = None) -> None:
        """Puts the message into the request's tensor; its payload may still be to come."""
        error: BaseException | None = None
        size = request.tensor.numel() * request.tensor.element_size()
        if message.size != size:
            error = RuntimeError(f"{self._name}: rank {self._rank} receives {size} bytes from rank {source} with tag {message.tag}, "
                                 f"but {message.size} were sent")
            if message.payload is None:
                message.payload = bytearray(message.size)
                end.transfer(library.Recv, _address(message.payload), message.size)  # type: ignore[union-attr]
        else:
            try:
                with for_writing(request.tensor, read=False) as staged:
                    address, _ = bytes_of(staged)
                    if message.payload is None:
                        end.transfer(library.Recv, address, size)  # type: ignore[union-attr]
                    elif size:
                        ctypes.memmove(address, _address(message.payload), size)
            except BaseException as caught:
                request.work.finish(caught)
                raise
        request.work.finish(error, source)

    def _fail(self, source: int, error: BaseException) -> None:
        """Nothing comes from `source` any more."""
        with self._changed:
            self._failed[source] = error
            alive = [peer for peer in range(self._size) if peer not in (self._rank, *self._failed)]
            lost = [request for request in self._requests if request.source == source or (request.source is None and not alive)]
            gone = {id(request) for request in lost}
            self._requests = [request for request in self._requests if id(request) not in gone]
        for request in lost:
            request.work.finish(error)

    def _send_to_self(self, tensor: torch.Tensor, tag: int, work: TuttiWork) -> None:
        data = bytearray(bytes(for_reading(tensor).reshape(-1).view(torch.uint8).numpy()))
        message = _Message(bytearray(_HEADER.pack(tag, len(data))))
        message.payload = data
        with self._changed:
            request = self._take_request(self._rank, tag)
            if request is None:
                self._kept[self._rank].append(message)
        if request is not None:
            self._deliver(request, self._rank, message)
        work.finish()


class _Sender:
    """The sending end of one direction: a queue and its thread."""

    def __init__(self, mailbox: Mailbox, destination: int) -> None:
        self._mailbox, self._destination = mailbox, destination
        self._changed = threading.Condition()
        self._posted: deque[tuple[torch.Tensor, int, TuttiWork]] = deque()
        self._error: BaseException | None = None
        threading.Thread(target=self._serve, daemon=True, name=f"tutti send {mailbox._name} {destination}").start()

    def post(self, tensor: torch.Tensor, tag: int, work: TuttiWork) -> None:
        with self._changed:
            if self._error is None:
                self._posted.append((tensor, tag, work))
                self._changed.notify()
                return
        work.finish(self._error)

    def close(self) -> None:
        self._fail(RuntimeError(f"{self._mailbox._name}: the process group was destroyed before a message was sent"))

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            self._error = self._error or error
            lost = list(self._posted)
            self._posted.clear()
            self._changed.notify()
        for _, _, work in lost:
            work.finish(self._error)

    def _serve(self) -> None:
        work: TuttiWork | None = None
        try:
            end: _End | None = None
            while True:
                work = None
                with self._changed:
                    while not self._posted and self._error is None:
                        self._changed.wait()
                    if self._error is not None:
                        return
                    tensor, tag, work = self._posted.popleft()
                end = end or self._mailbox.connect_to(self._destination)
                self._send(end, for_reading(tensor), tag)
                work.finish()
        except BaseException as error:
            if isinstance(error, _Closed):
                error = RuntimeError(f"{self._mailbox._name}: the process group was destroyed before a message was sent")
            if work is not None:
                work.finish(error)
            self._fail(error)

    @staticmethod
    def _send(end: _End, tensor: torch.Tensor, tag: int) -> None:
        address, size = bytes_of(tensor)
        frame = bytearray(_FRAME_BYTES)
        _HEADER.pack_into(frame, 0, tag, size)
        if 0 < size <= _INLINE_BYTES:
            ctypes.memmove(_address(frame) + _HEADER.size, address, size)
        end.transfer(library.Send, _address(frame), _FRAME_BYTES)
        if size > _INLINE_BYTES:
            end.transfer(library.Send, address, size)
