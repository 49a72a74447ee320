"""Making and ending communicators, arguments that are refused, and errors that carry the library's message."""

import numpy as np
import pytest

import tutti
from conftest import run_ranks

SUM_OF_RANKS = """
import numpy, tutti
with tutti.init(timeout=30) as comm:
    a = numpy.full(10, comm.rank + 1)
    print(comm.rank, comm.size, comm.all_reduce(a)[0])
"""


def test_init_from_the_environment(start_script):
    processes = [start_script(rank, 3, SUM_OF_RANKS) for rank in range(3)]
    outputs = [process.communicate(timeout=60) for process in processes]
    assert [out for out, _ in outputs] == [f"{rank} 3 6\n" for rank in range(3)], outputs


@pytest.mark.parametrize("missing", ["RANK", "WORLD_SIZE"])
def test_missing_variable_is_named_at_once(start_script, missing):
    _, err = start_script(0, 2, SUM_OF_RANKS, **{missing: None}).communicate(timeout=60)
    assert "tutti.errors.InvalidUsageError" in err and missing in err


def test_ranks_that_do_not_come_are_named(start_script):
    source = SUM_OF_RANKS.replace("timeout=30", "timeout=1")
    processes = [start_script(rank, 4, source) for rank in (0, 2)]
    for process in processes:
        _, err = process.communicate(timeout=60)
        assert "tutti.errors.TimedOutError" in err
    assert "1" in err and "3" in err


def test_master_that_is_not_there(start_script):
    _, err = start_script(1, 2, SUM_OF_RANKS.replace("timeout=30", "timeout=1")).communicate(timeout=60)
    assert "tutti.errors.TimedOutError" in err and "127.0.0.1" in err


def test_unique_id_and_names():
    made = tutti.unique_id()
    assert len(made) == 128
    with tutti.Communicator(1, made, 0, name="alone", timeout=5) as comm:
        assert (comm.rank, comm.size, comm.device) == (0, 1, -1)
        assert comm.choice("all_reduce", 10, tutti.DataType.FLOAT32).transport
    assert repr(comm) == "<tutti.Communicator: closed>"
    comm.close()
    with pytest.raises(ValueError, match="closed"):
        comm.barrier()
    with pytest.raises(ValueError, match="128"):
        tutti.Communicator(1, b"short", 0)


def test_split_shrink_grow():
    def body(comm):
        halves = comm.split(comm.rank % 2, -comm.rank)
        assert halves.size == 2 and halves.rank == (1 if comm.rank < 2 else 0)
        halves.close()
        assert (comm.split(0 if comm.rank else tutti.SPLIT_NOCOLOR) is None) == (comm.rank == 0)
        if comm.rank != 1:
            with comm.shrink([1]) as rest:
                assert rest.size == 3

    run_ranks(4, body)


def test_grow():
    (one,) = tutti.Communicator.local(1)
    made = one.grow_id()
    import threading
    grown = []
    thread = threading.Thread(target=lambda: grown.append(tutti.Communicator.join(2, made, 1)))
    thread.start()
    mine = one.grow(2, made)
    thread.join()
    assert mine.size == 2 and grown[0].rank == 1
    for comm in (mine, grown[0], one):
        comm.close()


def test_abort_reaches_a_thread_inside_a_call():
    comms = tutti.Communicator.local(2)

    def body(comm):
        if comm.rank == 0:
            with pytest.raises(tutti.TuttiError):
                comm.barrier()
        else:
            comm.abort()

    run_ranks(2, body, comms)
    comms[0].close()


def test_latched_error():
    def body(comm):
        assert comm.error() is None
        with pytest.raises(tutti.InvalidUsageError, match="rank"):
            comm.all_reduce(np.ones(1 + comm.rank))
            comm.barrier()
        assert isinstance(comm.error(), tutti.TuttiError)

    comms = tutti.Communicator.local(2)
    run_ranks(2, body, comms)
    for comm in comms:
        comm.abort()


@pytest.fixture
def alone():
    (comm,) = tutti.Communicator.local(1)
    yield comm
    comm.close()


def test_refused_arguments(alone):
    for array, error, words in [
        (np.ones(3, "complex64"), TypeError, "no counterpart"),
        (np.ones((4, 4))[:, 1], ValueError, "contiguous"),
        (b"read-only", ValueError, "writable"),
        (3.5, TypeError, "buffer|bytes-like"),
    ]:
        with pytest.raises(error, match=words):
            alone.all_reduce(array)
    frozen = np.ones(3)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        alone.all_reduce(frozen)
    with pytest.raises(ValueError, match="unknown operation"):
        alone.all_reduce(np.ones(1), "xor")
    with pytest.raises(tutti.InvalidArgumentError, match="17"):
        alone.all_reduce(np.ones(1), 17)
    with pytest.raises(TypeError, match="output"):
        alone.all_reduce(np.ones(1), out=np.ones(1, "float32"))
    with pytest.raises(TypeError, match="unknown dtype"):
        alone.all_reduce(bytearray(4), dtype="float31")
    with pytest.raises(ValueError, match="whole number"):
        alone.all_reduce(bytearray(6), dtype="float32")


def test_what_would_reach_past_the_end_is_refused(alone):
    """The library sees addresses only: lengths are checked here."""
    three = np.ones(3)
    for call in (
        lambda: alone.all_reduce(three, out=np.ones(2)),
        lambda: alone.all_gather(three, np.ones(4)),
        lambda: alone.reduce_scatter(three, np.ones(2)),
        lambda: alone.gather(three, np.ones(2)),
        lambda: alone.scatter(np.ones(2), three),
        lambda: alone.all_to_all(three, np.ones(2)),
        lambda: alone.all_gather_v(three, np.ones(3), [3], [1]),
        lambda: alone.reduce_scatter_v(three, np.ones(4), [4]),
        lambda: alone.all_to_all_v(three, [4], np.ones(4), [4]),
        lambda: alone.all_gather_v(three, np.ones(3), [3], [-1]),
        lambda: alone.all_gather_v(three, np.ones(3), [3], [0, 0]),
    ):
        with pytest.raises(ValueError):
            call()


def test_registered_memory(alone):
    memory = np.ones(1000)
    registration = alone.register(memory)
    alone.all_reduce(memory)
    alone.deregister(registration)
    with pytest.raises(tutti.TuttiError):
        alone.deregister(registration)
