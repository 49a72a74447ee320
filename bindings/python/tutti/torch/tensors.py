"""Tensors as the C API sees them: addresses, counts and types of contiguous host memory.

A tensor that is not contiguous, or lies on a device, is worked on in a contiguous host copy, which is copied back.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch

from ..types import DataType

# What the library adds up. Other types are moved as bytes, and folded by way of one of these.
REDUCIBLE: dict[torch.dtype, DataType] = {
    torch.int8: DataType.INT8, torch.uint8: DataType.UINT8, torch.int32: DataType.INT32, torch.int64: DataType.INT64,
    torch.float16: DataType.FLOAT16, torch.float32: DataType.FLOAT32, torch.float64: DataType.FLOAT64,
    torch.bfloat16: DataType.BFLOAT16,
}
# These came later than 1.13.
for _name, _type in (("uint32", DataType.UINT32), ("uint64", DataType.UINT64), ("float8_e4m3fn", DataType.FLOAT8E4M3),
                     ("float8_e5m2", DataType.FLOAT8E5M2)):
    if hasattr(torch, _name):
        REDUCIBLE[getattr(torch, _name)] = _type


class Memory(NamedTuple):
    """`count` elements of `dtype` at `address`. Valid while the tensor lives."""

    address: int
    count: int
    dtype: int


def memory(tensor: torch.Tensor) -> Memory:
    """A contiguous host tensor's memory; elements of a type that the library has not are told as bytes."""
    dtype = REDUCIBLE.get(tensor.dtype)
    if dtype is not None:
        return Memory(tensor.data_ptr(), tensor.numel(), dtype)
    return Memory(tensor.data_ptr(), tensor.numel() * tensor.element_size(), DataType.UINT8)


def bytes_of(tensor: torch.Tensor) -> tuple[int, int]:
    """Address and size of a contiguous host tensor."""
    return tensor.data_ptr(), tensor.numel() * tensor.element_size()


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether the tensor can be used where it lies."""
    return tensor.device.type == "cpu" and tensor.is_contiguous()


def refuse_sparse(tensor: torch.Tensor) -> None:
    if tensor.layout != torch.strided:
        raise ValueError(f"a tensor of layout {tensor.layout} can only be all-reduced")


def for_reading(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, or a contiguous copy of it on the host."""
    refuse_sparse(tensor)
    return tensor if is_plain(tensor) else tensor.detach().to("cpu", copy=True).contiguous()


@contextlib.contextmanager
def for_writing(tensor: torch.Tensor, *, read: bool = True) -> Iterator[torch.Tensor]:
    """The tensor, or a contiguous host tensor whose contents are copied to it at the end. With `read` it begins as a
    copy of the tensor."""
    refuse_sparse(tensor)
    if is_plain(tensor):
        yield tensor
        return
    staged = for_reading(tensor) if read else torch.empty(tensor.shape, dtype=tensor.dtype)
    yield staged
    with torch.no_grad():
        tensor.copy_(staged)


def adjacent(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether the tensors lie one behind the other, so that they are one buffer."""
    end = None
    for tensor in tensors:
        if not is_plain(tensor) or (end is not None and tensor.data_ptr() != end):
            return False
        end = tensor.data_ptr() + tensor.numel() * tensor.element_size()
    return True


def flat_for_reading(tensors: Sequence[torch.Tensor]) -> tuple[Memory, list[int], object]:
    """The tensors' elements one behind the other: memory, element counts, and what keeps the memory."""
    flat = tensors[0] if adjacent(tensors) else torch.cat([for_reading(tensor).reshape(-1) for tensor in tensors])
    counts = [memory_count(tensor) for tensor in tensors]
    first = memory(flat)
    return Memory(first.address, sum(counts), first.dtype), counts, flat


@contextlib.contextmanager
def flat_for_writing(tensors: Sequence[torch.Tensor]) -> Iterator[tuple[Memory, list[int]]]:
    """Room for the tensors' elements one behind the other; what is written there is in the tensors at the end."""
    counts = [memory_count(tensor) for tensor in tensors]
    if adjacent(tensors):
        first = memory(tensors[0])
        yield Memory(first.address, sum(counts), first.dtype), counts
        return
    for tensor in tensors:
        refuse_sparse(tensor)
    flat = torch.empty(sum(tensor.numel() for tensor in tensors), dtype=tensors[0].dtype)
    yield memory(flat), counts
    with torch.no_grad():
        for tensor, part in zip(tensors, flat.split([tensor.numel() for tensor in tensors])):
            tensor.copy_(part.view(tensor.shape))


def memory_count(tensor: torch.Tensor) -> int:
    return tensor.numel() if tensor.dtype in REDUCIBLE else tensor.numel() * tensor.element_size()


def tensor_list(tensors: Sequence[torch.Tensor] | torch.Tensor) -> list[torch.Tensor]:
    """c10d's list of one tensor per device, or the tensor by itself."""
    return [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)


def one(tensors: Sequence[torch.Tensor] | torch.Tensor, what: str) -> torch.Tensor:
    """The only tensor of a list: a rank has one device."""
    mine = tensor_list(tensors)
    if len(mine) != 1:
        raise ValueError(f"{what}: expected one tensor, got {len(mine)}")
    return mine[0]
