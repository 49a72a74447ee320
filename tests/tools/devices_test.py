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
