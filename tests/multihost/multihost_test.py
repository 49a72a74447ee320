"""Two hosts of two ranks each, made of network namespaces joined by a veth pair; ranks are started by hand on each.

The namespaces have no names and belong to processes of a PID namespace of their own: when its first process ends,
however it ends, the kernel ends the others and removes the namespaces and the link. Nothing can be left behind.
Skipped without root (or the right to make user namespaces).
"""

import argparse
import os
import subprocess
import sys
import time

import ranks

ADDRESSES = {"ipv4": ("10.88.0.1", "10.88.0.2", "/24"), "ipv6": ("fd00:88::1", "fd00:88::2", "/64")}
PORT = "29500"
INSIDE = "TUTTI_TEST_INSIDE_HOST_A"


def call(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"FAILED: {' '.join(command)}: {done.stderr.strip()}")


def enter_host_a():
    """Runs this script again as the first process of host a."""
    isolate = ["unshare", "--net", "--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if os.geteuid() != 0:
        isolate += ["--user", "--map-root-user"]
    if subprocess.run([*isolate, "ip", "link", "set", "lo", "up"], capture_output=True).returncode:
        ranks.skip("network namespaces need root, or the right to make user namespaces")
    sys.exit(subprocess.run([*isolate, sys.executable, "-B", *sys.argv], env={**os.environ, INSIDE: "1"}).returncode)


def wait_until_up(device: str, where=()):
    """Returns when the kernel calls the device operational, which follows its carrier by up to a second."""
    deadline = time.monotonic() + 10
    while "state UP" not in subprocess.run([*where, "ip", "-oneline", "link", "show", device], capture_output=True, text=True).stdout:
        if time.monotonic() > deadline:
            sys.exit(f"FAILED: {device} did not come up")


def make_host_b(link_address, peer_address, prefix):
    """The process that host b belongs to, with the veth pair up at both ends."""
    # It says so once it lives in namespaces of its own, and then waits to be ended.
    holder = subprocess.Popen(["unshare", "--net", "--uts", "sh", "-c", "hostname host-b && echo ready && exec cat"],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    if ranks.read_line(holder.stdout, 10) != "ready\n":
        sys.exit("FAILED: the second host did not start")
    inside_b = ["nsenter", f"--target={holder.pid}", "--net", "--uts"]
    call("hostname", "host-a")
    call("ip", "link", "set", "lo", "up")
    call("ip", "link", "add", "a0", "type", "veth", "peer", "name", "b0", "netns", str(holder.pid))
    # nodad: an IPv6 address can be used at once; there is nobody else to have it.
    nodad = ["nodad"] if ":" in link_address else []
    call("ip", "address", "add", link_address + prefix, "dev", "a0", *nodad)
    call("ip", "link", "set", "a0", "up")
    call(*inside_b, "ip", "link", "set", "lo", "up")
    call(*inside_b, "ip", "address", "add", peer_address + prefix, "dev", "b0", *nodad)
    call(*inside_b, "ip", "link", "set", "b0", "up")
    wait_until_up("a0")
    wait_until_up("b0", inside_b)
    return holder, inside_b


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--perf", required=True, help="allreduce_perf")
    parser.add_argument("--family", required=True, choices=ADDRESSES)
    options = parser.parse_args()
    if not os.environ.get(INSIDE):
        enter_host_a()

    address_a, address_b, prefix = ADDRESSES[options.family]
    holder, inside_b = make_host_b(address_a, address_b, prefix)
    with ranks.Ranks() as group:
        report = group.folder / "report.json"
        for rank in range(4):
            environment = ranks.rank_environment(rank, 4, PORT, address_a, local_rank=rank % 2, TUTTI_TIMEOUT="30")
            command = [options.perf, "-b", "8", "-e", "8M", "-f", "32", "-n", "2", "-w", "1", "-c", "1", "-J", report]
            group.start(rank, command if rank < 2 else inside_b + command, environment)
        group.expect_success(90)
        rows = ranks.perf_results(report)
        group.expect(ranks.wrong_count(rows) == 0, f"{ranks.wrong_count(rows)} elements are wrong")
        used = ranks.transports(rows)
        group.expect({"shm", "tcp"} <= used, f"the report names {sorted(used)}; within a host it should be shm, between them tcp")
        print(f"{options.family}: {len(rows)} sizes right over {', '.join(sorted(used))}")
    holder.kill()
    holder.wait()


if __name__ == "__main__":
    main()
