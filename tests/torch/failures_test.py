"""What goes wrong ends in an error that names what is missing, within the timeout."""


def test_rank_that_does_not_come(run_ranks):
    for status, _, err in run_ranks(3, "init(seconds=3)", only=[0, 2]):
        assert status != 0
        # torch's own store-based barrier, or Tutti's meeting, whichever comes first in this torch.
        assert "1" in err and ("rank" in err.lower())


def test_rank_that_dies(run_ranks):
    results = run_ranks(3, """
init()
dist.all_reduce(torch.ones(1))
if rank == 1:
    os._exit(3)
dist.all_reduce(torch.ones(1))
""")
    assert results[1][0] == 3
    for rank in (0, 2):
        assert results[rank][0] == 1 and "rank 1" in results[rank][2], results[rank]


def test_message_that_does_not_come(run_ranks):
    results = run_ranks(2, """
init(seconds=2)
if rank == 0:
    try:
        dist.recv(torch.ones(1), 1, tag=9)
    except RuntimeError as error:
        assert "rank 1" in str(error) and "tag 9" in str(error), error
        print("named", flush=True)
    dist.isend(torch.ones(1), 1, tag=1).wait(datetime.timedelta(seconds=60))
else:
    dist.irecv(torch.ones(1), 0, tag=1).wait(datetime.timedelta(seconds=60))
os._exit(0)
""")
    assert "named" in results[0][1], results[0]


def test_sizes_that_differ(run_ranks):
    for status, _, err in run_ranks(2, """
init()
dist.all_reduce(torch.ones(1 + rank))
dist.barrier()
"""):
        assert status == 1 and "rank" in err


def test_monitored_barrier_names_the_missing(run_ranks):
    results = run_ranks(3, """
init()
group = dist.distributed_c10d._get_default_group()
group.monitored_barrier(datetime.timedelta(seconds=20), True)
if rank == 0:
    try:
        group.monitored_barrier(datetime.timedelta(seconds=1), True)
    except RuntimeError as error:
        print(error, flush=True)
os._exit(0)
""")
    assert "Ranks 1, 2 failed to pass monitoredBarrier" in results[0][1], results


def test_abort_ends_what_waits(run_ranks):
    results = run_ranks(2, """
init()
group = dist.distributed_c10d._get_default_group()
if rank == 0:
    work = group.allreduce([torch.ones(1)])
    group.abort()
    try:
        work.wait()
    except RuntimeError as error:
        print("ended", flush=True)
else:
    try:
        dist.barrier(); dist.barrier()
    except RuntimeError as error:
        print("ended", flush=True)
os._exit(0)
""")
    assert all("ended" in out for _, out, _ in results), results
