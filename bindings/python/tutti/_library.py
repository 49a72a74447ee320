"""Finds libtutti and gives its functions their C types. No compiler runs, at import or later.

The library is the one that lies beside this package (a wheel brings it along), else the one that the dynamic linker
finds as libtutti.so.0: an installed one, or one that LD_LIBRARY_PATH leads to.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, byref, c_char, c_char_p, c_int, c_size_t, c_void_p
from pathlib import Path

SONAME = "libtutti.so.0"
MAJOR, MINOR = 0, 1
UNIQUE_ID_BYTES = 128
UNDEFINED_INT = -(2**31)


class UniqueIdStruct(ctypes.Structure):
    _fields_ = [("internal", c_char * UNIQUE_ID_BYTES)]


class ConfigStruct(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("timeout_ms", c_int), ("name", c_char_p)]


class ChoiceStruct(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("algorithm", c_char_p), ("protocol", c_char_p), ("transport", c_char * 64),
                ("tile_bytes", c_size_t), ("lanes", c_int), ("algorithm_forced", c_int), ("transport_forced", c_int)]


# name without the prefix: argument types. All return tuttiResult_t but those in _STRINGS.
_PROTOTYPES = {
    "GetVersion": [POINTER(c_int)],
    "GetUniqueId": [POINTER(UniqueIdStruct)],
    "CommInitRankConfig": [POINTER(c_void_p), c_int, UniqueIdStruct, c_int, POINTER(ConfigStruct)],
    "CommInitAll": [POINTER(c_void_p), c_int, POINTER(c_int)],
    "CommInitFromEnv": [POINTER(c_void_p), POINTER(ConfigStruct)],
    "CommSplit": [c_void_p, c_int, c_int, POINTER(c_void_p), POINTER(ConfigStruct)],
    "CommShrink": [c_void_p, POINTER(c_int), c_int, POINTER(c_void_p), POINTER(ConfigStruct), c_int],
    "CommGetUniqueId": [c_void_p, POINTER(UniqueIdStruct)],
    "CommGrow": [c_void_p, c_int, POINTER(UniqueIdStruct), c_int, POINTER(c_void_p), POINTER(ConfigStruct)],
    "CommFinalize": [c_void_p],
    "CommDestroy": [c_void_p],
    "CommAbort": [c_void_p],
    "CommGetAsyncError": [c_void_p, POINTER(c_int)],
    "CommCount": [c_void_p, POINTER(c_int)],
    "CommUserRank": [c_void_p, POINTER(c_int)],
    "CommDevice": [c_void_p, POINTER(c_int)],
    "CommQueryChoice": [c_void_p, c_char_p, c_size_t, c_int, POINTER(ChoiceStruct)],
    "AllReduce": [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p],
    "Broadcast": [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p],
    "Reduce": [c_void_p, c_void_p, c_size_t, c_int, c_int, c_int, c_void_p, c_void_p],
    "ReduceScatter": [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p],
    "AllGather": [c_void_p, c_void_p, c_size_t, c_int, c_void_p, c_void_p],
    "AllToAll": [c_void_p, c_void_p, c_size_t, c_int, c_void_p, c_void_p],
    "Gather": [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p],
    "Scatter": [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p],
    "Barrier": [c_void_p, c_void_p],
    "AllGatherV": [c_void_p, c_void_p, POINTER(c_size_t), POINTER(c_size_t), c_int, c_void_p, c_void_p],
    "ReduceScatterV": [c_void_p, c_void_p, POINTER(c_size_t), POINTER(c_size_t), c_int, c_int, c_void_p, c_void_p],
    "AllToAllV": [c_void_p, POINTER(c_size_t), POINTER(c_size_t), c_void_p, POINTER(c_size_t), POINTER(c_size_t), c_int,
                  c_void_p, c_void_p],
    "Send": [c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p],
    "Recv": [c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p],
    "GroupStart": [],
    "GroupEnd": [],
    "RedOpCreatePreMulSum": [POINTER(c_int), c_void_p, c_int, c_void_p],
    "RedOpDestroy": [c_int, c_void_p],
    "MemAlloc": [POINTER(c_void_p), c_size_t],
    "MemFree": [c_void_p],
    "CommRegister": [c_void_p, c_void_p, c_size_t, POINTER(c_void_p)],
    "CommDeregister": [c_void_p, c_void_p],
    "StreamCreate": [POINTER(c_void_p)],
    "StreamDestroy": [c_void_p],
    "StreamSynchronize": [c_void_p],
    "StreamQuery": [c_void_p],
}
_STRINGS = {"GetErrorString": [c_int], "GetLastError": [c_void_p]}


class Library:
    """The functions of libtutti under their names without the prefix: ``library.AllReduce(...)``."""

    def __init__(self) -> None:
        self.path = self._find()
        self._handle = ctypes.CDLL(self.path)
        for name, arguments in _PROTOTYPES.items():
            self._bind(name, arguments, c_int)
        for name, arguments in _STRINGS.items():
            self._bind(name, arguments, c_char_p)
        version = c_int()
        self.GetVersion(byref(version))
        self.version = (version.value // 10000, version.value // 100 % 100, version.value % 100)
        if self.version[:2] != (MAJOR, MINOR):
            raise ImportError(f"{self.path} is Tutti {'.'.join(map(str, self.version))}; this package needs {MAJOR}.{MINOR}")

    @staticmethod
    def _find() -> str:
        beside = Path(__file__).parent / "lib" / SONAME
        return str(beside) if beside.exists() else SONAME

    def _bind(self, name: str, arguments: list, result: type) -> None:
        try:
            function = self._handle["tutti" + name]
        except AttributeError:
            raise ImportError(f"{self.path} has no tutti{name}: it is older than this package") from None
        function.argtypes, function.restype = arguments, result
        setattr(self, name, function)


try:
    library = Library()
except OSError as error:
    raise ImportError(f"libtutti was not found: {error}. Install it, or put its folder on LD_LIBRARY_PATH; it is "
                      "looked for beside this package, then by the dynamic linker.") from error
