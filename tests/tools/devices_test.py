"""allreduce_perf and its family on simulated GPUs: p2p, nodes joined by tcp, host ranks among them; and without a GPU."""

import json
import tempfile
import unittest
from pathlib import Path

from process import BIN, ProgramTest, run


def perf(nranks, *options, program="allreduce_perf", **environment):
    return run([BIN / "tutti", "run", "-n", nranks, "--", BIN / program, "-b", 8, "-e", "64K", "-f", 32, "-n", 1, *options],
               TUTTI_TIMEOUT="30", **environment)


class Devices(ProgramTest):
    def check(self, nranks, *options, **environment):
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "report.json"
            self.expect(perf(nranks, "-J", report, *options, **environment), 0)
            return json.loads(report.read_text())

    def test_ranks_of_a_node_use_p2p(self):
        for algorithm in ("ring", "tree", "all_pairs"):
            report = self.check(4, TUTTI_DEVICE="sim", TUTTI_ALGO=f"allreduce:{algorithm}")
            text = json.dumps(report)
            self.assertIn("p2p", text)
            self.assertNotIn("tcp", text)
            for row in report["results"]:
                self.assertEqual(int(row["out_of_place"]["nwrong"]), 0, row)
                self.assertEqual(int(row["in_place"]["nwrong"]), 0, row)

    def test_nodes_are_joined_by_tcp_through_the_proxy(self):
        for algorithm in ("ring", "tree", "all_pairs"):
            text = json.dumps(self.check(4, TUTTI_DEVICE="sim", TUTTI_SIM_TOPO="2xnvlink2", TUTTI_ALGO=f"allreduce:{algorithm}"))
            self.assertIn("p2p", text)
            self.assertIn("tcp", text)
            self.assertNotIn("shm", text)

    def test_the_level_bounds_direct_paths(self):
        for machine, level, expected in (("pcie2", "SYS", "p2p"), ("pcie2", "phb", "p2p"), ("pcie2", "PXB", "shm"),
                                         ("nvlink2", "NVL", "p2p"), ("nvlink2", "LOC", "shm")):
            with self.subTest(machine=machine, level=level):
                report = self.check(2, TUTTI_DEVICE="sim", TUTTI_SIM_TOPO=machine, TUTTI_P2P_LEVEL=level)
                self.assertEqual(report["results"][0]["transport"], [expected])

    def test_a_topology_file_describes_the_node(self):
        cube_mesh = Path(__file__).parents[1] / "topo/data/v100_cube_mesh.xml"
        # Half of the pairs have no NVLink of their own.
        for level, expected in (("SYS", {"p2p"}), ("NVL", {"p2p", "shm"})):
            with self.subTest(level=level):
                report = self.check(8, TUTTI_DEVICE="sim", TUTTI_SIM_TOPO=str(cube_mesh), TUTTI_P2P_LEVEL=level, TUTTI_ALGO="all_pairs")
                self.assertEqual(set(report["results"][0]["transport"]), expected)
        two = self.check(4, TUTTI_DEVICE="sim", TUTTI_SIM_TOPO=f"2x{cube_mesh}")
        self.assertEqual(two["results"][0]["transport"], ["p2p"])  # four ranks have the first four GPUs
        outcome = run([BIN / "allreduce_perf"], TUTTI_DEVICE="sim", TUTTI_SIM_TOPO="./no-such.xml")
        self.assertEqual(outcome.status, 1, outcome)
        self.assertIn("no-such.xml", outcome.err)

    def rings_told(self, nranks, **environment):
        """What the first rank says of the orders, after a run along them without a wrong element."""
        outcome = self.expect(perf(nranks, "-w", 1, "-c", 1, TUTTI_DEVICE="sim", TUTTI_DEBUG="INFO", TUTTI_ALGO="allreduce:ring",
                                   **environment), 0)
        lines = [line for line in (outcome.out + outcome.err).splitlines() if "GPUs of this host:" in line]
        return [line.split("GPUs of this host: ")[1] for line in lines]

    def test_rings_follow_the_links(self):
        cube_mesh = Path(__file__).parents[1] / "topo/data/v100_cube_mesh.xml"
        told, = self.rings_told(8, TUTTI_SIM_TOPO=str(cube_mesh), TUTTI_LANES="6")
        self.assertIn("6 rings by NVL, 120 GB/s in all; the first goes 0 ", told)
        ring = [int(gpu) for gpu in told.rsplit("goes ", 1)[1].split()]
        self.assertEqual(sorted(ring), list(range(8)))
        linked = {0: {1, 2, 3, 4}, 1: {0, 2, 3, 5}, 2: {0, 1, 3, 6}, 3: {0, 1, 2, 7}}  # within a half and to the other
        for a, b in zip(ring, ring[1:] + ring[:1]):
            near = linked[min(a, b)] if min(a, b) < 4 else {g + 4 for g in linked[min(a, b) - 4] if g < 4}
            self.assertIn(max(a, b), near, ring)
        # Two nodes alike: each has its order. (Node 1 has GPUs 8 to 15.)
        self.assertEqual(len(self.rings_told(10, TUTTI_SIM_TOPO=f"2x{cube_mesh}")), 2)
        # Of four GPUs, only what joins them counts.
        told, = self.rings_told(4, TUTTI_SIM_TOPO=str(cube_mesh), TUTTI_LANES="3")
        self.assertNotIn("6 rings", told)
        # The user's word on what the machine is like.
        self.assertEqual(self.rings_told(4, TUTTI_SIM_TOPO="nvlink4"), [])
        told, = self.rings_told(3, TUTTI_SIM_TOPO="nvlink8", TUTTI_TOPO_FILE=str(cube_mesh.with_name("laptop.xml")))
        self.assertRegex(told, "by number: rank . has no GPU, or none that its machine has")
        told, = self.rings_told(8, TUTTI_SIM_TOPO="nvlink8", TUTTI_TOPO_FILE=str(cube_mesh))
        self.assertIn("6 rings", told)

    def test_the_level_bounds_network_cards(self):
        node = Path(__file__).parents[1] / "topo/data/nvswitch_node.xml"
        described = json.loads(self.expect(run([BIN / "tutti", "topo", "--file", node, "--format", "json"]), 0).out)
        machine = described.get("machine", described)
        with tempfile.TemporaryDirectory() as folder:
            def node_with_loopback(place):
                """The node, with the card at that place called as this machine's loopback interface."""
                changed = json.loads(json.dumps(machine))
                changed["nics"][place].update(name="lo", interface="")
                file = Path(folder) / f"node{place}.json"
                file.write_text(json.dumps(changed))
                return file

            def outcome(place, level):
                return run([BIN / "allreduce_perf", "-b", 8, "-e", 8], TUTTI_DEVICE="sim:0", TUTTI_TRANSPORT="tcp", TUTTI_SOCKET_IFNAME="=lo",
                           TUTTI_TOPO_FILE=str(node_with_loopback(place)), TUTTI_NET_LEVEL=level)

            last = len(machine["nics"]) - 1
            self.expect(outcome(0, "PXB"), 0)
            self.expect(outcome(last, "SYS"), 0)
            refused = self.expect(outcome(last, "PXB"), 1)
            self.assertIn("TUTTI_SOCKET_IFNAME==lo", refused.err)
            self.assertIn("TUTTI_NET_LEVEL=PXB", refused.err)
            far = Path(folder) / "far.json"
            machine["nics"] = machine["nics"][last:]
            far.write_text(json.dumps(machine))
            refused = self.expect(run([BIN / "allreduce_perf"], TUTTI_DEVICE="sim:0", TUTTI_TOPO_FILE=str(far), TUTTI_NET_LEVEL="PXB"), 1)
            self.assertIn("leaves GPU 0 no network card", refused.err)

    def test_the_topology_file_is_read_or_refused(self):
        data = Path(__file__).parents[1] / "topo/data"
        with tempfile.TemporaryDirectory() as folder:
            dump = Path(folder) / "dump.json"
            self.expect(perf(2, TUTTI_TOPO_FILE=str(data / "two_rails.json"), TUTTI_TOPO_DUMP_FILE=str(dump)), 0)
            told, described = (json.loads(file.read_text())["nics"] for file in (dump, data / "two_rails.json"))
            self.assertEqual([nic["addresses"] for nic in told], [nic["addresses"] for nic in described])
        for file, words in (("no-such.xml", "no-such.xml"), (str(data), "is a folder"), (str(data / "rings.xml"), "holds the order of channels")):
            outcome = self.expect(run([BIN / "allreduce_perf"], TUTTI_TOPO_FILE=file), 1)
            self.assertIn("TUTTI_TOPO_FILE", outcome.err)
            self.assertIn(words, outcome.err)

    def test_host_ranks_and_devices_in_one_communicator(self):
        script = 'if [ "$RANK" -ge 2 ]; then export TUTTI_DEVICE=sim; fi; exec "$0" -b 8 -e 64K -f 32 -n 1'
        self.expect(run([BIN / "tutti", "run", "-n", 4, "--", "/bin/sh", "-c", script, BIN / "allreduce_perf"]), 0)

    def test_other_collectives(self):
        for program in ("all_gather_perf", "alltoall_perf", "broadcast_perf", "reduce_scatter_perf", "sendrecv_perf"):
            self.expect(perf(3, program=program, TUTTI_DEVICE="sim"), 0)

    def test_no_gpu_is_one_line(self):
        outcome = self.expect(run([BIN / "allreduce_perf", "-g", 1]), 1)
        self.assertEqual(outcome.err.count("\n"), 1, outcome)
        self.assertIn("there is no usable GPU", outcome.err)

    def test_wrong_machines_and_devices_are_refused(self):
        outcome = run([BIN / "allreduce_perf"], TUTTI_DEVICE="sim", TUTTI_SIM_TOPO="nvlink9999")
        self.assertEqual(outcome.status, 1, outcome)
        self.assertIn("names no simulated machine", outcome.err)
        outcome = run([BIN / "allreduce_perf"], TUTTI_DEVICE="sim:9")
        self.assertEqual(outcome.status, 1, outcome)
        self.assertIn("devices 0 to 7", outcome.err)


if __name__ == "__main__":
    unittest.main()
