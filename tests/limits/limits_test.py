"""Little of what the system gives: descriptors, /dev/shm, cores, memory."""

import argparse
import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import ranks

DESCRIPTORS = 64
DESCRIPTOR_RANKS = 8
MANY_RANKS = 64
MANY_RANKS_SECONDS = 60
COMMUNICATOR_KIB = 24 * 1024
INSIDE = "TUTTI_TEST_SMALL_DEV_SHM"


def perf(options, group, nranks, **start_options):
    """allreduce_perf under `tutti run`: (exit status, report path)."""
    report = group.folder / "report.json"
    group.start(0, [options.bin / "tutti", "run", "-n", nranks, "--", options.bin / "allreduce_perf", "-b", "8", "-e", "1M", "-f", "128",
                    "-n", "2", "-w", "1", "-c", "1", "-J", report],
                ranks.clean_environment(TUTTI_TRANSPORT=options.transport, TUTTI_TIMEOUT="60"), **start_options)
    return group.wait(90)[0], report


def expect_right(group, status, report):
    group.expect(status == 0, f"tutti run ended with status {status}")
    group.expect(ranks.wrong_count(ranks.perf_results(report)) == 0, "elements are wrong")


def descriptors(options):
    """Eight ranks that may open 64 files each: works."""
    with ranks.Ranks() as group:
        limit = (DESCRIPTORS, DESCRIPTORS)
        expect_right(group, *perf(options, group, DESCRIPTOR_RANKS, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, limit)))
    print(f"{DESCRIPTOR_RANKS} ranks with {DESCRIPTORS} descriptors each: right")


def small_dev_shm(options):
    """/dev/shm of 64 KiB, as in a container: does not matter, since nothing lives there."""
    if not os.environ.get(INSIDE):
        isolate = ["unshare", "--mount"] + (["--user", "--map-root-user"] if os.geteuid() else [])
        mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", "/dev/shm"]
        if subprocess.run([*isolate, *mount], capture_output=True).returncode:
            ranks.skip("a small /dev/shm needs root, or the right to make user namespaces")
        inside = [*isolate, "sh", "-c", " ".join(mount) + ' && exec "$@"', "sh", sys.executable, "-B", *sys.argv]
        sys.exit(subprocess.run(inside, env={**os.environ, INSIDE: "1"}).returncode)
    size = os.statvfs("/dev/shm")
    if size.f_blocks * size.f_frsize != 64 * 1024:
        sys.exit("FAILED: /dev/shm was not made small")
    with ranks.Ranks() as group:
        expect_right(group, *perf(options, group, 4))
    print("4 ranks over shm with a /dev/shm of 64 KiB: right")


def many_ranks(options):
    """64 processes on however few cores there are: init and ten 1 MiB AllReduces, in little time and memory."""
    with ranks.Ranks() as group:
        port = ranks.free_port()
        for rank in range(MANY_RANKS):
            group.start(rank, [options.bin / "footprint"],
                        ranks.rank_environment(rank, MANY_RANKS, port, TUTTI_TRANSPORT=options.transport, TUTTI_TIMEOUT=str(MANY_RANKS_SECONDS)))
        group.expect_success(MANY_RANKS_SECONDS)
        above = {rank: int(re.search(r"above (\d+)", group.output(rank)).group(1)) for rank in range(MANY_RANKS)}
        peak = max(above.values())
        print(f"memory of a communicator of {MANY_RANKS} over {options.transport}: "
              f"{sum(above.values()) / MANY_RANKS / 1024:.1f} MiB a rank, at most {peak / 1024:.1f} MiB")
        group.expect(peak < COMMUNICATOR_KIB, f"rank {max(above, key=above.get)} needs {peak} KiB; at most {COMMUNICATOR_KIB} are allowed")


def main():
    tests = {test.__name__: test for test in (descriptors, small_dev_shm, many_ranks)}
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True, type=Path)
    parser.add_argument("--transport", required=True)
    parser.add_argument("test", choices=tests)
    options = parser.parse_args()
    tests[options.test](options)


if __name__ == "__main__":
    main()
