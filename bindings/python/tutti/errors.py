"""What a failed call raises: the library's sentence, and one class for each kind of failure."""

from __future__ import annotations

from enum import IntEnum

from ._library import library


class Result(IntEnum):
    """tuttiResult_t."""

    SUCCESS = 0
    UNHANDLED_DEVICE_ERROR = 1
    SYSTEM_ERROR = 2
    INTERNAL_ERROR = 3
    INVALID_ARGUMENT = 4
    INVALID_USAGE = 5
    REMOTE_ERROR = 6
    IN_PROGRESS = 7
    TIMEOUT = 8


class TuttiError(RuntimeError):
    """A call failed. ``result`` says how; the text is the library's own, which names ranks, hosts and operations."""

    def __init__(self, result: int, message: str) -> None:
        super().__init__(message)
        self.result = Result(result)


class DeviceError(TuttiError):
    """A CUDA call failed."""


class SystemCallError(TuttiError):
    """A system call failed."""


class InternalError(TuttiError):
    """A bug in Tutti."""


class InvalidArgumentError(TuttiError, ValueError):
    """One argument is wrong by itself; nothing was sent."""


class InvalidUsageError(TuttiError):
    """The call does not fit the state, the other ranks or the environment."""


class RemoteError(TuttiError):
    """Another rank died, left or failed."""


class TimedOutError(TuttiError, TimeoutError):
    """No progress for the communicator's timeout."""


_CLASSES = {
    Result.UNHANDLED_DEVICE_ERROR: DeviceError,
    Result.SYSTEM_ERROR: SystemCallError,
    Result.INTERNAL_ERROR: InternalError,
    Result.INVALID_ARGUMENT: InvalidArgumentError,
    Result.INVALID_USAGE: InvalidUsageError,
    Result.REMOTE_ERROR: RemoteError,
    Result.TIMEOUT: TimedOutError,
}


def failure(result: int, comm: int | None = None) -> TuttiError:
    """The exception for a result that is not success. Ask in the thread whose call failed."""
    message = (library.GetLastError(comm) or b"").decode(errors="replace")
    return _CLASSES.get(Result(result), TuttiError)(result, message or library.GetErrorString(result).decode())


def check(result: int, comm: int | None = None) -> None:
    """Raises unless `result` is success."""
    if result:
        raise failure(result, comm)
