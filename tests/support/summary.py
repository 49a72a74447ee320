"""Adds up ctest's JUnit reports: what passed, failed and was skipped, and why.

usage: summary.py LABEL=report.xml...
The last line is `N passed, N failed, N skipped`. Exit status 1 when anything failed or nothing ran.
"""

import re
import sys
import xml.etree.ElementTree as ElementTree
from collections import defaultdict

# Terminal colours and whatever else XML 1.0 cannot hold; tests may print anything.
UNPRINTABLE = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd]")


def skip_reason(output: str) -> str:
    """The line after googletest's `file:line: Skipped`, or a script's `SKIP: reason`."""
    found = re.search(r"^SKIP: (.+)$", output, re.MULTILINE)
    if not found:
        found = re.search(r": Skipped\n+(.+)$", output, re.MULTILINE)
    return found.group(1).strip() if found else "no reason given"


def read_report(path: str):
    """Yields (name, outcome, reason) of each test; outcome is passed, failed or skipped."""
    with open(path, encoding="utf-8", errors="replace") as file:
        suite = ElementTree.fromstring(UNPRINTABLE.sub("?", file.read()))
    for case in suite.iter("testcase"):
        output = case.findtext("system-out") or ""
        name = case.get("name").split("  # ")[0]  # without googletest's dump of the parameter
        skipped, failure = case.find("skipped"), case.find("failure")
        if failure is not None or case.get("status") == "fail":
            yield name, "failed", (failure.get("message") if failure is not None else "") or "failed"
        elif case.get("status") == "disabled" or (skipped is not None and "SKIP" in skipped.get("message", "")):
            yield name, "skipped", skip_reason(output)
        elif case.get("status") == "notrun":
            # Not a choice of the test: its program is missing, or what it needs failed.
            yield name, "failed", skipped.get("message") if skipped is not None else "not run"
        else:
            yield name, "passed", ""


def main(arguments) -> int:
    total = defaultdict(int)
    failures, skips = [], defaultdict(list)
    print()
    for argument in arguments:
        label, _, path = argument.partition("=")
        count = defaultdict(int)
        for name, outcome, reason in read_report(path):
            count[outcome] += 1
            total[outcome] += 1
            if outcome == "failed":
                failures.append(f"{label}: {name} ({reason})")
            elif outcome == "skipped":
                skips[reason].append(f"{label}: {name}")
        print(f"{label}: {count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped of {sum(count.values())}")
    for reason, names in sorted(skips.items()):
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        print(f"skipped: {reason}: {shown}")
    for failure in failures:
        print(f"FAILED: {failure}")
    print(f"{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped")
    return 1 if total["failed"] or not total["passed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
