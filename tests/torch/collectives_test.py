"""c10d's collectives on CPU tensors, in the types and operations that PyTorch's own suite leaves out."""


def test_types_and_operations(pass_on_ranks):
    pass_on_ranks(3, """
init()
R = dist.ReduceOp
def reduced(values, op, dtype):
    t = torch.tensor(values[rank], dtype=dtype)
    dist.all_reduce(t, op)
    return t.tolist()
for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64):
    assert reduced([[1, 2], [3, 4], [5, 1]], R.SUM, dtype) == [9, 7], dtype
    assert reduced([[1, 2], [3, 4], [5, 1]], R.PRODUCT, dtype) == [15, 8], dtype
    assert reduced([[1, 2], [3, 4], [5, 1]], R.MAX, dtype) == [5, 4], dtype
    assert reduced([[1, 2], [3, 4], [5, 1]], R.MIN, dtype) == [1, 1], dtype
    if not dtype.is_floating_point:
        assert reduced([[1, 7], [3, 6], [7, 2]], R.BAND, dtype) == [1, 2], dtype
        assert reduced([[1, 2], [2, 4], [4, 1]], R.BOR, dtype) == [7, 7], dtype
        assert reduced([[1, 2], [2, 3], [4, 1]], R.BXOR, dtype) == [7, 0], dtype
truth = [[True, False, True], [True, False, False], [True, False, False]]
for op, wanted in ((R.SUM, [1, 0, 1]), (R.MAX, [1, 0, 1]), (R.PRODUCT, [1, 0, 0]), (R.MIN, [1, 0, 0]), (R.BXOR, [1, 0, 1])):
    assert reduced(truth, op, torch.bool) == [bool(w) for w in wanted], op
assert reduced([[1.0], [2.0], [6.0]], R.AVG, torch.float32) == [3.0]
assert reduced([[1], [2], [6]], R.AVG, torch.int16) == [3]
for dtype in (torch.complex64, torch.complex128):
    t = torch.tensor([1 + 2j, rank + 0j], dtype=dtype)
    tutti_group = dist.distributed_c10d._get_default_group()
    tutti_group.allreduce([t], dist.AllreduceOptions()).wait()
    assert t.tolist() == [3 + 6j, 3 + 0j]
try:
    dist.all_reduce(torch.ones(1), R.BAND)
    raise SystemExit("BAND of floats was accepted")
except (ValueError, RuntimeError) as error:
    assert "BAND" in str(error)
dist.barrier()  # what was refused was refused by all, and harmed nobody
dist.destroy_process_group()
""")


def test_premul_sum(pass_on_ranks):
    pass_on_ranks(2, """
init()
op = dist._make_nccl_premul_sum(0.5)
t = torch.full((3,), 4.0 * (rank + 1))
if hasattr(op, "__setstate__"):
    dist.all_reduce(t, op)
    assert t.tolist() == [6.0] * 3
    dist.reduce_scatter_tensor(out := torch.empty(2), torch.ones(4), dist._make_nccl_premul_sum(3.0))
    assert out.tolist() == [6.0, 6.0]
else:
    try:
        dist.all_reduce(t, op)
        raise SystemExit("accepted")
    except NotImplementedError:
        pass
dist.barrier()
dist.destroy_process_group()
""")


def test_layouts_and_uneven_sizes(pass_on_ranks):
    pass_on_ranks(3, """
init()
strided = torch.arange(12.0).reshape(3, 4).t()
dist.all_reduce(strided)
assert strided.tolist() == (3 * torch.arange(12.0).reshape(3, 4).t()).tolist()
outs = [torch.empty(q + 1) for q in range(3)]
dist.distributed_c10d._get_default_group().allgather([outs], [torch.full((rank + 1,), float(rank))]).wait()
assert [o.tolist() for o in outs] == [[0.0], [1.0, 1.0], [2.0] * 3]
sends = [torch.full((rank + q,), 10 * rank + q, dtype=torch.bool if False else torch.int64) for q in range(3)]
receives = [torch.empty(q + rank, dtype=torch.int64) for q in range(3)]
dist.all_to_all(receives, sends)
assert all(r.tolist() == [10 * q + rank] * (q + rank) for q, r in enumerate(receives))
sparse = torch.sparse_coo_tensor([[rank, 2]], [1.0, 10.0], (4,))
dist.all_reduce(sparse)
assert sparse.to_dense().tolist() == [1.0, 1.0, 31.0, 0.0]
odd = torch.tensor([rank == 1, True])
dist.broadcast(odd, 1)
assert odd.tolist() == [True, True]
dist.destroy_process_group()
""")


def test_messages_by_tag_and_from_any(pass_on_ranks):
    pass_on_ranks(3, """
init()
if rank == 0:
    first, second = torch.empty(2), torch.empty(100000)
    late = dist.irecv(second, 1, tag=7)
    early = dist.irecv(first, 1, tag=3)
    early.wait(); late.wait()
    assert first[0] == 3 and second[-1] == 7
    sources = {dist.recv(torch.empty(1), tag=5) for _ in range(2)}
    assert sources == {1, 2}
else:
    if rank == 1:
        waiting = [dist.isend(torch.full((2,), 3.0), 0, tag=3), dist.isend(torch.full((100000,), 7.0), 0, tag=7)]
        [work.wait() for work in waiting]
    dist.send(torch.ones(1), 0, tag=5)
# Both directions at once, the receives first.
peer = (rank + 1) % size, (rank - 1) % size
got = torch.empty(300000)
works = dist.batch_isend_irecv([dist.P2POp(dist.irecv, got, peer[1]), dist.P2POp(dist.isend, torch.full((300000,), float(rank)), peer[0])])
[work.wait() for work in works]
assert got[0] == peer[1]
dist.barrier()
dist.destroy_process_group()
""")


def test_groups_in_and_out_of_order(pass_on_ranks):
    pass_on_ranks(4, """
init()
even, odd = dist.new_group([0, 2]), dist.new_group([1, 3])
mine = odd if rank % 2 else even
works = []
for step in range(20):
    a, b = torch.full((10,), float(step)), torch.ones(1000)
    works += [dist.all_reduce(a, group=mine, async_op=True), dist.all_reduce(b, async_op=True)]
for work in reversed(works):
    work.wait()
assert a[0] == 38 and b[0] == 4
group = dist.distributed_c10d._get_default_group()
parts = group.split_group([0, 1] if rank < 2 else [2, 3])
t = torch.ones(1)
parts.allreduce([t]).wait()
assert t.item() == 2 and parts.rank() == rank % 2
parts.shutdown()
future = dist.all_reduce(t := torch.ones(3), async_op=True).get_future()
assert future.then(lambda f: f.value()[0].sum().item()).wait() == 12
dist.destroy_process_group()
""")


def test_data_parallel_replicas_are_bitwise_equal(pass_on_ranks):
    pass_on_ranks(2, """
init()
torch.manual_seed(rank)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(50, 200), torch.nn.ReLU(), torch.nn.Linear(200, 10)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(20):
    optimizer.zero_grad()
    model(torch.randn(16, 50)).square().mean().backward()
    optimizer.step()
flat = torch.cat([p.detach().reshape(-1) for p in model.parameters()])
theirs = [torch.empty_like(flat) for _ in range(size)]
dist.all_gather(theirs, flat)
assert all(torch.equal(flat, other) for other in theirs)
dist.destroy_process_group()
""")


def test_groups_of_a_group_that_is_bound_to_a_device(pass_on_ranks):
    """Newer torches then make groups by splitting, in which ranks outside take part."""
    pass_on_ranks(3, """
import inspect
bound = "device_id" in inspect.signature(dist.init_process_group).parameters
init(**({"device_id": torch.device("cpu:0")} if bound else {}))
pair = dist.new_group([0, 2])
t = torch.ones(1)
if rank != 1:
    dist.all_reduce(t, group=pair)
    assert t.item() == 2
dist.all_reduce(t)
assert t.item() == 5
if hasattr(dist, "split_group") and bound:
    part = dist.split_group(split_ranks=[[1, 2], [0]])
    t = torch.ones(1)
    dist.all_reduce(t, group=part)
    assert t.item() == (1 if rank == 0 else 2)
dist.barrier()
dist.destroy_process_group()
""")


def test_the_profiler_shows_operations_by_name(pass_on_ranks):
    pass_on_ranks(2, """
init()
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
    dist.all_reduce(torch.ones(3))
    for _ in range(2):
        dist.broadcast(torch.ones(3), 0)
    if rank == 0: dist.send(torch.ones(2), 1)
    else: dist.recv(torch.empty(2), 0)
counts = {event.key: event.count for event in profile.key_averages() if event.key.startswith("tutti:")}
assert counts == {"tutti:all_reduce": 1, "tutti:broadcast": 2, "tutti:send" if rank == 0 else "tutti:recv": 1}, counts
dist.destroy_process_group()
""")
