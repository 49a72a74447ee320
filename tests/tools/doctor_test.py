"""`tutti doctor`: what it finds on machines made of files, and on this one."""

import tempfile
import unittest
from pathlib import Path

from process import BIN, ProgramTest, run

TUTTI = BIN / "tutti"


class Doctor(ProgramTest):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = Path(self.folder.name)
        for i in range(4):
            (self.root / f"sys/devices/system/cpu/cpu{i}").mkdir(parents=True)
        self.file("proc/loadavg", "0.50 0.40 0.30 1/200 4711")
        self.link("eth0", "up", 100000)

    def file(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")

    def link(self, name, state, speed):
        (self.root / f"sys/class/net/{name}/device").mkdir(parents=True, exist_ok=True)
        self.file(f"sys/class/net/{name}/operstate", state)
        self.file(f"sys/class/net/{name}/speed", str(speed))
        self.file(f"sys/class/net/{name}/mtu", "9000")

    def findings(self, status):
        return self.expect(run([TUTTI, "doctor", "--root", self.root]), status).out

    def test_a_machine_without_faults(self):
        out = self.findings(0)
        self.assertIn("ok       network links: eth0 (100 Gb/s, MTU 9000)", out)
        self.assertIn("0 errors, 0 warnings", out)

    def test_links(self):
        self.link("eth1", "down", -1)
        self.link("eth2", "up", 100)
        out = self.findings(1)
        self.assertRegex(out, r"warning +network link eth1 is down\n +plug its cable .*TUTTI_SOCKET_IFNAME=\^eth1")
        self.assertRegex(out, r"warning +network link eth2 runs at 100 Mb/s")
        self.assertIn("0 errors, 2 warnings", out)

    def test_rdma(self):
        self.file("sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN")
        self.assertIn("RDMA device mlx5_0 port 1 is 1: DOWN", self.findings(1))

    def test_cores_and_memory(self):
        self.file("proc/loadavg", "9.00 8.00 7.00 9/200 4711")
        self.file("sys/fs/cgroup/cpu.max", "150000 100000")
        self.file("sys/fs/cgroup/memory.max", str(64 << 20))
        out = self.findings(1)
        self.assertIn("9.0 threads want to run on 4 cores", out)
        self.assertIn("note     this container may use 1.5 cores", out)
        self.assertIn("this container may use 64 MiB of memory", out)

    def test_iommu_and_acs(self):
        self.file("sys/class/iommu/ivhd0/name", "")
        self.file("sys/bus/pci/devices/0000:01:00.0/class", "0x030200")
        self.file("sys/bus/pci/devices/0000:00:01.0/class", "0x060400")
        config = bytearray(4096)
        config[0x100:0x104] = (0x0D | 1 << 16).to_bytes(4, "little")  # the capability ACS, the last of its list
        config[0x106] = 4                                             # requests of peers are redirected
        (self.root / "sys/bus/pci/devices/0000:00:01.0/config").write_bytes(config)
        self.file("proc/cmdline", "quiet")
        out = self.findings(1)
        self.assertIn("boot with iommu=pt", out)
        self.assertIn("(ACS): 0000:00:01.0", out)
        self.file("proc/cmdline", "quiet iommu=pt")
        config[0x106] = 0
        (self.root / "sys/bus/pci/devices/0000:00:01.0/config").write_bytes(config)
        self.assertIn("0 errors, 0 warnings", self.findings(0))

    def test_processes(self):
        self.file("proc/mounts", "proc /proc proc rw,nosuid,hidepid=2 0 0")
        self.file("proc/sys/kernel/yama/ptrace_scope", "1")
        self.file("proc/sys/net/core/somaxconn", "128")
        out = self.findings(1)
        self.assertIn("hidepid", out)
        self.assertIn("ptrace_scope 1", out)
        self.assertIn("somaxconn", out)

    def test_this_machine(self):
        outcome = run([TUTTI, "doctor"])
        self.assertIn(outcome.status, (0, 1, 3), outcome)
        self.assertIn("processes can share memory", outcome.out)
        wrong = self.expect(run([TUTTI, "doctor"], TUTTI_TRANSPROT="tcp"), 3)
        self.assertRegex(wrong.out, r"error +there is no variable TUTTI_TRANSPROT")
        none = self.expect(run([TUTTI, "doctor"], TUTTI_SOCKET_IFNAME="=nosuch0"), 3)
        self.assertIn("TUTTI_SOCKET_IFNAME==nosuch0", none.out)


if __name__ == "__main__":
    unittest.main()
