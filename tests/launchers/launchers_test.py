"""The same small allreduce_perf under each launcher that is installed."""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

import ranks


def found(*names):
    """The path of the first of these programs, or skips."""
    for name in names:
        if shutil.which(name):
            return name
    ranks.skip(f"{' or '.join(names)} is not installed")


def openmpi():
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return [found("mpirun.openmpi"), "-np", "4", "--oversubscribe", *root]


def mpich():
    return [found("mpiexec.mpich", "mpirun.mpich"), "-n", "4"]


def torchrun():
    return [found("torchrun"), "--nnodes=1", "--nproc_per_node=4", f"--master_port={ranks.free_port()}", "--no-python"]


def srun():
    launcher = found("srun")
    if subprocess.run([found("sinfo"), "--noheader"], capture_output=True, timeout=30).returncode:
        ranks.skip("srun is installed, but no Slurm controller answers")
    return [launcher, "--ntasks=4", "--overcommit"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True, type=Path)
    parser.add_argument("--launcher", required=True)
    options = parser.parse_args()
    launchers = {"openmpi": openmpi, "mpich": mpich, "torchrun": torchrun, "srun": srun,
                 "tutti": lambda: [options.bin / "tutti", "run", "-n", "4", "--"]}
    launcher = launchers[options.launcher]()

    with ranks.Ranks() as group:
        report = group.folder / "report.json"
        group.start(0, [*launcher, options.bin / "allreduce_perf", "-b", "8", "-e", "2M", "-f", "64", "-n", "2", "-w", "1", "-c", "1",
                        "-J", report], ranks.clean_environment(TUTTI_TIMEOUT="60"))
        group.expect_success(90)
        rows = ranks.perf_results(report)
        group.expect(ranks.wrong_count(rows) == 0, f"{ranks.wrong_count(rows)} elements are wrong")
        # Four processes that did not find each other would each have written "self".
        group.expect(ranks.transports(rows) & {"shm", "tcp"}, f"the ranks did not meet: transports {ranks.transports(rows)}")
        print(f"{options.launcher}: {len(rows)} sizes right over {', '.join(sorted(ranks.transports(rows)))}")


if __name__ == "__main__":
    sys.exit(main())
