"""The examples under a launcher: four ranks, the right sum, replicas that are equal."""

import argparse
import contextlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import ranks
import slurm


def found(*names):
    for name in names:
        if shutil.which(name):
            return name
    ranks.skip(f"{' or '.join(names)} is not installed")


def python_with(*modules):
    for candidate in dict.fromkeys([sys.executable, "/usr/bin/python3"]):
        if not subprocess.run([candidate, "-c", "import " + ", ".join(modules)], capture_output=True).returncode:
            return candidate
    return None


def launcher(name, options, python):
    """What comes before the script."""
    if name == "tutti":
        return [options.bin / "tutti", "run", "-n", "4", "--", python]
    if name == "torchrun":
        # The program by itself may belong to another interpreter's torch.
        if subprocess.run([python, "-c", "import torch.distributed.run"], capture_output=True).returncode:
            ranks.skip("torch.distributed.run is not installed")
        return [python, "-m", "torch.distributed.run", "--nnodes=1", "--nproc_per_node=4", *ranks.TORCHRUN_OUTPUT, f"--master_port={ranks.free_port()}"]
    if name == "openmpi":
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        return [found("mpirun.openmpi"), "-np", "4", "--oversubscribe", *root, python]
    if name == "mpich":
        return [found("mpiexec.mpich", "mpirun.mpich"), "-n", "4", python]
    return [found("srun"), "--ntasks=4", "--overcommit", python]


def main():
    parser = argparse.ArgumentParser()
    for option in ("--library", "--bin", "--root"):
        parser.add_argument(option, required=True, type=Path)
    parser.add_argument("--launcher", required=True)
    options = parser.parse_args()
    with slurm.cluster() if options.launcher == "srun" else contextlib.nullcontext({}) as variables:
        check(options, variables)


def check(options, variables):
    environment = ranks.clean_environment(TUTTI_TIMEOUT="60", LD_LIBRARY_PATH=str(options.library), PYTHONPATH=str(options.root / "bindings/python"),
                                          OMP_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1", MASTER_PORT=str(ranks.free_port()), **variables)

    python = python_with("torch", "numpy")
    with ranks.Ranks() as group:
        group.start(0, [*launcher(options.launcher, options, python or sys.executable), options.root / "examples/all_reduce.py"], environment)
        group.expect_success(90)
        lines = sorted(re.findall(r"^(?:\[default\d\]:)?(rank .*)$", group.output(0), re.MULTILINE))
        group.expect(lines == [f"rank {rank} of 4: the sum is 10" for rank in range(4)], f"the ranks printed {lines}")
    if python is None:
        print("all_reduce.py ran; ddp_mnist.py needs torch, which is not installed")
        return
    with ranks.Ranks() as group:
        group.start(0, [*launcher(options.launcher, options, python), options.root / "examples/ddp_mnist.py", "--steps", "20", "--every", "10"],
                    {**environment, "MASTER_PORT": str(ranks.free_port())})
        group.expect_success(200)
        group.expect("replicas are bitwise equal after 20 steps" in group.output(0), "the replicas are not said to be equal")
        print(*re.findall(r"tutti: 4 ranks.*", group.output(0)))


if __name__ == "__main__":
    main()
