"""c10d's reductions by way of the library's: which type and operation they travel as.

The library folds int8 to int64, uint8 to uint64 and floats of 8 to 64 bits with sum, prod, max, min, avg and a sum with a
factor. bool, int16 and complex travel as one of these. What cannot (bitwise operations, products of complex numbers) is
gathered from all ranks and folded here, in the order of ranks.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import NamedTuple

import torch

from .._library import library
from ..errors import check
from ..types import DataType, ReduceOp, scalar_bytes
from .tensors import REDUCIBLE


class Operation(NamedTuple):
    """c10d's ReduceOp: its name, and the factor of PREMUL_SUM."""

    name: str
    factor: object = None


_SIMPLE = {"SUM": ReduceOp.SUM, "PRODUCT": ReduceOp.PROD, "MAX": ReduceOp.MAX, "MIN": ReduceOp.MIN, "AVG": ReduceOp.AVG}
# Of truth values.
_LOGICAL = {"SUM": ReduceOp.MAX, "MAX": ReduceOp.MAX, "BOR": ReduceOp.MAX, "PRODUCT": ReduceOp.MIN, "MIN": ReduceOp.MIN,
            "BAND": ReduceOp.MIN, "BXOR": ReduceOp.SUM}
_WIDENED = {torch.int16: torch.int32}
for _name in ("uint16",):
    if hasattr(torch, _name):
        _WIDENED[getattr(torch, _name)] = torch.int32

_FOLDS: dict[str, Callable] = {
    "PRODUCT": torch.mul, "BAND": torch.bitwise_and, "BOR": torch.bitwise_or, "BXOR": torch.bitwise_xor,
}


def operation(op: object) -> Operation:
    """Of a ReduceOp, a ReduceOp.RedOpType, or an Options object's reduceOp."""
    kind = getattr(op, "op", op)
    name = getattr(kind, "name", None) or str(kind).rsplit(".", 1)[-1].rstrip(">").split(":")[0]
    if name != "PREMUL_SUM":
        return Operation(name)
    state = getattr(op, "__getstate__", lambda: None)()
    if not isinstance(state, tuple):
        raise NotImplementedError("this version of torch does not tell the factor of PREMUL_SUM to Python")
    return Operation(name, state[1])


class Wire(NamedTuple):
    """How a tensor's reduction travels: `tensor` holds the elements, `finish` puts the result into the original."""

    tensor: torch.Tensor
    dtype: DataType
    op: int
    finish: Callable[[], None]


def _nothing() -> None:
    pass


def travels(dtype: torch.dtype, op: Operation) -> bool:
    """Whether the library can do it; otherwise `fold_gathered` does."""
    if dtype == torch.bool:
        return op.name in _LOGICAL
    if op.name not in _SIMPLE and op.name != "PREMUL_SUM":
        return False
    return op.name in ("SUM", "AVG", "PREMUL_SUM") if dtype.is_complex else True


def on_wire(tensor: torch.Tensor, op: Operation, comm: int) -> Wire:
    """For a contiguous host tensor, which holds the input and will hold the output.

    Errors: ValueError for a type and operation that mean nothing.
    """
    if tensor.dtype == torch.bool:
        if op.name not in _LOGICAL:
            raise ValueError(f"{op.name} means nothing for torch.bool")
        bits = tensor.view(torch.uint8)
        return Wire(bits, DataType.UINT8, _LOGICAL[op.name], (lambda: bits.bitwise_and_(1)) if op.name == "BXOR" else _nothing)
    if tensor.dtype.is_complex:
        return on_wire(torch.view_as_real(tensor), op, comm)
    if tensor.dtype in _WIDENED:
        wide = tensor.to(_WIDENED[tensor.dtype])
        wire = on_wire(wide, op, comm)
        return wire._replace(finish=lambda: (wire.finish(), tensor.copy_(wide))[0])
    dtype = REDUCIBLE.get(tensor.dtype)
    if dtype is None:
        raise ValueError(f"tensors of {tensor.dtype} cannot be reduced")
    if op.name == "PREMUL_SUM":
        return _with_factor(tensor, dtype, op.factor, comm)
    return Wire(tensor, dtype, _SIMPLE[op.name], _nothing)


def _with_factor(tensor: torch.Tensor, dtype: DataType, factor: object, comm: int) -> Wire:
    if isinstance(factor, torch.Tensor) and factor.numel() != 1:
        # One factor for each element: multiplied here.
        tensor.mul_(factor.to("cpu"))
        return Wire(tensor, dtype, ReduceOp.SUM, _nothing)
    value = float(factor)  # type: ignore[arg-type]
    if dtype in (DataType.FLOAT8E4M3, DataType.FLOAT8E5M2):
        tensor.copy_((tensor.float() * value).to(tensor.dtype))
        return Wire(tensor, dtype, ReduceOp.SUM, _nothing)
    made = ctypes.c_int()
    check(library.RedOpCreatePreMulSum(ctypes.byref(made), scalar_bytes(value, dtype), dtype, comm), comm)
    return Wire(tensor, dtype, made.value, lambda: check(library.RedOpDestroy(made.value, comm), comm))


def fold_gathered(gathered: torch.Tensor, op: Operation) -> torch.Tensor:
    """Folds `gathered[rank]` over ranks, for what does not travel.

    Errors: ValueError for a type and operation that mean nothing.
    """
    if op.name not in _FOLDS or (op.name != "PRODUCT" and gathered.dtype.is_floating_point) or \
            (op.name != "PRODUCT" and gathered.dtype.is_complex):
        raise ValueError(f"{op.name} means nothing for {gathered.dtype}")
    result = gathered[0].clone()
    for part in gathered[1:]:
        _FOLDS[op.name](result, part, out=result)
    return result
