"""Every collective against numpy, in every element type."""

import array
import threading

import numpy as np
import pytest

import tutti
from conftest import run_ranks

TYPES = ["int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64"]


def values(rank, count, dtype="float32"):
    """Small whole numbers, so that sums are exact in every type and order."""
    return ((np.arange(count) * 3 + rank * 7) % 5 + 1).astype(dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("op, fold", [("sum", np.sum), ("prod", np.prod), ("max", np.max), ("min", np.min)])
def test_all_reduce(dtype, op, fold):
    n, count = 3, 1000
    wanted = fold(np.stack([values(rank, count, dtype) for rank in range(n)]), axis=0).astype(dtype)

    def body(comm):
        mine = values(comm.rank, count, dtype)
        before = mine.copy()
        out = np.zeros_like(mine)
        assert comm.all_reduce(mine, op, out=out) is out
        assert np.array_equal(out, wanted) and np.array_equal(mine, before)
        assert comm.all_reduce(mine, op) is mine
        assert np.array_equal(mine, wanted)

    run_ranks(n, body)


def test_average_and_two_dimensions():
    def body(comm):
        mine = np.full((4, 5), 2.0 * comm.rank)
        comm.all_reduce(mine, tutti.ReduceOp.AVG)
        assert np.array_equal(mine, np.ones((4, 5)))

    run_ranks(2, body)


def test_rooted():
    n, count, root = 3, 10, 2

    def body(comm):
        mine = values(comm.rank, count)
        assert np.array_equal(comm.broadcast(mine.copy(), root), values(root, count))
        reduced = comm.reduce(mine.copy(), "sum", root)
        wanted = sum(values(rank, count) for rank in range(n)) if comm.rank == root else mine
        assert np.array_equal(reduced, wanted)
        gathered = comm.gather(mine, np.empty((n, count), "float32") if comm.rank == root else None, root)
        if comm.rank == root:
            assert np.array_equal(gathered, np.stack([values(rank, count) for rank in range(n)]))
        part = comm.scatter(np.arange(n * 2, dtype="int64") if comm.rank == root else None, np.empty(2, "int64"), root)
        assert part.tolist() == [2 * comm.rank, 2 * comm.rank + 1]

    run_ranks(n, body)


def test_all_gather_reduce_scatter_all_to_all():
    n, count = 4, 6

    def body(comm):
        mine = values(comm.rank, count)
        gathered = comm.all_gather(mine, np.empty((n, count), "float32"))
        assert np.array_equal(gathered, np.stack([values(rank, count) for rank in range(n)]))
        part = comm.reduce_scatter(gathered * (comm.rank + 1), np.empty(count, "float32"))
        assert np.array_equal(part, values(comm.rank, count) * 10)
        swapped = comm.all_to_all(np.arange(n) + 10 * comm.rank, np.empty(n, int))
        assert swapped.tolist() == [10 * rank + comm.rank for rank in range(n)]

    run_ranks(n, body)


def test_variable_counts():
    n, counts = 3, [2, 0, 5]

    def body(comm):
        mine = np.full(counts[comm.rank], comm.rank, "int32")
        assert comm.all_gather_v(mine, np.empty(7, "int32"), counts).tolist() == [0, 0, 2, 2, 2, 2, 2]
        spread = comm.all_gather_v(mine, np.full(9, -1, "int32"), counts, [7, 0, 1])
        assert spread.tolist() == [-1, 2, 2, 2, 2, 2, -1, 0, 0]
        part = comm.reduce_scatter_v(np.arange(7, dtype="int32"), np.empty(counts[comm.rank], "int32"), counts)
        assert part.tolist() == [[0, 3], [], [6, 9, 12, 15, 18]][comm.rank]
        send_counts = [comm.rank] * n
        out = comm.all_to_all_v(np.full(n * comm.rank, comm.rank, "int32"), send_counts, np.empty(3, "int32"), [0, 1, 2])
        assert out.tolist() == [1, 2, 2]

    run_ranks(n, body)


def test_point_to_point_in_a_group():
    def body(comm):
        left, right = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
        mine, theirs = np.full(3, comm.rank, "int64"), np.empty(3, "int64")
        with tutti.group():
            comm.send(mine, right)
            comm.recv(theirs, left)
        assert theirs.tolist() == [left] * 3

    run_ranks(3, body)


def test_buffers_without_numpy():
    def body(comm):
        numbers = array.array("d", [comm.rank, 1])
        comm.all_reduce(numbers)
        assert numbers.tolist() == [1.0, 2.0]
        raw = bytearray(np.full(4, comm.rank + 1, "float32").tobytes())
        comm.all_reduce(raw, dtype="float32")
        assert np.frombuffer(raw, "float32").tolist() == [3.0] * 4
        sent = bytearray(b"..")
        comm.broadcast(b"ab" if comm.rank == 0 else sent)
        assert comm.rank == 0 or sent == b"ab"

    run_ranks(2, body)


def test_bfloat16_from_its_bits():
    def body(comm):
        bits = np.array([0x3F80, 0x4000], "uint16")  # 1 and 2
        comm.all_reduce(memoryview(bits).cast("B"), dtype="bfloat16")
        assert bits.tolist() == [0x4000, 0x4080]  # 2 and 4

    run_ranks(2, body)


def test_premul_sum():
    def body(comm):
        for dtype in ("float16", "float32", "float64"):
            op = comm.premul_sum(0.5 * (comm.rank + 1), dtype)
            assert comm.all_reduce(np.full(3, 4, dtype), op).tolist() == [6.0] * 3
            comm.remove_op(op)

    run_ranks(2, body)


def test_stream_keeps_arrays():
    def body(comm):
        with tutti.Stream() as stream:
            held = np.ones(1000)
            for _ in range(5):
                comm.all_reduce(held, stream=stream)
                comm.all_reduce(np.ones(100000), stream=stream)  # nobody else holds this one
            comm.barrier(stream=stream)
            stream.synchronize()
            assert stream.done() and held[0] == 32

    run_ranks(2, body)


def test_one_thread_drives_several_ranks_in_a_group():
    comms = tutti.Communicator.local(4)
    parts = [np.full(5, comm.rank) for comm in comms]
    with tutti.group():
        for comm, part in zip(comms, parts):
            comm.all_reduce(part)
    assert all(part.tolist() == [6] * 5 for part in parts)
    for comm in comms:
        comm.close()


def test_the_interpreter_runs_during_a_call():
    """A call that waits for its peer must leave the lock to the thread that is the peer."""
    first, second = tutti.Communicator.local(2)
    entered = threading.Event()

    def wait_inside():
        entered.set()
        first.barrier()

    thread = threading.Thread(target=wait_inside)
    thread.start()
    entered.wait()
    second.barrier()
    thread.join()
    first.close()
    second.close()
