"""Element types and operations, as the C API numbers them."""

from __future__ import annotations

import struct
from enum import IntEnum


class DataType(IntEnum):
    """tuttiDataType_t. 16- and 8-bit floats are folded in float32 and rounded once per fold."""

    INT8 = 0
    UINT8 = 1
    INT32 = 2
    UINT32 = 3
    INT64 = 4
    UINT64 = 5
    FLOAT16 = 6
    FLOAT32 = 7
    FLOAT64 = 8
    BFLOAT16 = 9
    FLOAT8E4M3 = 10
    FLOAT8E5M2 = 11

    @property
    def itemsize(self) -> int:
        return _SIZES[self]


_SIZES = {DataType.INT8: 1, DataType.UINT8: 1, DataType.INT32: 4, DataType.UINT32: 4, DataType.INT64: 8,
          DataType.UINT64: 8, DataType.FLOAT16: 2, DataType.FLOAT32: 4, DataType.FLOAT64: 8, DataType.BFLOAT16: 2,
          DataType.FLOAT8E4M3: 1, DataType.FLOAT8E5M2: 1}

# As numpy and ml_dtypes name them.
NAMES = {"int8": DataType.INT8, "uint8": DataType.UINT8, "int32": DataType.INT32, "uint32": DataType.UINT32,
         "int64": DataType.INT64, "uint64": DataType.UINT64, "float16": DataType.FLOAT16, "float32": DataType.FLOAT32,
         "float64": DataType.FLOAT64, "bfloat16": DataType.BFLOAT16, "float8_e4m3fn": DataType.FLOAT8E4M3,
         "float8_e5m2": DataType.FLOAT8E5M2}


class ReduceOp(IntEnum):
    """tuttiRedOp_t. AVG divides the sum by the number of ranks; MAX and MIN prefer a number to a NaN."""

    SUM = 0
    PROD = 1
    MAX = 2
    MIN = 3
    AVG = 4


def reduce_op(op: ReduceOp | int | str) -> int:
    """The operation's number, from an enumerator, its name in any case, or what ``premul_sum`` gave."""
    if isinstance(op, str):
        try:
            return ReduceOp[op.upper()]
        except KeyError:
            raise ValueError(f"unknown operation '{op}'; there are {', '.join(name.lower() for name in ReduceOp.__members__)}") from None
    return int(op)


# struct's codes. bfloat16 is the upper half of a float32; 8-bit floats have no code.
_CODES = {DataType.INT8: "b", DataType.UINT8: "B", DataType.INT32: "i", DataType.UINT32: "I", DataType.INT64: "q",
          DataType.UINT64: "Q", DataType.FLOAT16: "e", DataType.FLOAT32: "f", DataType.FLOAT64: "d"}


def scalar_bytes(scalar: float, dtype: DataType) -> bytes:
    """`scalar` as one element of `dtype`, rounded to nearest.

    Errors: TypeError for 8-bit floats, struct.error where it does not fit.
    """
    if dtype == DataType.BFLOAT16:
        (bits,) = struct.unpack("=I", struct.pack("=f", scalar))
        return struct.pack("=H", (bits + 0x7FFF + (bits >> 16 & 1)) >> 16)
    if dtype not in _CODES:
        raise TypeError(f"no scalar of {dtype.name.lower()} can be written")
    return struct.pack("=" + _CODES[dtype], scalar if _CODES[dtype] in "efd" else int(scalar))
