"""Where the elements of an array lie: anything with the buffer protocol (numpy arrays, array.array, bytearray, mmap,
memoryview), and arrays of ml_dtypes, which has no buffer protocol."""

from __future__ import annotations

import ctypes
import struct
from typing import Any, NamedTuple

from .types import NAMES, DataType

_WRITABLE, _FORMAT, _C_CONTIGUOUS = 0x1, 0x4, 0x20 | 0x18  # PyBUF_*; contiguous includes ND and STRIDES


class _PyBuffer(ctypes.Structure):
    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.py_object), ("len", ctypes.c_ssize_t), ("itemsize", ctypes.c_ssize_t),
                ("readonly", ctypes.c_int), ("ndim", ctypes.c_int), ("format", ctypes.c_char_p), ("shape", ctypes.c_void_p),
                ("strides", ctypes.c_void_p), ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p)]


_get = ctypes.pythonapi.PyObject_GetBuffer
_get.argtypes, _get.restype = [ctypes.py_object, ctypes.POINTER(_PyBuffer), ctypes.c_int], ctypes.c_int
_release = ctypes.pythonapi.PyBuffer_Release
_release.argtypes, _release.restype = [ctypes.POINTER(_PyBuffer)], None


class Elements(NamedTuple):
    """`keep` holds the memory; `address` is valid while it lives."""

    address: int
    count: int
    dtype: DataType
    keep: Any


class _Held:
    """Releases the buffer when nobody needs the address any more."""

    def __init__(self, array: Any, flags: int) -> None:
        self.view = _PyBuffer()
        self._acquired = False
        _get(array, ctypes.byref(self.view), flags)
        self._acquired = True

    def __del__(self) -> None:
        if self._acquired:
            _release(ctypes.byref(self.view))


def _dtype_of_format(text: str, itemsize: int) -> DataType | None:
    """The type of a struct format: one character, in native byte order."""
    code = text.lstrip("@=<" if struct.pack("=H", 1) == struct.pack("<H", 1) else "@=>!")
    if code in ("e", "f", "d"):
        return {"e": DataType.FLOAT16, "f": DataType.FLOAT32, "d": DataType.FLOAT64}[code]
    if len(code) == 1 and code in "bhilqn":
        return NAMES.get(f"int{8 * itemsize}")
    if len(code) == 1 and code in "BHILQNc":
        return NAMES.get(f"uint{8 * itemsize}")
    return None


def elements(array: Any, *, writable: bool, dtype: DataType | str | None = None) -> Elements:
    """The elements of `array`, which must be C-contiguous.

    `dtype` says what a buffer of bytes holds; where the array knows better they must agree in size.
    Errors: TypeError (no buffer, or a type that Tutti has not), ValueError (not contiguous, read-only, odd size).
    """
    if isinstance(dtype, str):
        if dtype not in NAMES:
            raise TypeError(f"unknown dtype '{dtype}'; there are {', '.join(NAMES)}")
        dtype = NAMES[dtype]
    known = getattr(getattr(array, "dtype", None), "name", None)
    if known in NAMES and not hasattr(array, "__cuda_array_interface__"):
        interface = array.__array_interface__
        if interface.get("strides") is not None:
            raise ValueError("the array must be C-contiguous; pass a contiguous copy")
        address, readonly = interface["data"]
        if writable and readonly:
            raise ValueError("the array is read-only")
        own = NAMES[known]
        if dtype is not None and dtype != own:
            if dtype.itemsize != own.itemsize:
                raise TypeError(f"an array of {known} cannot be taken for {dtype.name.lower()}")
            own = dtype
        return Elements(address, array.size, own, array)
    try:
        held = _Held(array, _FORMAT | _C_CONTIGUOUS | (_WRITABLE if writable else 0))
    except BufferError as error:
        raise ValueError(f"the buffer must be C-contiguous{' and writable' if writable else ''}: {error}") from None
    view = held.view
    own = _dtype_of_format((view.format or b"B").decode(), view.itemsize)
    if dtype is None:
        if own is None:
            raise TypeError(f"elements of format '{(view.format or b'').decode()}' have no counterpart in Tutti; there are {', '.join(NAMES)}")
        dtype = own
    if view.len % dtype.itemsize:
        raise ValueError(f"{view.len} bytes are no whole number of {dtype.name.lower()}")
    return Elements(view.buf or 0, view.len // dtype.itemsize, dtype, held)
