"""`tutti run` when a rank is killed: it ends the others, says which rank failed first and how, and fails itself. When it
is told to end, its ranks end too."""

import argparse
import os
import signal
from pathlib import Path

import ranks

NRANKS = 3


def ranks_of(launcher: int):
    """{rank: process id} of the launcher's children, from their environments."""
    found = {}
    for child in Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split():
        entries = Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
        for entry in entries:
            if entry.startswith(b"RANK="):
                found[int(entry[5:])] = int(child)
    return found


def start(group, options):
    launcher = group.start(0, [options.tutti, "run", "-n", NRANKS, "--", options.program, 1 << 18],
                           ranks.clean_environment(TUTTI_TIMEOUT="60"), stdout=-1)
    for _ in range(NRANKS + 1):
        group.expect("done" in ranks.read_line(launcher.stdout, 60), "the ranks did not start to work")
    children = ranks_of(launcher.pid)
    group.expect(sorted(children) == list(range(NRANKS)), f"tutti run has the ranks {children}")
    return launcher, children


def finish(group, launcher, children) -> int:
    while ranks.read_line(launcher.stdout, 10):
        pass
    status = group.wait(10)[0]
    alive = [rank for rank, child in children.items() if Path(f"/proc/{child}").exists()]
    group.expect(not alive, f"ranks {alive} outlived tutti run")
    return status


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tutti", required=True)
    parser.add_argument("--program", required=True)
    options = parser.parse_args()

    with ranks.Ranks() as group:
        launcher, children = start(group, options)
        os.kill(children[1], signal.SIGKILL)
        status = finish(group, launcher, children)
        message = group.output(0, "err")
        group.expect(status not in (0, None), "tutti run succeeded although a rank was killed")
        group.expect("rank 1" in message and ("SIGKILL" in message or "signal 9" in message),
                     "tutti run does not say that rank 1 was killed by signal 9")

    with ranks.Ranks() as group:
        launcher, children = start(group, options)
        os.kill(launcher.pid, signal.SIGTERM)
        status = finish(group, launcher, children)
        group.expect(status != 0, "tutti run succeeded although it was told to end")
    print("tutti run ends its ranks and says why")


if __name__ == "__main__":
    main()
