"""Communicator: one rank's membership of a group of ranks, and the collectives between them."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import byref, c_int, c_size_t, c_void_p
from typing import Any, NamedTuple, TypeVar

from ._library import UNDEFINED_INT, UNIQUE_ID_BYTES, ChoiceStruct, ConfigStruct, UniqueIdStruct, library
from .buffers import Elements, elements
from .errors import Result, TuttiError, check, failure
from .stream import Stream, keep_until_done
from .types import NAMES, DataType, ReduceOp, reduce_op, scalar_bytes

Array = TypeVar("Array")
Op = ReduceOp | int | str

SPLIT_NOCOLOR = -1


class Choice(NamedTuple):
    """What one operation would run by."""

    algorithm: str
    protocol: str
    transport: str
    tile_bytes: int
    lanes: int


def unique_id() -> bytes:
    """Makes a meeting point in this process and says how to reach it. Hand the bytes to every rank, as a secret. The
    process must live until the communicator is closed."""
    made = UniqueIdStruct()
    check(library.GetUniqueId(byref(made)))
    return bytes(made)


def _id_struct(data: bytes) -> UniqueIdStruct:
    if len(data) != UNIQUE_ID_BYTES:
        raise ValueError(f"a unique id has {UNIQUE_ID_BYTES} bytes, not {len(data)}")
    return UniqueIdStruct.from_buffer_copy(data)


def _config(timeout: float | None, name: str | None) -> ConfigStruct:
    milliseconds = UNDEFINED_INT if timeout is None else max(1, min(int(timeout * 1000), 2**31 - 1))
    return ConfigStruct(ctypes.sizeof(ConfigStruct), milliseconds, name.encode() if name else None)


def _sizes(values: Sequence[int] | None, n: int, what: str) -> Any:
    if values is None:
        return None
    if len(values) != n:
        raise ValueError(f"{what} has {len(values)} entries for {n} ranks")
    return (c_size_t * n)(*values)


class Communicator:
    """One rank of a communicator. Its methods are the collectives: every rank makes the same calls in the same order.

    Without a stream a call returns when its part is done; the interpreter's lock is free meanwhile, so ranks may be
    threads. With a stream it returns at once. Arrays are numpy arrays or anything else with the buffer protocol, and
    C-contiguous; ``dtype=`` says what raw bytes hold. Methods return the array that holds the result.

    Every failure raises a ``TuttiError`` with the library's message. Use it in a ``with`` block, or call ``close``.
    """

    def __init__(self, nranks: int, unique_id: bytes, rank: int, *, timeout: float | None = None, name: str | None = None) -> None:
        """Joins as `rank` of `nranks`. Blocks until all have come, or raises after `timeout` seconds (default
        TUTTI_TIMEOUT) and names the ranks that are missing."""
        handle = c_void_p()
        check(library.CommInitRankConfig(byref(handle), nranks, _id_struct(unique_id), rank, byref(_config(timeout, name))))
        self._adopt(handle)

    def _adopt(self, handle: c_void_p) -> None:
        self._handle: int | None = handle.value
        rank, size, device = c_int(), c_int(), c_int()
        check(library.CommUserRank(handle, byref(rank)))
        check(library.CommCount(handle, byref(size)))
        check(library.CommDevice(handle, byref(device)))
        self.rank, self.size, self.device = rank.value, size.value, device.value

    @classmethod
    def _of(cls, handle: c_void_p) -> Communicator:
        made = cls.__new__(cls)
        made._adopt(handle)
        return made

    @classmethod
    def from_environment(cls, *, timeout: float | None = None, name: str | None = None) -> Communicator:
        """Rank, size and meeting point as torchrun, Slurm, Open MPI, MPICH or ``tutti run`` put them into the
        environment. Raises InvalidUsageError at once when a variable is missing, naming it."""
        handle = c_void_p()
        check(library.CommInitFromEnv(byref(handle), byref(_config(timeout, name))))
        return cls._of(handle)

    @classmethod
    def local(cls, n: int) -> list[Communicator]:
        """`n` ranks in this process; each is to be driven by a thread of its own, or all within ``tutti.group()``."""
        handles = (c_void_p * n)()
        check(library.CommInitAll(handles, n, None))
        return [cls._of(c_void_p(handle)) for handle in handles]

    # ---- life

    @property
    def handle(self) -> int:
        """The tuttiComm_t, for other bindings."""
        if self._handle is None:
            raise ValueError("the communicator is closed")
        return self._handle

    def split(self, color: int, key: int = 0, *, timeout: float | None = None, name: str | None = None) -> Communicator | None:
        """Collective. Ranks of equal `color` form a communicator, ordered by (`key`, rank); None for SPLIT_NOCOLOR."""
        handle = c_void_p()
        check(library.CommSplit(self.handle, color, key, byref(handle), byref(_config(timeout, name))), self._handle)
        return self._of(handle) if handle.value else None

    def shrink(self, exclude: Sequence[int], *, abort: bool = False, timeout: float | None = None, name: str | None = None) -> Communicator:
        """Called by all ranks but those in `exclude`: a communicator of the others. With `abort` it works after a
        rank's death or an error."""
        handle, ranks = c_void_p(), (c_int * len(exclude))(*exclude)
        check(library.CommShrink(self.handle, ranks, len(exclude), byref(handle), byref(_config(timeout, name)), int(abort)), self._handle)
        return self._of(handle)

    def grow_id(self) -> bytes:
        """A meeting point for ``grow``: one rank makes it and hands it to the newcomers, who call ``Communicator.join``."""
        made = UniqueIdStruct()
        check(library.CommGetUniqueId(self.handle, byref(made)), self._handle)
        return bytes(made)

    def grow(self, nranks: int, unique_id: bytes | None = None, *, timeout: float | None = None, name: str | None = None) -> Communicator:
        """A communicator of `nranks` whose first ranks are this one's. The rank that made the id passes it."""
        handle = c_void_p()
        point = byref(_id_struct(unique_id)) if unique_id is not None else None
        check(library.CommGrow(self.handle, nranks, point, -1, byref(handle), byref(_config(timeout, name))), self._handle)
        return self._of(handle)

    @classmethod
    def join(cls, nranks: int, unique_id: bytes, rank: int, *, timeout: float | None = None, name: str | None = None) -> Communicator:
        """A newcomer's side of ``grow``."""
        handle = c_void_p()
        check(library.CommGrow(None, nranks, byref(_id_struct(unique_id)), rank, byref(handle), byref(_config(timeout, name))))
        return cls._of(handle)

    def finalize(self) -> None:
        """Waits for all that was issued, then compares this rank's last calls with those of ranks that ended before
        it. Needs no peer."""
        check(library.CommFinalize(self.handle), self._handle)

    def close(self) -> None:
        """Finalizes if need be and frees. Needs no peer; a second call does nothing."""
        if self._handle is not None:
            handle, self._handle = self._handle, None
            check(library.CommDestroy(handle))

    def abort(self) -> None:
        """Makes calls under way return with an error in all threads, tells the other ranks, and frees."""
        if self._handle is not None:
            handle, self._handle = self._handle, None
            check(library.CommAbort(handle))

    def error(self) -> TuttiError | None:
        """The communicator's first error, None when there is none. Never blocks."""
        latched = c_int()
        check(library.CommGetAsyncError(self.handle, byref(latched)))
        return failure(latched.value, self._handle) if latched.value else None

    def __enter__(self) -> Communicator:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        # After an exception the peers may wait for calls that will not come: tell them.
        self.close() if kind is None else self.abort()

    def __repr__(self) -> str:
        return f"<tutti.Communicator: {'closed' if self._handle is None else f'rank {self.rank} of {self.size}'}>"

    def choice(self, collective: str, count: int, dtype: DataType) -> Choice:
        """What ``collective`` ("all_reduce", ...) of `count` elements would run by. No communication."""
        made = ChoiceStruct(ctypes.sizeof(ChoiceStruct))
        check(library.CommQueryChoice(self.handle, collective.encode(), count, dtype, byref(made)), self._handle)
        return Choice(made.algorithm.decode(), made.protocol.decode(), made.transport.decode(), made.tile_bytes, made.lanes)

    # ---- collectives

    def _call(self, function: Any, *arguments: Any, stream: Stream | None, keep: Sequence[Elements]) -> None:
        result = function(*arguments, self.handle, stream.handle if stream else None)
        if result:
            raise failure(result, self._handle)
        keep_until_done(stream, *keep)

    def _pair(self, array: Any, out: Any, dtype: DataType | str | None) -> tuple[Elements, Elements]:
        """Input and output; the same memory when `out` is None."""
        if out is None:
            target = elements(array, writable=True, dtype=dtype)
            return target, target
        source, target = elements(array, writable=False, dtype=dtype), elements(out, writable=True, dtype=dtype)
        if source.dtype != target.dtype:
            raise TypeError(f"input is {source.dtype.name.lower()}, output {target.dtype.name.lower()}")
        return source, target

    @staticmethod
    def _expect(elements_: Elements, count: int, what: str) -> None:
        if elements_.count != count:
            raise ValueError(f"{what} has {elements_.count} elements; it needs {count}")

    def all_reduce(self, array: Array, op: Op = "sum", *, out: Any = None, dtype: DataType | str | None = None,
                   stream: Stream | None = None) -> Array:
        """Folds all ranks' arrays with `op` into `out`, or in place. Bitwise equal on all ranks."""
        source, target = self._pair(array, out, dtype)
        self._expect(target, source.count, "the output")
        self._call(library.AllReduce, source.address, target.address, source.count, source.dtype, reduce_op(op),
                   stream=stream, keep=(source, target))
        return array if out is None else out

    def broadcast(self, array: Array, root: int = 0, *, dtype: DataType | str | None = None, stream: Stream | None = None) -> Array:
        """Overwrites every rank's array with the root's."""
        held = elements(array, writable=self.rank != root, dtype=dtype)
        self._call(library.Broadcast, held.address, held.address, held.count, held.dtype, root, stream=stream, keep=(held,))
        return array

    def reduce(self, array: Array, op: Op = "sum", root: int = 0, *, out: Any = None, dtype: DataType | str | None = None,
               stream: Stream | None = None) -> Array:
        """Folds all ranks' arrays into the root's `out`, or in place there. Other ranks' arrays stay as they are."""
        if self.rank == root:
            source, target = self._pair(array, out, dtype)
            self._expect(target, source.count, "the output")
        else:
            source = target = elements(array, writable=False, dtype=dtype)
        self._call(library.Reduce, source.address, target.address, source.count, source.dtype, reduce_op(op), root,
                   stream=stream, keep=(source, target))
        return array if out is None else out

    def reduce_scatter(self, array: Any, out: Array, op: Op = "sum", *, dtype: DataType | str | None = None,
                       stream: Stream | None = None) -> Array:
        """Folds all ranks' arrays and gives rank r the r-th of `size` equal parts. `out` may be that part of `array`."""
        source, target = self._pair(array, out, dtype)
        self._expect(source, target.count * self.size, "the input")
        self._call(library.ReduceScatter, source.address, target.address, target.count, source.dtype, reduce_op(op),
                   stream=stream, keep=(source, target))
        return out

    def all_gather(self, array: Any, out: Array, *, dtype: DataType | str | None = None, stream: Stream | None = None) -> Array:
        """Puts all ranks' arrays one behind the other. `array` may be this rank's part of `out`."""
        source, target = self._pair(array, out, dtype)
        self._expect(target, source.count * self.size, "the output")
        self._call(library.AllGather, source.address, target.address, source.count, source.dtype, stream=stream, keep=(source, target))
        return out

    def all_to_all(self, array: Any, out: Array, *, dtype: DataType | str | None = None, stream: Stream | None = None) -> Array:
        """The q-th part of `array` goes to rank q; the q-th part of `out` comes from it."""
        source, target = self._pair(array, out, dtype)
        self._expect(target, source.count, "the output")
        if source.count % self.size:
            raise ValueError(f"{source.count} elements cannot be split between {self.size} ranks")
        self._call(library.AllToAll, source.address, target.address, source.count // self.size, source.dtype,
                   stream=stream, keep=(source, target))
        return out

    def gather(self, array: Any, out: Array | None = None, root: int = 0, *, dtype: DataType | str | None = None,
               stream: Stream | None = None) -> Array | None:
        """Puts all ranks' arrays one behind the other into the root's `out`; other ranks need none."""
        source = elements(array, writable=False, dtype=dtype)
        target = None
        if self.rank == root:
            target = elements(out, writable=True, dtype=dtype)
            self._expect(target, source.count * self.size, "the output")
        self._call(library.Gather, source.address, target and target.address, source.count, source.dtype, root,
                   stream=stream, keep=(source,) if target is None else (source, target))
        return out

    def scatter(self, array: Any | None, out: Array, root: int = 0, *, dtype: DataType | str | None = None,
                stream: Stream | None = None) -> Array:
        """Gives rank q the q-th part of the root's `array`; other ranks pass None."""
        target = elements(out, writable=True, dtype=dtype)
        source = None
        if self.rank == root:
            source = elements(array, writable=False, dtype=dtype)
            self._expect(source, target.count * self.size, "the input")
        self._call(library.Scatter, source and source.address, target.address, target.count, target.dtype, root,
                   stream=stream, keep=(target,) if source is None else (source, target))
        return out

    def barrier(self, *, stream: Stream | None = None) -> None:
        """Returns (or, on a stream, lets what follows begin) when every rank has come."""
        self._call(library.Barrier, stream=stream, keep=())

    def all_gather_v(self, array: Any, out: Array, counts: Sequence[int], displacements: Sequence[int] | None = None, *,
                     dtype: DataType | str | None = None, stream: Stream | None = None) -> Array:
        """Puts rank q's `counts[q]` elements at `displacements[q]` of every rank's `out`; back to back by default."""
        source, target = self._pair(array, out, dtype)
        self._expect(source, counts[self.rank], "the input")
        self._fits(target, counts, displacements, "the output")
        self._call(library.AllGatherV, source.address, target.address, _sizes(counts, self.size, "counts"),
                   _sizes(displacements, self.size, "displacements"), source.dtype, stream=stream, keep=(source, target))
        return out

    def reduce_scatter_v(self, array: Any, out: Array, counts: Sequence[int], displacements: Sequence[int] | None = None,
                         op: Op = "sum", *, dtype: DataType | str | None = None, stream: Stream | None = None) -> Array:
        """Folds all ranks' arrays and gives rank q the `counts[q]` elements at `displacements[q]`."""
        source, target = self._pair(array, out, dtype)
        self._expect(target, counts[self.rank], "the output")
        self._fits(source, counts, displacements, "the input")
        self._call(library.ReduceScatterV, source.address, target.address, _sizes(counts, self.size, "counts"),
                   _sizes(displacements, self.size, "displacements"), source.dtype, reduce_op(op),
                   stream=stream, keep=(source, target))
        return out

    def all_to_all_v(self, array: Any, send_counts: Sequence[int], out: Array, recv_counts: Sequence[int], *,
                     send_displacements: Sequence[int] | None = None, recv_displacements: Sequence[int] | None = None,
                     dtype: DataType | str | None = None, stream: Stream | None = None) -> Array:
        """`send_counts[q]` elements go to rank q, `recv_counts[q]` come from it."""
        source, target = self._pair(array, out, dtype)
        self._fits(source, send_counts, send_displacements, "the input")
        self._fits(target, recv_counts, recv_displacements, "the output")
        n = self.size
        self._call(library.AllToAllV, source.address, _sizes(send_counts, n, "send_counts"),
                   _sizes(send_displacements, n, "send_displacements"), target.address, _sizes(recv_counts, n, "recv_counts"),
                   _sizes(recv_displacements, n, "recv_displacements"), source.dtype, stream=stream, keep=(source, target))
        return out

    def _fits(self, held: Elements, counts: Sequence[int], displacements: Sequence[int] | None, what: str) -> None:
        """Refuses counts that reach past the end: the library knows addresses, not lengths."""
        if displacements is None:
            needed = sum(counts)
        else:
            needed = max((start + count for start, count in zip(displacements, counts) if count), default=0)
        if min([*counts, *(displacements or [])], default=0) < 0 or needed > held.count:
            raise ValueError(f"{what} has {held.count} elements; its counts and displacements reach to {needed}")

    def send(self, array: Any, peer: int, *, dtype: DataType | str | None = None, stream: Stream | None = None) -> None:
        """Sends to `peer`. Messages between two ranks match in order."""
        held = elements(array, writable=False, dtype=dtype)
        self._call(library.Send, held.address, held.count, held.dtype, peer, stream=stream, keep=(held,))

    def recv(self, array: Array, peer: int, *, dtype: DataType | str | None = None, stream: Stream | None = None) -> Array:
        """Receives from `peer` as many elements as `array` has."""
        held = elements(array, writable=True, dtype=dtype)
        self._call(library.Recv, held.address, held.count, held.dtype, peer, stream=stream, keep=(held,))
        return array

    # ---- operations with a factor, registered memory

    def premul_sum(self, scalar: float, dtype: DataType | str) -> int:
        """An operation for ``op=``: the sum over ranks of scalar * input, with this rank's scalar, for arrays of
        `dtype`. Give it back with ``remove_op``."""
        kind = NAMES[dtype] if isinstance(dtype, str) else dtype
        value = scalar_bytes(scalar, kind)
        made = c_int()
        check(library.RedOpCreatePreMulSum(byref(made), value, kind, self.handle), self._handle)
        return made.value

    def remove_op(self, op: int) -> None:
        check(library.RedOpDestroy(op, self.handle), self._handle)

    def register(self, array: Any) -> int:
        """Tells the transports that this memory will be used often. Keep the array alive until ``deregister``."""
        held, handle = elements(array, writable=False), c_void_p()
        check(library.CommRegister(self.handle, held.address, held.count * held.dtype.itemsize, byref(handle)), self._handle)
        return handle.value or 0

    def deregister(self, registration: int) -> None:
        check(library.CommDeregister(self.handle, registration), self._handle)


def init(*, timeout: float | None = None, name: str | None = None) -> Communicator:
    """The communicator of all ranks that the launcher started: ``Communicator.from_environment``."""
    return Communicator.from_environment(timeout=timeout, name=name)


__all__ = ["SPLIT_NOCOLOR", "Choice", "Communicator", "Result", "init", "unique_id"]
