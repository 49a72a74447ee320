"""Plants one offence of each kind in a small tree and expects check_sources.py to see it, and nothing else."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import check_sources  # noqa: E402


class CheckSources(unittest.TestCase):
    def offences(self, files):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder).resolve()
            for path, text in files.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text)
            return check_sources.check(root)

    def expect(self, files, *parts):
        found = self.offences(files)
        self.assertEqual(len(found), 1, found)
        for part in parts:
            self.assertIn(part, found[0])

    def test_a_clean_tree(self):
        self.assertEqual(self.offences({
            "src/base/a.h": "int f();\n",
            "src/plan/b.cc": '#include "base/a.h"\n#include <vector>\n// sleep(1) in words\nint f() { return g("printf("); }\n',
            "transports/tcp/t.cc": '#include "transports/tcp/t.h"\n#include "transports/transport.h"\n',
            "transports/tcp/t.h": "", "transports/transport.h": "",
            "src/comm/wiring.cc": '#include "transports/tcp/t.h"\n',
        }), [])

    def test_a_layer_upwards(self):
        self.expect({"src/base/a.cc": '#include "plan/b.h"\n', "src/plan/b.h": ""}, "src/base/a.cc:1:", "src/plan/b.h")

    def test_a_transport_that_knows_plans(self):
        self.expect({"transports/shm/a.cc": '\n#include "plan/b.h"\n', "src/plan/b.h": ""}, "transports/shm/a.cc:2:")

    def test_a_transport_that_knows_another(self):
        self.expect({"transports/shm/a.cc": '#include "transports/tcp/t.h"\n', "transports/tcp/t.h": ""}, "transports/tcp/t.h")

    def test_a_concrete_transport_outside_wiring(self):
        self.expect({"src/comm/a.cc": '#include "transports/tcp/t.h"\n', "transports/tcp/t.h": ""}, "src/comm/a.cc:1:")

    def test_banned_calls(self):
        for line, word in (("const char* e = std::getenv(n);", "getenv"), ("usleep(5);", "usleep"), ("::sleep(1);", "sleep"),
                           ("std::this_thread::sleep_for(x);", "sleep_for"), ("int r = rand();", "rand"),
                           ('std::printf("x");', "printf"), ("std::cout << 1;", "cout"), ("exit(1);", "exit"),
                           ("auto t = std::chrono::steady_clock::now();", "steady_clock")):
            with self.subTest(line=line):
                self.expect({"src/engine/a.cc": f"void f() {{\n  {line}\n}}\n"}, "src/engine/a.cc:2:", word)

    def test_calls_that_only_look_banned(self):
        self.assertEqual(self.offences({"src/engine/a.cc": "void f() { x.abort(); snprintf(b, 1, c); operand(1); p->exit(); }\n"}), [])

    def test_a_long_file(self):
        self.expect({"src/plan/a.cc": "int x;\n" * 451}, "src/plan/a.cc", "451")

    def test_a_long_function_within_a_class(self):
        body = "  int f(int a = g()) const {\n" + "    if (a) { b(); }\n" * 79 + "  }\n"
        self.expect({"src/plan/a.cc": "namespace t {\nclass C : public D<int> {\n public:\n" + body + "};\n}\n"},
                    "src/plan/a.cc:4:", "f has 81 lines")

    def test_a_long_test(self):
        self.expect({"tests/a/a_test.cc": "TEST(Suite, Name) {\n" + "  x();\n" * 79 + "}\n"}, "Suite.Name has 81 lines")

    def test_a_function_at_the_limit_after_a_table(self):
        table = "const Row kRows[] = {\n" + "  {1, f(2)},\n" * 100 + "};\n"
        self.assertEqual(self.offences({"src/plan/a.cc": table + "void f() {\n" + "  x();\n" * 78 + "}\n"}), [])

    def test_the_ratchet(self):
        long = {"src/plan/a.cc": "int x;\n" * 460}
        self.assertEqual(self.offences({**long, "tests/layering/ratchet.txt": "src/plan/a.cc lines 460\n"}), [])
        self.expect({**long, "tests/layering/ratchet.txt": "src/plan/a.cc lines 459\n"}, "460 lines")
        self.expect({"src/plan/a.cc": "\n", "tests/layering/ratchet.txt": "src/plan/a.cc lines 460\n"}, "remove the line")

    def test_unfinished_work(self):
        self.expect({"src/plan/a.cc": "// TO" "DO: later\n"}, "src/plan/a.cc:1:")

    def test_a_variable_that_does_not_exist(self):
        self.expect({"src/base/config.cc": 'Row r = {"TUTTI_ALGO"};\n', "README.md": "Set TUTTI_ALGO or TUTTI_ALGOS.\n"},
                    "README.md:1: TUTTI_ALGOS")


if __name__ == "__main__":
    unittest.main()
