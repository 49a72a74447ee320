"""c10d's collectives as calls of the C API. Everything here blocks, and is called in the order of the operations.

Contracts are c10d's: lists of one tensor per rank, results written in place.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import torch

from .._library import library
from ..errors import failure
from ..types import ReduceOp
from .reductions import Operation, fold_gathered, on_wire, travels
from .tensors import (
    REDUCIBLE,
    flat_for_reading,
    flat_for_writing,
    for_reading,
    for_writing,
    is_plain,
    memory,
    memory_count,
)

_ENUMERATED = {"SUM": int(ReduceOp.SUM), "PRODUCT": int(ReduceOp.PROD), "MAX": int(ReduceOp.MAX), "MIN": int(ReduceOp.MIN),
               "AVG": int(ReduceOp.AVG)}


def _array(values: Sequence[int]) -> Any:
    return (ctypes.c_size_t * len(values))(*values)


class Operations:
    """The collectives of one communicator."""

    def __init__(self, handle: int, rank: int, size: int) -> None:
        self.handle, self.rank, self.size = handle, rank, size

    def _call(self, function: Callable, *arguments: Any) -> None:
        result = function(*arguments, self.handle, None)
        if result:
            raise failure(result, self.handle)

    # ---- reductions

    def all_reduce(self, tensor: torch.Tensor, op: Operation) -> None:
        dtype = REDUCIBLE.get(tensor.dtype)
        kind = _ENUMERATED.get(op.name)
        if dtype is not None and kind is not None and is_plain(tensor) and tensor.layout == torch.strided:
            address = tensor.data_ptr()
            self._call(library.AllReduce, address, address, tensor.numel(), dtype, kind)
        elif tensor.layout == torch.sparse_coo:
            self._all_reduce_sparse(tensor, op)
        else:
            with for_writing(tensor) as staged:
                self._fold_all(staged, op)

    def _fold_all(self, tensor: torch.Tensor, op: Operation) -> None:
        """For a contiguous host tensor, and any type and operation."""
        if not travels(tensor.dtype, op):
            gathered = torch.empty((self.size, *tensor.shape), dtype=tensor.dtype)
            self.all_gather_single(gathered, tensor)
            tensor.copy_(fold_gathered(gathered, op))
            return
        wire = on_wire(tensor, op, self.handle)
        address = wire.tensor.data_ptr()
        try:
            self._call(library.AllReduce, address, address, wire.tensor.numel(), wire.dtype, wire.op)
        finally:
            wire.finish()

    def all_reduce_coalesced(self, tensors: Sequence[torch.Tensor], op: Operation) -> None:
        """One operation for all of them, where they have one type."""
        if len({tensor.dtype for tensor in tensors}) > 1 or any(tensor.layout != torch.strided for tensor in tensors):
            for tensor in tensors:
                self.all_reduce(tensor, op)
            return
        flat = torch.cat([for_reading(tensor).reshape(-1) for tensor in tensors])
        self.all_reduce(flat, op)
        for tensor, part in zip(tensors, flat.split([tensor.numel() for tensor in tensors])):
            tensor.copy_(part.view(tensor.shape))

    def _all_reduce_sparse(self, tensor: torch.Tensor, op: Operation) -> None:
        if op.name not in ("SUM", "AVG"):
            raise ValueError(f"sparse tensors can only be summed or averaged, not reduced by {op.name}")
        mine = tensor.detach().to("cpu").coalesce()
        counts = torch.empty(self.size, dtype=torch.int64)
        self.all_gather_single(counts, torch.tensor([mine._nnz()]))
        total, index_rows = int(counts.sum()), mine.sparse_dim()
        indices = torch.empty((total, index_rows), dtype=torch.int64)
        values = torch.empty((total, *mine.values().shape[1:]), dtype=mine.dtype)
        self._gather_uneven(mine.indices().t().contiguous(), indices, [int(count) * index_rows for count in counts])
        row = values[:1].numel() if total else 0
        self._gather_uneven(mine.values().contiguous(), values, [int(count) * row for count in counts])
        merged = torch.sparse_coo_tensor(indices.t(), values, mine.shape).coalesce()
        if op.name == "AVG":
            merged = merged / self.size
        with torch.no_grad():
            tensor.copy_(merged)

    def _gather_uneven(self, mine: torch.Tensor, out: torch.Tensor, counts: list[int]) -> None:
        per_element = memory_count(out) // max(1, out.numel())
        self._call(library.AllGatherV, mine.data_ptr(), out.data_ptr(), _array([count * per_element for count in counts]), None,
                   memory(out).dtype)

    def reduce(self, tensor: torch.Tensor, op: Operation, root: int) -> None:
        """In place at the root; elsewhere the tensor keeps its contents."""
        if tensor.dtype in REDUCIBLE and op.name in _ENUMERATED:
            if self.rank == root:
                with for_writing(tensor) as staged:
                    address, count, dtype = memory(staged)
                    self._call(library.Reduce, address, address, count, dtype, _ENUMERATED[op.name], root)
            else:
                staged = for_reading(tensor)
                self._call(library.Reduce, staged.data_ptr(), None, staged.numel(), memory(staged).dtype, _ENUMERATED[op.name], root)
            return
        copy = for_reading(tensor).clone()
        self._fold_all(copy, op)
        if self.rank == root:
            tensor.copy_(copy)

    def reduce_scatter(self, out: torch.Tensor, parts: Sequence[torch.Tensor], op: Operation) -> None:
        """parts[q] goes to rank q; their sizes may differ between ranks."""
        if out.dtype not in REDUCIBLE or op.name not in _ENUMERATED:
            flat = torch.cat([for_reading(part).reshape(-1) for part in parts])
            self._fold_all(flat, op)
            out.copy_(flat.split([part.numel() for part in parts])[self.rank].view(out.shape))
            return
        source, counts, _keep = flat_for_reading(parts)
        if counts[self.rank] != out.numel():
            raise ValueError(f"the output has {out.numel()} elements; this rank's part has {counts[self.rank]}")
        with for_writing(out, read=False) as staged:
            if len(set(counts)) == 1:
                self._call(library.ReduceScatter, source.address, staged.data_ptr(), counts[0], source.dtype, _ENUMERATED[op.name])
            else:
                self._call(library.ReduceScatterV, source.address, staged.data_ptr(), _array(counts), None, source.dtype,
                           _ENUMERATED[op.name])

    def reduce_scatter_single(self, out: torch.Tensor, whole: torch.Tensor, op: Operation) -> None:
        if whole.numel() != out.numel() * self.size:
            raise ValueError(f"the input has {whole.numel()} elements; {self.size} ranks of {out.numel()} need {out.numel() * self.size}")
        flat = for_reading(whole).reshape(-1)
        self.reduce_scatter(out, flat.split(max(1, out.numel())) if out.numel() else [flat] * self.size, op)

    # ---- moving data

    def broadcast(self, tensor: torch.Tensor, root: int) -> None:
        if self.rank == root:
            address, count, dtype = memory(held := for_reading(tensor))  # noqa: F841 (holds the memory)
            self._call(library.Broadcast, address, address, count, dtype, root)
            return
        with for_writing(tensor, read=False) as staged:
            address, count, dtype = memory(staged)
            self._call(library.Broadcast, address, address, count, dtype, root)

    def all_gather(self, outs: Sequence[torch.Tensor], tensor: torch.Tensor) -> None:
        """outs[q] = rank q's tensor; their sizes may differ between ranks."""
        self._expect_ranks(outs, "outputs")
        held = for_reading(tensor)
        with flat_for_writing(outs) as (target, counts):
            source = memory(held)
            if counts[self.rank] != source.count or source.dtype != target.dtype:
                raise ValueError(f"output {self.rank} of all_gather does not match the input in size or type")
            if len(set(counts)) == 1:
                self._call(library.AllGather, source.address, target.address, source.count, source.dtype)
            else:
                self._call(library.AllGatherV, source.address, target.address, _array(counts), None, source.dtype)

    def all_gather_single(self, out: torch.Tensor, tensor: torch.Tensor) -> None:
        held = for_reading(tensor)
        with for_writing(out, read=False) as staged:
            source, target = memory(held), memory(staged)
            if target.count != source.count * self.size or source.dtype != target.dtype:
                raise ValueError(f"output tensor size must be equal to world_size times input tensor size, and the types the same: "
                                 f"{tuple(out.shape)} {out.dtype} and {tuple(tensor.shape)} {tensor.dtype}")
            self._call(library.AllGather, source.address, target.address, source.count, source.dtype)

    def gather(self, outs: Sequence[torch.Tensor], tensor: torch.Tensor, root: int) -> None:
        held = for_reading(tensor)
        source = memory(held)
        if self.rank != root:
            self._call(library.Gather, source.address, None, source.count, source.dtype, root)
            return
        self._expect_ranks(outs, "outputs")
        with flat_for_writing(outs) as (target, counts):
            if set(counts) != {source.count}:
                raise ValueError(f"gather: outputs of {counts} elements for inputs of {source.count}")
            self._call(library.Gather, source.address, target.address, source.count, source.dtype, root)

    def scatter(self, out: torch.Tensor, parts: Sequence[torch.Tensor], root: int) -> None:
        with for_writing(out, read=False) as staged:
            target = memory(staged)
            if self.rank != root:
                self._call(library.Scatter, None, target.address, target.count, target.dtype, root)
                return
            self._expect_ranks(parts, "inputs")
            source, counts, _keep = flat_for_reading(parts)
            if set(counts) != {target.count}:
                raise ValueError(f"scatter: inputs of {counts} elements for outputs of {target.count}")
            self._call(library.Scatter, source.address, target.address, target.count, target.dtype, root)

    def all_to_all(self, outs: Sequence[torch.Tensor], parts: Sequence[torch.Tensor]) -> None:
        self._expect_ranks(outs, "outputs")
        self._expect_ranks(parts, "inputs")
        source, sent, _keep = flat_for_reading(parts)
        with flat_for_writing(outs) as (target, received):
            self._call(library.AllToAllV, source.address, _array(sent), None, target.address, _array(received), None, source.dtype)

    def all_to_all_single(self, out: torch.Tensor, whole: torch.Tensor, out_rows: Sequence[int], rows: Sequence[int]) -> None:
        """Rows, by the first dimension, for each rank; none given: equal shares."""
        held = for_reading(whole)
        with for_writing(out, read=False) as staged:
            source, target = memory(held), memory(staged)
            sent, received = self._shares(whole, rows, source.count), self._shares(out, out_rows, target.count)
            if not rows and not out_rows:
                self._call(library.AllToAll, source.address, target.address, sent[0], source.dtype)
            else:
                self._call(library.AllToAllV, source.address, _array(sent), None, target.address, _array(received), None, source.dtype)

    def _shares(self, tensor: torch.Tensor, rows: Sequence[int], count: int) -> list[int]:
        total = tensor.size(0) if tensor.dim() else 0
        if not rows:
            if total % self.size:
                raise ValueError(f"Tensor's dim 0 does not divide equally across group size: {total} rows, {self.size} ranks")
            return [count // self.size] * self.size
        if len(rows) != self.size:
            raise ValueError(f"Number of tensor splits not equal to group size: {len(rows)}, {self.size}")
        if sum(rows) != total:
            raise ValueError(f"Split sizes doesn't match total dim 0 size: {list(rows)}, {total}")
        return [part * (count // total if total else 0) for part in rows]

    def barrier(self) -> None:
        self._call(library.Barrier)

    def _expect_ranks(self, tensors: Sequence[torch.Tensor], what: str) -> None:
        if len(tensors) != self.size:
            raise ValueError(f"{len(tensors)} {what} for {self.size} ranks")


