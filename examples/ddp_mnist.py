"""Data-parallel training of a small convolutional network on made-up digits, on the backend tutti or gloo.

    torchrun --nproc_per_node 4 examples/ddp_mnist.py
    mpirun -np 4 python3 examples/ddp_mnist.py           (Open MPI, MPICH; or srun -n 4)
    torchrun --nproc_per_node 4 examples/ddp_mnist.py --compare      trains with both, alternating, and compares times

Nothing is downloaded: each digit is a fixed random image plus noise. Prints loss and throughput, and checks that all
replicas are bitwise equal at the end.
"""

import argparse
import os
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import tutti.torch  # noqa: F401  makes the backend "tutti" known

# What torchrun sets, by the names that other launchers use.
LAUNCHERS = (("RANK", "WORLD_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE"),
             ("SLURM_PROCID", "SLURM_NTASKS"))


def rank_and_size():
    for rank, size in LAUNCHERS:
        if rank in os.environ and size in os.environ:
            return int(os.environ[rank]), int(os.environ[size])
    raise SystemExit("no launcher's RANK and WORLD_SIZE in the environment; try torchrun --nproc_per_node 4 " + __file__)


def digits(count, generator):
    """Images and labels. The ten shapes are the same for all ranks, the noise is each rank's own."""
    shapes = torch.randn(10, 1, 28, 28, generator=torch.Generator().manual_seed(1))
    labels = torch.randint(10, (count,), generator=generator)
    return shapes[labels] + torch.randn(count, 1, 28, 28, generator=generator), labels


def network(width):
    return nn.Sequential(nn.Conv2d(1, 16, 5, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 12 * 12, width), nn.ReLU(),
                         nn.Linear(width, 10))


def train(options, rank, size, group):
    """Seconds of each step, the last loss, and whether all replicas are equal."""
    torch.manual_seed(rank)  # DDP gives all ranks the weights of the first
    model = DistributedDataParallel(network(options.width), process_group=group, bucket_cap_mb=25)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    generator = torch.Generator().manual_seed(100 + rank)
    seconds = []
    for step in range(options.steps):
        images, labels = digits(options.batch, generator)
        began = time.perf_counter()
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        seconds.append(time.perf_counter() - began)
        if rank == 0 and (step + 1) % options.every == 0:
            print(f"step {step + 1:4d}  loss {loss.item():.4f}  {size * options.batch / statistics.median(seconds):8.0f} images/s", flush=True)
    mine = torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()])
    theirs = [torch.empty_like(mine) for _ in range(size)]
    dist.all_gather(theirs, mine, group=group)
    return seconds, loss.item(), all(torch.equal(mine, other) for other in theirs), mine.numel()


def all_reduce_seconds(group, floats, rounds):
    bucket = torch.ones(floats)
    seconds = []
    for _ in range(rounds):
        dist.barrier(group=group)
        began = time.perf_counter()
        dist.all_reduce(bucket, group=group)
        seconds.append(time.perf_counter() - began)
        bucket.fill_(1)
    return seconds


def compare(options, rank, size):
    """The same training by both backends in turn, and AllReduces of 25 MiB: medians over the rounds."""
    groups = {name: dist.new_group(list(range(size)), backend=name) for name in ("tutti", "gloo")}
    steps, reduces, equal = {name: [] for name in groups}, {name: [] for name in groups}, True
    for _ in range(options.rounds):
        for name, group in groups.items():
            seconds, _, same, _ = train(options, rank, size, group)
            equal = equal and same
            steps[name] += seconds[1:]
            reduces[name] += all_reduce_seconds(group, 25 * 2**18, 5)[1:]
    if rank == 0:
        for what, rows in (("step", steps), ("all_reduce of 25 MiB", reduces)):
            medians = {name: 1000 * statistics.median(row) for name, row in rows.items()}
            print(f"{what}: tutti {medians['tutti']:.2f} ms, gloo {medians['gloo']:.2f} ms, ratio {medians['gloo'] / medians['tutti']:.2f}")
    return equal


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="tutti", choices=["tutti", "gloo"])
    parser.add_argument("--compare", action="store_true", help="train with both and compare")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=32, help="images for each rank and step")
    parser.add_argument("--width", type=int, default=256, help="of the hidden layer; 3000 makes 27 MiB of gradients")
    parser.add_argument("--every", type=int, default=20, help="steps between lines")
    parser.add_argument("--rounds", type=int, default=3, help="of --compare")
    options = parser.parse_args()

    rank, size = rank_and_size()
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(size))
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29500")
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // size))
    dist.init_process_group(options.backend)
    if options.compare:
        equal = compare(options, rank, size)
    else:
        seconds, loss, equal, floats = train(options, rank, size, None)
        if rank == 0:
            print(f"{options.backend}: {size} ranks, {floats} parameters, loss {loss:.4f}, {1000 * statistics.median(seconds):.2f} ms/step, "
                  f"{size * options.batch / statistics.median(seconds):.0f} images/s")
    if rank == 0:
        print(f"replicas are {'bitwise equal' if equal else 'DIFFERENT'} after {options.steps} steps")
    dist.destroy_process_group()
    raise SystemExit(0 if equal else 1)


if __name__ == "__main__":
    main()
