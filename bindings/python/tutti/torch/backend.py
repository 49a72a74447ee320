"""The same process group as a c10d Backend, for torches whose Backend can be subclassed in Python (2.14 and later).

There a process group is torch's own object, which finds the backend of a tensor's device; this registers the group as
that backend of itself, so that C++ (functional collectives, hooks, the flight recorder) reaches it in the usual way.
Earlier torches call the process group's own methods.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

if TYPE_CHECKING:
    from .process_group import TuttiProcessGroup

_FORWARDED = (
    "allreduce", "allreduce_coalesced", "allreduce_sparse", "reduce", "reduce_scatter", "reduce_scatter_single",
    "reduce_scatter_single_coalesced", "_reduce_scatter_base", "broadcast", "allgather", "all_gather_single",
    "all_gather_single_coalesced", "_allgather_base", "allgather_coalesced", "gather", "gather_single", "gather_into_tensor",
    "scatter", "alltoall", "all_to_all_single", "alltoall_base", "send", "recv", "recv_anysource", "barrier", "monitored_barrier",
    "set_timeout", "_set_sequence_number_for_group", "_get_sequence_number_for_group",
)


def can_register() -> bool:
    """Whether this torch's Backend can be subclassed in Python."""
    return _make_class() is not None


def register_with(group: TuttiProcessGroup) -> None:
    """Registers `group` as its own backend, for CPU and CUDA tensors."""
    backend = _make_class()(group)
    group._set_default_backend(dist.ProcessGroup.BackendType.CUSTOM)
    for device in ("cpu", "cuda"):
        group._register_backend(torch.device(device), dist.ProcessGroup.BackendType.CUSTOM, backend)
    group._c10d_backend = backend  # C++ holds only its own half


_class: Any = None


def _make_class() -> Any:
    global _class
    if _class is None:
        base = getattr(torch._C._distributed_c10d, "Backend", None)
        _class = _subclass(base) if base is not None and _can_be_subclassed(base) else False
    return _class or None


def _can_be_subclassed(base: Any) -> bool:
    try:
        return isinstance(type("_Probe", (base,), {})(0, 1), base)
    except TypeError:
        return False


def _subclass(base: Any) -> Any:
    def forward(name: str) -> Any:
        def method(self: Any, *arguments: Any, **keywords: Any) -> Any:
            return getattr(self.group, name)(*arguments, **keywords)

        method.__name__ = name
        return method

    class TuttiBackend(base):
        """Forwards to the process group, which owns it."""

        # Read by torch as attributes; the base class's own would ask this one.
        supports_splitting = True
        supports_coalescing = False
        supports_shrinking = False
        supports_time_estimate = _supports_time_estimate = False
        supports_completion_hooks = False
        supports_abort_hooks = False
        supports_reconfigure = False
        supports_window = False
        supports_tensor_alloc = False
        bound_device_id = None

        def __init__(self, group: Any) -> None:
            super().__init__(group.rank(), group.size())
            # The group owns the backend: a strong reference would be a cycle through C++ that nobody collects.
            self._group = weakref.ref(group)

        @property
        def group(self) -> Any:
            group = self._group()
            if group is None:
                raise RuntimeError("the process group has been destroyed")
            return group

        def name(self) -> str:
            return "tutti"

        getBackendName = _get_backend_name = name

        def shutdown(self) -> None:
            pass  # the group is shut down itself

        def abort(self) -> None:
            pass

        def eager_connect_single_device(self, device: Any) -> None:
            pass

        def perform_nocolor_split(self, device: Any) -> None:
            self.group.perform_nocolor_split(device)

    for name in _FORWARDED:
        setattr(TuttiBackend, name, forward(name))
    return TuttiBackend

