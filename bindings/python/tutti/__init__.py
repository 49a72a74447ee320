"""Tutti: collective communication between processes, threads and hosts.

    import numpy, tutti

    with tutti.init() as comm:            # rank, size and meeting point from torchrun, mpirun, srun or `tutti run`
        a = numpy.full(1000, comm.rank, dtype="float32")
        comm.all_reduce(a)                # in place

``import tutti.torch`` makes ``torch.distributed.init_process_group("tutti")`` work.
"""

from .communicator import SPLIT_NOCOLOR, Choice, Communicator, init, unique_id
from .errors import (
    DeviceError,
    InternalError,
    InvalidArgumentError,
    InvalidUsageError,
    RemoteError,
    Result,
    SystemCallError,
    TimedOutError,
    TuttiError,
)
from .stream import Stream, group
from .types import DataType, ReduceOp
from ._library import library as _library

#: The version of the library that runs.
__version__ = ".".join(map(str, _library.version))

__all__ = [
    "SPLIT_NOCOLOR", "Choice", "Communicator", "DataType", "DeviceError", "InternalError", "InvalidArgumentError",
    "InvalidUsageError", "ReduceOp", "RemoteError", "Result", "Stream", "SystemCallError", "TimedOutError", "TuttiError",
    "group", "init", "unique_id",
]
