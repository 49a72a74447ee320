"""The same small allreduce_perf under each launcher that is installed."""

import argparse
import contextlib
import os
import shutil
import sys
from pathlib import Path

import ranks
import slurm


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
    return [found("torchrun"), "--nnodes=1", "--nproc_per_node=4", *ranks.TORCHRUN_OUTPUT, f"--master_port={ranks.free_port()}", "--no_python"]


def srun():
    return [found("srun"), "--ntasks=4", "--overcommit"]


SMALL = ("-b", "8", "-e", "8", "-n", "1")


def check_contradiction(launcher, programs):
    """A RANK that is left over in the environment would make each rank a world of its own."""
    with ranks.Ranks() as group:
        group.start(0, [*launcher, programs / "allreduce_perf", *SMALL],
                    ranks.clean_environment(RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(ranks.free_port())))
        group.expect(group.wait(60)[0] != 0, "RANK=0 of 1 was believed")
        group.expect("RANK=0 and WORLD_SIZE=1 (as by torchrun) contradict" in group.output(0, "out") + group.output(0, "err"),
                     "the contradiction is not named")


def check_nested(launcher, programs):
    """Each rank of the launcher starts a job of its own: the inner launcher counts."""
    with ranks.Ranks() as group:
        group.start(0, [*launcher, programs / "tutti", "run", "-n", "2", "--", programs / "allreduce_perf", *SMALL],
                    ranks.clean_environment(TUTTI_TIMEOUT="60"))
        group.expect_success(90)
        group.expect(group.output(0).count("#  Rank  1 ") == 4 and "#  Rank  2 " not in group.output(0), "not four jobs of two ranks")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True, type=Path)
    parser.add_argument("--launcher", required=True)
    options = parser.parse_args()
    launchers = {"openmpi": openmpi, "mpich": mpich, "torchrun": torchrun, "srun": srun,
                 "tutti": lambda: [options.bin / "tutti", "run", "-n", "4", "--"]}
    launcher = launchers[options.launcher]()

    if options.launcher in ("openmpi", "mpich"):
        check_contradiction(launcher, options.bin)
        check_nested(launcher, options.bin)
    with slurm.cluster() if options.launcher == "srun" else contextlib.nullcontext({}) as variables, ranks.Ranks() as group:
        report = group.folder / "report.json"
        group.start(0, [*launcher, options.bin / "allreduce_perf", "-b", "8", "-e", "2M", "-f", "64", "-n", "2", "-w", "1", "-c", "1",
                        "-J", report], ranks.clean_environment(TUTTI_TIMEOUT="60", **variables))
        group.expect_success(90)
        rows = ranks.perf_results(report)
        group.expect(ranks.wrong_count(rows) == 0, f"{ranks.wrong_count(rows)} elements are wrong")
        # Four processes that did not find each other would each have written "self".
        group.expect(ranks.transports(rows) & {"shm", "tcp"}, f"the ranks did not meet: transports {ranks.transports(rows)}")
        print(f"{options.launcher}: {len(rows)} sizes right over {', '.join(sorted(ranks.transports(rows)))}")


if __name__ == "__main__":
    sys.exit(main())
