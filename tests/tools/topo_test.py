"""`tutti topo`: what it shows of the project's own topology files, in every form, and what it says of bad ones."""

import json
import os
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from process import BIN, ProgramTest, run

TUTTI = BIN / "tutti"
DATA = Path(os.environ["SOURCE_UNDER_TEST"]) / "tests/topo/data"
MACHINES = ("v100_cube_mesh.xml", "nvswitch_node.xml", "pcie_node.xml", "laptop.xml", "two_rails.json")
SVG = "{http://www.w3.org/2000/svg}"


class Topo(ProgramTest):
    def topo(self, name, *words, status=0):
        return self.expect(run([TUTTI, "topo", "--file", DATA / name, *words]), status)

    def test_this_machine(self):
        self.assertIn("NUMA", self.expect(run([TUTTI, "topo"]), 0).out)

    def test_text(self):
        out = self.topo("v100_cube_mesh.xml").out
        self.assertIn("2 NUMA nodes, 8 GPUs, 4 network ports", out)
        self.assertRegex(out, r"(?m)^GPU0   LOC +NVL 20 +NVL 20 +NVL 40 +NVL 40 +NVB 20 ")
        self.assertIn("GPU 5 by mlx5_2 (PIX, 12 GB/s)", out)
        self.assertIn("together 120 GB/s within the node", out)
        self.assertEqual(out.count("in and out by mlx5_"), 6)
        self.assertIn("no GPUs: ranks on the host", self.topo("two_rails.json").out)

    def test_several_nodes(self):
        out = self.topo("nvswitch_node.xml", "--nodes", 4).out
        self.assertIn("order of 32 ranks over 4 nodes", out)
        self.assertRegex(out, r"(?m)^  even lanes: 2<1 0<2 2<3$")
        lane = next(line for line in out.splitlines() if line.count(">") == 3)
        nodes = [[int(rank) for rank in part.split()] for part in lane.split("lane")[1].split(">")]
        nodes[0] = nodes[0][1:]  # the lane's number
        for i, ranks in enumerate(nodes):
            self.assertEqual(sorted(ranks), list(range(8 * i, 8 * i + 8)))

    def test_graph_file(self):
        self.assertIn("lane 1  net1 1 0 net1", self.topo("rings.xml").out)
        svg = ElementTree.fromstring(self.topo("rings.xml", "--format", "svg").out)
        self.assertEqual(len(list(svg.iter(SVG + "circle"))), 4)
        self.assertIn("not as dot", self.topo("rings.xml", "--format", "dot", status=2).err)

    def test_json_and_xml_read_back(self):
        for name in MACHINES:
            text = self.topo(name).out.split("\n", 1)[1]
            for form in ("json", "xml"):
                with self.subTest(name=name, form=form), tempfile.TemporaryDirectory() as folder:
                    again = Path(folder) / ("again." + form)
                    again.write_text(self.topo(name, "--format", form).out)
                    if form == "json":
                        json.loads(again.read_text())
                    shown = self.expect(run([TUTTI, "topo", "--file", again]), 0).out.split("\n", 1)[1]
                    if name not in ("two_rails.json", "laptop.xml") or form == "json":  # XML has no MTU, no models
                        self.assertEqual(shown, text)

    def test_pictures(self):
        for name in MACHINES:
            with self.subTest(name=name):
                self.assertTrue(self.topo(name, "--format", "dot").out.startswith("graph machine {"))
                svg = ElementTree.fromstring(self.topo(name, "--format", "svg").out)
                width, height = float(svg.get("width")), float(svg.get("height"))
                boxes = [tuple(float(box.get(key)) for key in ("x", "y", "width", "height"))
                         for box in svg.iter(SVG + "rect") if box.get("x")]
                for x, y, w, h in boxes:
                    self.assertTrue(0 <= x and x + w <= width and 0 <= y and y + h <= height, (x, y, w, h))
                # Of two boxes, one holds the other, or they are apart.
                for i, (ax, ay, aw, ah) in enumerate(boxes):
                    for bx, by, bw, bh in boxes[:i]:
                        apart = ax + aw <= bx + .2 or bx + bw <= ax + .2 or ay + ah <= by + .2 or by + bh <= ay + .2
                        inside = bx <= ax and by <= ay and ax + aw <= bx + bw and ay + ah <= by + bh
                        self.assertTrue(apart or inside, (name, boxes[i], (bx, by, bw, bh)))
                for text in svg.iter(SVG + "text"):
                    self.assertTrue(0 <= float(text.get("x")) <= width and 0 <= float(text.get("y")) <= height)

    def test_bad_files(self):
        with tempfile.TemporaryDirectory() as folder:
            bad = Path(folder) / "bad.xml"
            bad.write_text('<system version="1">\n <cpu numaid="x"/>\n</system>')
            self.assertIn(f"{bad}:2:", self.expect(run([TUTTI, "topo", "--file", bad]), 1).err)
        self.assertIn("ENOENT", self.expect(run([TUTTI, "topo", "--file", "/nonexistent.xml"]), 1).err)
        self.expect(run([TUTTI, "topo", "--format", "pdf"]), 2)


if __name__ == "__main__":
    unittest.main()
