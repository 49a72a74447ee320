"""PyTorch's own suite for backends (torch.testing._internal.distributed.distributed_test.DistributedTest) on one of them.

    python3 distributed_suite.py --backend tutti --world-size 4 [--report FILE.json] [test names or -k patterns]

Prints unittest's output and, as JSON, what passed, failed and was skipped with reasons. gloo runs under the same driver, so
that two reports can be compared: --compare A.json B.json. Exit status 0: nothing failed that --allow does not name.
"""

import argparse
import fnmatch
import importlib.util
import json
import os
import sys
import tempfile
import time
import unittest
from pathlib import Path


def prepare(backend, world_size, folder):
    """The environment that the suite reads at import."""
    (folder / "barrier").mkdir()
    (folder / "test_dir").mkdir()
    os.environ.update(BACKEND=backend, WORLD_SIZE=str(world_size), TEMP_DIR=str(folder), MASTER_ADDR="127.0.0.1",
                      CUDA_VISIBLE_DEVICES="", GLOO_SOCKET_IFNAME="lo")
    if importlib.util.find_spec("expecttest") is None:
        stand_ins = str(Path(__file__).parent / "stand_ins")
        sys.path.append(stand_ins)
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), stand_ins]))


def suite_class(backend, as_gloo):
    """DistributedTest as a unittest class. Made in every rank's process too, which imports this file.

    With `as_gloo`, the backend answers to gloo's name, for which most of the suite is written.
    """
    import torch
    import torch.distributed as dist
    if backend == "tutti" or as_gloo:
        import tutti.torch  # noqa: F401
    from torch.testing._internal import common_distributed
    features = common_distributed.DistTestCases.backend_feature
    for feature in ("ddp", "subgroup", "plugin"):
        features.setdefault(feature, set()).add(backend)
    if as_gloo:
        masquerade(dist)
    from torch.testing._internal.distributed import distributed_test
    from torch.testing._internal.distributed.distributed_test import DistributedTest, TestDistBackend
    if as_gloo:
        # Events of sends and receives are looked for as asynchronous ones from C++; tests/torch looks for ours.
        distributed_test.SEND_RECV_PROFILING_SUPPORTED_BACKENDS = []

    class Suite(TestDistBackend, DistributedTest._DistTestBase):
        def setUp(self):
            super().setUp()
            self._spawn_processes()

        if as_gloo:
            # Events of the profiler are looked for under gloo's name, as asynchronous ones from C++.
            def call_dist_op(self, *arguments, **keywords):
                return super().call_dist_op(*arguments, **{**keywords, "expect_event": False})

    Suite.__module__, Suite.__qualname__ = __name__, "Suite"
    return Suite


def masquerade(dist):
    """Process groups called gloo are Tutti's."""
    import tutti.torch
    from torch.distributed import distributed_c10d as c10d

    def made(store, rank, size, timeout):
        options = c10d._DistributedBackendOptions()
        options.store, options.group_rank, options.group_size, options.timeout = store, rank, size, timeout
        options.group_id, options.global_ranks_in_group = "", []
        return tutti.torch.create(options)

    class Meta(type):
        def __instancecheck__(cls, group):
            return isinstance(group, tutti.torch.TuttiProcessGroup)

        def __call__(cls, store, rank, size, timeout=None, **_):
            return made(store, rank, size, timeout)

    # TORCH_DISTRIBUTED_DEBUG=DETAIL puts a wrapper from C++ around PyTorch's own backends, and not around others.
    c10d._create_process_group_wrapper = lambda wrapped_pg, *_, **__: wrapped_pg
    c10d.ProcessGroupGloo = Meta("ProcessGroupGloo", (), {})
    dist.ProcessGroupGloo = c10d.ProcessGroupGloo
    if "GLOO" in dist.Backend._plugins:
        dist.Backend._plugins["GLOO"] = dist.Backend._plugins["TUTTI"]


class Result(unittest.TextTestResult):
    def __init__(self, *arguments, **keywords):
        super().__init__(*arguments, **keywords)
        self.by_name, self._began = {}, 0.0

    def startTest(self, test):
        super().startTest(test)
        self._began = time.monotonic()
        self.stream.flush()

    def _note(self, test, outcome, detail=""):
        name = getattr(test, "_testMethodName", str(test))
        if self.by_name.get(name, {}).get("outcome") not in ("failed", "error"):
            self.by_name[name] = {"outcome": outcome, "detail": detail, "seconds": round(time.monotonic() - self._began, 2)}

    def addSuccess(self, test):
        super().addSuccess(test)
        self._note(test, "passed")

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self._note(test, "failed", str(error[1])[-2000:])

    def addError(self, test, error):
        super().addError(test, error)
        self._note(test, "error", str(error[1])[-2000:])

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._note(test, "skipped", reason)


def run(options):
    with tempfile.TemporaryDirectory(prefix="tutti-c10d-") as folder:
        prepare(options.backend, options.world_size, Path(folder))
        os.environ["C10D_SUITE"] = f"{options.backend},{int(options.as_gloo)}"
        cases = suite_class(options.backend, options.as_gloo)
        globals()["Suite"] = cases
        names = unittest.TestLoader().getTestCaseNames(cases)
        if options.tests:
            names = [name for name in names if any(fnmatch.fnmatch(name, pattern) for pattern in options.tests)]
        names = [name for name in names if not any(fnmatch.fnmatch(name, pattern) for pattern in options.leave_out)]
        result = unittest.TextTestRunner(verbosity=2, resultclass=Result).run(unittest.TestSuite(map(cases, names)))
    import torch
    counts = {}
    for row in result.by_name.values():
        counts[row["outcome"]] = counts.get(row["outcome"], 0) + 1
    report = {"backend": options.backend + (" as gloo" if options.as_gloo else ""), "torch": torch.__version__,
              "world_size": options.world_size, "counts": counts, "tests": result.by_name}
    if options.report:
        Path(options.report).write_text(json.dumps(report, indent=1))
    print(f"torch {torch.__version__}, {report['backend']}, world size {options.world_size}: {counts}")
    bad = {name for name, row in result.by_name.items() if row["outcome"] in ("failed", "error")}
    unexpected = {name for name in bad if not any(fnmatch.fnmatch(name, pattern) for pattern in options.allow)}
    for name in sorted(bad):
        print(f"{'FAILED' if name in unexpected else 'failed, as allowed'}: {name}")
    if not result.by_name or (options.tests and not counts.get("passed")):
        print("no test ran")
        return 1
    return 1 if unexpected else 0


def compare(paths):
    """What differs between two reports."""
    first, second = (json.loads(Path(path).read_text()) for path in paths)
    for report in (first, second):
        print(f"torch {report['torch']}, {report['backend']}, world size {report['world_size']}: {report['counts']}")
    outcome = lambda report, name: report["tests"].get(name, {}).get("outcome", "absent")  # noqa: E731
    rows = [(name, outcome(first, name), outcome(second, name)) for name in sorted({*first["tests"], *second["tests"]})]
    for name, one, other in rows:
        if one != other or one in ("failed", "error"):
            print(f"{name}: {first['backend']} {one}, {second['backend']} {other}")
    worse = [name for name, one, other in rows if one in ("failed", "error") and other not in ("failed", "error")]
    return 1 if worse else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="tutti")
    parser.add_argument("--as-gloo", action="store_true", help="tutti under gloo's name")
    parser.add_argument("--world-size", type=int, default=2)
    parser.add_argument("--report")
    parser.add_argument("--allow", nargs="*", default=[], help="tests that may fail")
    parser.add_argument("--leave-out", nargs="*", default=[])
    parser.add_argument("--compare", nargs=2)
    parser.add_argument("tests", nargs="*")
    options = parser.parse_args()
    sys.argv = sys.argv[:1]  # torch.testing parses it too
    if options.as_gloo:
        options.backend = "gloo"
    sys.exit(compare(options.compare) if options.compare else run(options))


if __name__ == "__main__":
    main()
elif "C10D_SUITE" in os.environ:  # a rank's process, which unpickles the class
    _backend, _as_gloo = os.environ["C10D_SUITE"].split(",")
    sys.path.append(str(Path(__file__).parent / "stand_ins"))
    Suite = suite_class(_backend, bool(int(_as_gloo)))
