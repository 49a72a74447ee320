"""What leaves a host: two hosts of network namespaces, as in multihost_test.py, and the bytes that their links count.

  bytes   4 ranks on each, started in turns, so that neighbours by number are on different hosts. AllReduce must be
          chosen such that no more than the least leaves a host (a vector, for two hosts), within 5 percent for headers.
  rails   two networks between the hosts, and a third that is up at both ends and leads nowhere. Both are to be used
          alike, the third not at all.

With --rate and --measure (not in the suite) the links are slowed down by tc, and times are printed.
"""

import argparse
import os
import subprocess
import sys

import multihost_test as hosts
import ranks

PORT = "29500"
MAIN = ("10.88.0.1", "10.88.0.2", "/24")


def tx_bytes(device: str) -> int:
    # Not /sys, which shows the namespace that it was mounted in.
    out = subprocess.run(["ip", "-s", "-oneline", "link", "show", device], capture_output=True, text=True, check=True).stdout
    fields = out.split("TX:")[1].replace("\\", " ").split()
    return int(next(field for field in fields if field.isdigit()))


def rx_bytes(device: str) -> int:
    out = subprocess.run(["ip", "-s", "-oneline", "link", "show", device], capture_output=True, text=True, check=True).stdout
    fields = out.split("RX:")[1].replace("\\", " ").split()
    return int(next(field for field in fields if field.isdigit()))


def slow_down(rate, devices):
    for where, device in devices if rate else ():
        hosts.call(*where, "tc", "qdisc", "add", "dev", device, "root", "tbf", "rate", rate, "burst", "256kb", "latency", "100ms")


def run_ranks(perf, inside_b, per_host, words, **environment):
    """The report's rows and what the ranks logged."""
    with ranks.Ranks() as group:
        report = group.folder / "report.json"
        for rank in range(2 * per_host):
            on_b = rank % 2 == 1
            variables = ranks.rank_environment(rank, 2 * per_host, PORT, MAIN[0], local_rank=rank // 2, TUTTI_TIMEOUT="60",
                                               TUTTI_DEBUG="INFO", **environment)
            command = [perf, "-w", "1", "-c", "1", "-J", report, *words]
            group.start(rank, inside_b + command if on_b else command, variables)
        group.expect_success(300)
        rows = ranks.perf_results(report)
        group.expect(ranks.wrong_count(rows) == 0, f"{ranks.wrong_count(rows)} elements are wrong")
        return rows, [group.output(rank, "err") for rank in range(2 * per_host)]


def check_bytes(options, inside_b):
    slow_down(options.rate, [((), "a0"), (inside_b, "b0")])
    mib = 8
    sent, received = [], []
    for iterations in (4, 12):
        before = tx_bytes("a0"), rx_bytes("a0")
        rows, logs = run_ranks(options.perf, inside_b, 4, ["-b", f"{mib}M", "-e", f"{mib}M", "-n", iterations])
        sent.append(tx_bytes("a0") - before[0])
        received.append(rx_bytes("a0") - before[1])
        if options.measure:
            print(f"{iterations} iterations: {rows[0]['out_of_place']['time']} us")
    # The runs differ in eight calls out of place and eight in place.
    calls, least = 16, mib << 20
    out, back = (sent[1] - sent[0]) / calls / least, (received[1] - received[0]) / calls / least
    print(f"{out:.4f} vectors leave a host for each AllReduce, {back:.4f} come; the least is 1")
    if not (0.9 < out < 1.05 and 0.9 < back < 1.05):
        sys.exit("FAILED: more bytes than needed went between the hosts\n" + logs[0])
    for route, reason in (("this host (ranks 2, 4, 6) by shm;", "not tcp: shm is preferred"), ("other hosts (ranks 1, 3, 5, 7) by tcp;", "not shm: ")):
        if not any(route in line and reason in line for line in logs[0].splitlines()):
            sys.exit(f"FAILED: rank 0 did not say '{route}' and '{reason}':\n{logs[0]}")


def add_rail(inside_b, holder, number):
    a, b = f"a{number}", f"b{number}"
    hosts.call("ip", "link", "add", a, "type", "veth", "peer", "name", b, "netns", str(holder.pid))
    for where, device, host in ((), a, 1), (inside_b, b, 2):
        hosts.call(*where, "ip", "address", "add", f"10.88.{number}.{host}/24", "dev", device)
        hosts.call(*where, "ip", "link", "set", device, "up")
    hosts.wait_until_up(a)
    hosts.wait_until_up(b, inside_b)


def add_dead_network(inside_b):
    """An address of one network on each host, on links that lead back into the same host."""
    for where, name, host in ((), "d", 1), (inside_b, "e", 2):
        hosts.call(*where, "ip", "link", "add", name + "0", "type", "veth", "peer", "name", name + "1")
        hosts.call(*where, "ip", "address", "add", f"10.88.99.{host}/24", "dev", name + "0")
        for end in "01":
            hosts.call(*where, "ip", "link", "set", name + end, "up")
        hosts.wait_until_up(name + "0", where)


def check_rails(options, inside_b, holder):
    add_rail(inside_b, holder, 1)
    add_dead_network(inside_b)
    slow_down(options.rate, [((), "a0"), ((), "a1"), (inside_b, "b0"), (inside_b, "b1")])
    size = "64M" if options.measure else "16M"
    if options.measure:
        for names in ("=a0,b0", "=a0,a1,b0,b1"):
            rows, _ = run_ranks(options.perf, inside_b, 1, ["-b", size, "-e", size, "-n", "3"], TUTTI_SOCKET_IFNAME=names)
            print(f"{names}: {rows[0]['out_of_place']['time']} us")
    before = [tx_bytes(device) for device in ("a0", "a1", "d0")]
    rows, logs = run_ranks(options.perf, inside_b, 1, ["-b", size, "-e", size, "-n", "3"])
    used = [tx_bytes(device) - start for device, start in zip(("a0", "a1", "d0"), before)]
    share = used[0] / (used[0] + used[1])
    print(f"of what host a sent, {share:.3f} went by the first network; {used[2]} bytes by the one that leads nowhere")
    if options.measure:
        print(f"all interfaces: {rows[0]['out_of_place']['time']} us")
    if not 0.4 < share < 0.6 or used[2] > 100_000:
        sys.exit("FAILED: the two networks were not used alike\n" + logs[0])
    if "cannot be reached at 10.88.99.2" not in logs[0]:
        sys.exit("FAILED: rank 0 did not warn of the network that leads nowhere\n" + logs[0])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--perf", required=True, help="allreduce_perf")
    parser.add_argument("--what", required=True, choices=("bytes", "rails"))
    parser.add_argument("--rate", help="of each link, as tc has it: 1gbit")
    parser.add_argument("--measure", action="store_true")
    options = parser.parse_args()
    if not os.environ.get(hosts.INSIDE):
        hosts.enter_host_a()
    holder, inside_b = hosts.make_host_b(*MAIN)
    if options.what == "bytes":
        check_bytes(options, inside_b)
    else:
        check_rails(options, inside_b, holder)
    holder.kill()
    holder.wait()


if __name__ == "__main__":
    main()
