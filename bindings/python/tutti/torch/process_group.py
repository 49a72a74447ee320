"""The process group that ``init_process_group("tutti")`` makes: c10d's methods over a communicator.

A subclass of torch's ProcessGroup, which every torch from 1.13 on takes as it is: Python calls its methods directly, and
C++ (DDP's reducer) through torch's trampolines.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from ..communicator import SPLIT_NOCOLOR, Communicator, unique_id
from ..errors import TuttiError
from .backend import can_register, register_with
from .mailbox import Mailbox
from .monitored import barrier_by_store
from .operations import Operations
from .reductions import Operation, operation
from .tensors import one, tensor_list
from .work import Lane, TuttiWork, raised_by_backend

_SUM = Operation("SUM")
_record_function = torch.autograd.profiler.record_function
_profiling: Callable[[], bool] = getattr(torch._C._autograd, "_profiler_enabled", None) or torch.autograd._profiler_enabled


def _reduction(opts: Any) -> Operation:
    """Of an Options object, a ReduceOp, or nothing."""
    if opts is None:
        return _SUM
    return operation(getattr(opts, "reduceOp", opts))


def _root(opts: Any) -> int:
    return opts if isinstance(opts, int) else getattr(opts, "rootRank", 0)


def _synchronous(opts: Any) -> bool:
    """Whether the caller waits at once, as newer torches tell."""
    return getattr(opts, "asyncOp", True) is False


class _WithoutBackends:
    """What torches before 2.14 ask a process group that has no Backend objects."""

    supports_splitting = True
    supports_coalescing = False
    _supports_time_estimate = False
    bound_device_id: torch.device | None = None
    group_name, group_desc = "", "undefined"

    def _get_backend(self, device: Any) -> Any:
        return self

    @property
    def _device_types(self) -> list[torch.device]:
        return [torch.device("cpu"), torch.device("cuda")]

    def _set_group_name(self, name: str) -> None:
        self.group_name = name

    def _set_group_desc(self, text: str) -> None:
        self.group_desc = text

    def _has_hooks(self) -> bool:
        return False

    def _wait_for_pending_works(self) -> None:
        self._lane.run_now(lambda: None)  # type: ignore[attr-defined]

    def _enable_collectives_timing(self) -> None:
        pass


class TuttiProcessGroup(dist.ProcessGroup):
    """One rank's end of a process group. All methods may be called from any thread."""

    def __init__(self, comm: Communicator, store: Any, timeout: timedelta, name: str) -> None:
        super().__init__(comm.rank, comm.size)
        self._comm, self._store, self._timeout, self._label = comm, store, timeout, name
        self._lane = Lane(f"tutti {name}")
        self._calls = Operations(comm.handle, comm.rank, comm.size)
        self._mailbox: Mailbox | None = None
        self._sequence = 0
        self._splits = 0
        self._monitored = 0
        self._coalescing: list[TuttiWork] | None = None
        self._close_lock = threading.Lock()
        self._open = True

    #: What the profiler's events begin with.
    profiled_as = "tutti"

    # ---- what c10d asks about

    def getBackendName(self) -> str:
        return "tutti"

    def name(self) -> str:
        return "tutti"

    def _get_backend_name(self) -> str:
        return "tutti"

    def rank(self) -> int:
        return self._comm.rank

    def size(self) -> int:
        return self._comm.size

    def get_group_store(self) -> Any:
        return self._store

    def _set_sequence_number_for_group(self) -> None:
        self._sequence = 0

    def _get_sequence_number_for_group(self) -> int:
        return self._sequence

    # ---- issuing

    def _issue(self, title: str, run: Callable[[], None], tensors: list, opts: Any) -> TuttiWork | None:
        """Queues an operation; runs it now, and returns None, where the caller is known to wait."""
        if not self._open:
            raise RuntimeError(f"process group {self._label} has been destroyed")
        self._sequence += 1
        if _profiling():
            with _record_function(f"{self.profiled_as}:{title}"):
                return self._start(title, run, tensors, opts)
        return self._start(title, run, tensors, opts)

    def _start(self, title: str, run: Callable[[], None], tensors: list, opts: Any) -> TuttiWork | None:
        if _synchronous(opts) and self._coalescing is None:
            try:
                self._lane.run_now(run)
            except TuttiError as error:
                raise raised_by_backend(error) from error
            return None
        on_device = [tensor for tensor in tensors if isinstance(tensor, torch.Tensor) and tensor.is_cuda]
        if on_device:
            run = _after_current_stream(run, on_device)
        work = TuttiWork(run, tensors, title, self._lane, self._timeout)
        self._lane.submit(work)
        if self._coalescing is not None:
            self._coalescing.append(work)
        return work

    # ---- reductions

    def allreduce(self, tensors: Any, opts: Any = None, *_: Any) -> TuttiWork | None:
        tensor, op = one(tensors, "all_reduce"), _reduction(opts)
        return self._issue("all_reduce", lambda: self._calls.all_reduce(tensor, op), [tensor], opts)

    def allreduce_coalesced(self, tensors: Any, opts: Any = None) -> TuttiWork | None:
        mine, op = tensor_list(tensors), _reduction(opts)
        return self._issue("all_reduce", lambda: self._calls.all_reduce_coalesced(mine, op), mine, opts)

    allreduce_sparse = allreduce

    def reduce(self, tensors: Any, opts: Any = None, op: Any = None) -> TuttiWork | None:
        tensor, root, kind = one(tensors, "reduce"), _root(opts), _reduction(op if op is not None else opts if not isinstance(opts, int) else None)
        return self._issue("reduce", lambda: self._calls.reduce(tensor, kind, root), [tensor], opts)

    def reduce_scatter(self, outs: Any, parts: Any, opts: Any = None) -> TuttiWork | None:
        out, op = one(outs, "reduce_scatter"), _reduction(opts)
        mine = _inner(parts)
        return self._issue("reduce_scatter", lambda: self._calls.reduce_scatter(out, mine, op), [out], opts)

    def reduce_scatter_single(self, out: torch.Tensor, whole: torch.Tensor, opts: Any = None) -> TuttiWork | None:
        op = _reduction(opts)
        return self._issue("_reduce_scatter_base", lambda: self._calls.reduce_scatter_single(out, whole, op), [out], opts)

    def reduce_scatter_single_coalesced(self, outs: Any, wholes: Any, opts: Any = None) -> TuttiWork | None:
        op = _reduction(opts)

        def run() -> None:
            for out, whole in zip(outs, wholes):
                self._calls.reduce_scatter_single(out, whole, op)

        return self._issue("reduce_scatter_tensor_coalesced", run, list(outs), opts)

    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    # ---- moving data

    def broadcast(self, tensors: Any, opts: Any = None, *_: Any) -> TuttiWork | None:
        tensor, root = one(tensors, "broadcast"), _root(opts)
        return self._issue("broadcast", lambda: self._calls.broadcast(tensor, root), [tensor], opts)

    def allgather(self, outs: Any, tensors: Any, opts: Any = None) -> TuttiWork | None:
        tensor, mine = one(tensors, "all_gather"), _inner(outs)
        return self._issue("all_gather", lambda: self._calls.all_gather(mine, tensor), mine, opts)

    def all_gather_single(self, out: torch.Tensor, tensor: torch.Tensor, opts: Any = None) -> TuttiWork | None:
        return self._issue("_all_gather_base", lambda: self._calls.all_gather_single(out, tensor), [out], opts)

    def all_gather_single_coalesced(self, outs: Any, tensors: Any, opts: Any = None) -> TuttiWork | None:
        def run() -> None:
            for out, tensor in zip(outs, tensors):
                self._calls.all_gather_single(out, tensor)

        return self._issue("allgather_into_tensor_coalesced", run, list(outs), opts)

    def allgather_coalesced(self, outs: Any, tensors: Any, opts: Any = None) -> TuttiWork | None:
        """outs[q][i] = rank q's tensors[i]."""
        mine = tensor_list(tensors)

        def run() -> None:
            for index, tensor in enumerate(mine):
                self._calls.all_gather([row[index] for row in outs], tensor)

        return self._issue("all_gather", run, [tensor for row in outs for tensor in row], opts)

    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def gather(self, outs: Any, tensors: Any, opts: Any = None) -> TuttiWork | None:
        tensor, root = one(tensors, "gather"), _root(opts)
        mine = _inner(outs) if self.rank() == root else []
        return self._issue("gather", lambda: self._calls.gather(mine, tensor, root), mine, opts)

    def gather_single(self, out: torch.Tensor, tensor: torch.Tensor, opts: Any = None) -> TuttiWork | None:
        root = _root(opts)
        mine = list(out.view(-1).chunk(self.size())) if self.rank() == root else []
        return self._issue("gather", lambda: self._calls.gather(mine, tensor, root), mine, opts)

    gather_into_tensor = gather_single

    def scatter(self, outs: Any, parts: Any, opts: Any = None) -> TuttiWork | None:
        out, root = one(outs, "scatter"), _root(opts)
        mine = _inner(parts) if self.rank() == root else []
        return self._issue("scatter", lambda: self._calls.scatter(out, mine, root), [out], opts)

    def alltoall(self, outs: Any, parts: Any, opts: Any = None) -> TuttiWork | None:
        return self._issue("all_to_all", lambda: self._calls.all_to_all(outs, parts), list(outs), opts)

    def all_to_all_single(self, out: torch.Tensor, whole: torch.Tensor, out_rows: Sequence[int] | None = None,
                          rows: Sequence[int] | None = None, opts: Any = None) -> TuttiWork | None:
        return self._issue("all_to_all", lambda: self._calls.all_to_all_single(out, whole, out_rows or [], rows or []), [out], opts)

    alltoall_base = all_to_all_single

    # ---- messages

    def _mail(self) -> Mailbox:
        if self._mailbox is None:
            self._mailbox = Mailbox(self._label, self._store, self.rank(), self.size())
        return self._mailbox

    def _message(self, title: str, tensor: torch.Tensor, post: Callable[[TuttiWork], None]) -> TuttiWork:
        self._sequence += 1
        work = TuttiWork(None, [tensor], f"{self._label}: {title}", None, self._timeout, self._look_for_error)
        if _profiling():
            with _record_function(f"{self.profiled_as}:{title.split()[0]}"):
                post(work)
        else:
            post(work)
        return work

    def _look_for_error(self) -> None:
        """While a message is waited for: the group's error, as that of a rank that died."""
        error = self._comm.error() if self._open else None
        if error is not None:
            raise raised_by_backend(error)

    def send(self, tensors: Any, destination: int, tag: int = 0) -> TuttiWork:
        tensor = one(tensors, "send")
        return self._message(f"send to rank {destination} with tag {tag}", tensor,
                             lambda work: self._mail().send(tensor, destination, tag, work))

    def recv(self, tensors: Any, source: int, tag: int = 0) -> TuttiWork:
        tensor = one(tensors, "recv")
        return self._message(f"recv from rank {source} with tag {tag}", tensor,
                             lambda work: self._mail().recv(tensor, source, tag, work))

    def recv_anysource(self, tensors: Any, tag: int = 0) -> TuttiWork:
        tensor = one(tensors, "recv")
        return self._message(f"recvAnySource with tag {tag}", tensor, lambda work: self._mail().recv(tensor, None, tag, work))

    # ---- coming together

    def barrier(self, opts: Any = None) -> TuttiWork | None:
        return self._issue("barrier", self._calls.barrier, [], opts)

    def monitored_barrier(self, timeout: timedelta | float | None = None, wait_all_ranks: bool = False) -> None:
        """A barrier that names the ranks that do not come."""
        self._monitored += 1
        if isinstance(timeout, (int, float)):
            timeout = timedelta(seconds=timeout)
        # None, and torch's negative number for it, mean the group's.
        limit = timeout if timeout is not None and timeout >= timedelta(0) else self._timeout
        barrier_by_store(self._store, f"monitored/{self._monitored}", self.rank(), self.size(), limit, wait_all_ranks)

    def _start_coalescing(self, device: Any = None) -> None:
        self._coalescing = []

    def _end_coalescing(self, device: Any = None) -> TuttiWork | None:
        """The last of them is done when all are: the lane keeps their order."""
        works, self._coalescing = self._coalescing or [], None
        return works[-1] if works else None

    # ---- life

    def split_group(self, ranks: Sequence[int], timeout: timedelta | None = None, opts: Any = None, group_name: str | None = None,
                    group_desc: str | None = None, device_types: Any = None) -> TuttiProcessGroup | None:
        """Collective over this group. Ranks of equal `ranks` form a group; who is not in its list gets None."""
        mine = self.rank() in ranks
        limit = timeout or self._timeout
        label = group_name or f"{self._label}/{self._splits + 1}"
        comm = self.split_communicator(min(ranks), list(ranks).index(self.rank()), limit, label) if mine else \
            self.split_communicator(SPLIT_NOCOLOR, 0, limit, label)
        if comm is None:
            return None
        store = dist.PrefixStore(f"split/{self._splits}/{min(ranks)}", self._store)
        group = make(comm, store, limit, label)
        group._set_group_name(label)
        group._set_group_desc(group_desc or "undefined")
        return group

    def split_communicator(self, color: int, key: int, timeout: timedelta, label: str) -> Communicator | None:
        """Collective over this group, behind what was issued."""
        self._splits += 1
        made: list[Communicator | None] = []
        self._lane.run_now(lambda: made.append(self._comm.split(color, key, timeout=timeout.total_seconds(), name=label)))
        return made[0]

    def perform_nocolor_split(self, device: Any = None) -> None:
        """This rank's part in a split that `create` makes on others."""
        self.split_communicator(SPLIT_NOCOLOR, 0, self._timeout, self._label)

    def set_timeout(self, timeout: timedelta) -> None:
        """Of messages and monitored barriers; that of collectives is the communicator's, set when it is made."""
        self._timeout = timeout

    _set_default_timeout = set_timeout

    def shutdown(self) -> None:
        """Runs what was issued and leaves. Needs no peer."""
        if self._close():
            self._lane.close()
            with contextlib.suppress(TuttiError):  # it was told to who waited for the operation
                self._comm.close()

    def abort(self) -> None:
        """Ends what is under way in all threads, here and on the other ranks."""
        if self._close():
            self._comm.abort()
            self._lane.close()

    def _close(self) -> bool:
        """Whether this call is the first to end the group."""
        with self._close_lock:
            was_open, self._open = self._open, False
        if was_open and self._mailbox is not None:
            self._mailbox.close()
        return was_open

    def __del__(self) -> None:
        if getattr(self, "_open", False):
            self.shutdown()


def _inner(lists: Any) -> list[torch.Tensor]:
    """The list of a list of lists, one per device; or a list by itself."""
    outer = list(lists)
    if outer and not isinstance(outer[0], torch.Tensor):
        if len(outer) != 1:
            raise ValueError(f"expected one list of tensors, got {len(outer)}")
        return list(outer[0])
    return outer


def _after_current_stream(run: Callable[[], None], tensors: list[torch.Tensor]) -> Callable[[], None]:
    """What the caller has queued on its CUDA stream comes first; the host copies are made and put back by the worker."""
    event = torch.cuda.Event()
    event.record(torch.cuda.current_stream(tensors[0].device))

    def run_after() -> None:
        event.synchronize()
        run()
        torch.cuda.current_stream(tensors[0].device).synchronize()

    return run_after


class _PlainProcessGroup(_WithoutBackends, TuttiProcessGroup):
    pass


def make(comm: Communicator, store: Any, timeout: timedelta, label: str) -> TuttiProcessGroup:
    """A process group of the kind that this torch knows."""
    if can_register():
        group = TuttiProcessGroup(comm, store, timeout, label)
        register_with(group)
        return group
    return _PlainProcessGroup(comm, store, timeout, label)


def create(options: Any, _backend_options: Any = None) -> TuttiProcessGroup:
    """What torch calls for each group: rank 0 makes the meeting point, the group's store hands it to the others."""
    rank, size, store, timeout = options.group_rank, options.group_size, options.store, options.timeout
    label = f"group {options.group_id}" if options.group_id else "group"
    parent = getattr(options, "split_from", None)
    parent = getattr(parent, "group", parent)
    if isinstance(parent, TuttiProcessGroup):
        # torch has ranks outside the new group take part by perform_nocolor_split.
        comm = parent.split_communicator(min(options.global_ranks_in_group), rank, timeout, label)
        assert comm is not None
        return make(comm, store, timeout, label)
    if rank == 0:
        point = unique_id()
        store.set("tutti/id", point.hex())
    else:
        store.wait(["tutti/id"], timeout)
        point = bytes.fromhex(store.get("tutti/id").decode())
    comm = Communicator(size, point, rank, timeout=timeout.total_seconds(), name=label)
    return make(comm, store, timeout, label)


