"""kill -9 of one of four ranks in the middle of AllReduces: the other three end within 5 s with an error that names it,
and nothing of them is left."""

import argparse
import os
import signal
import socket
from pathlib import Path

import ranks

NRANKS = 4
SECONDS_TO_NOTICE = 5
COUNT = 4 << 20  # 16 MiB: milliseconds an operation, so that the signal falls into one


def processes_with(marker: str):
    """Ids of living processes whose environment holds the marker."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if marker.encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue  # ended meanwhile, or another user's
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--transport", required=True)
    parser.add_argument("--victim", required=True, type=int)
    options = parser.parse_args()

    with ranks.Ranks() as group:
        work = group.folder / "work"  # where careless code would leave something
        work.mkdir()
        port = ranks.free_port()
        marker = f"TEST_MARKER=tutti-kill-{os.getpid()}"
        name, _, value = marker.partition("=")
        witness = (options.victim + 1) % NRANKS
        for rank in range(NRANKS):
            environment = ranks.rank_environment(rank, NRANKS, port, TUTTI_TRANSPORT=options.transport, TUTTI_TIMEOUT="60",
                                                 TMPDIR=str(work), HOME=str(work), **{name: value})
            piped = {"stdout": -1} if rank == witness else {}
            group.start(rank, [options.program, COUNT], environment, cwd=work, **piped)
        witness_output = group.processes[witness].stdout
        for done in (1, 2, 3):
            line = ranks.read_line(witness_output, 60)
            group.expect(line == f"done {done}\n", f"rank {witness} printed {line!r}, expected done {done}")
        for rank, process in group.processes.items():
            maps = Path(f"/proc/{process.pid}/maps").read_text().splitlines()
            named = [line for line in maps if "/dev/shm/" in line and not line.endswith("(deleted)")]
            group.expect(not named, f"rank {rank} maps a named file of /dev/shm, which a kill would leave: {named}")

        victim = group.processes[options.victim]
        os.kill(victim.pid, signal.SIGKILL)
        survivors = [rank for rank in range(NRANKS) if rank != options.victim]
        # The witness's pipe is read to its end, so that it never blocks on a full one.
        last = line
        while (line := ranks.read_line(witness_output, SECONDS_TO_NOTICE)) != "":
            last = line
        statuses = group.wait(SECONDS_TO_NOTICE, survivors)
        group.expect(set(statuses.values()) == {3}, f"exit statuses by rank: {statuses}, expected 3 (an error) of each")
        for rank in survivors:
            lines = last.splitlines() if rank == witness else group.output(rank).splitlines()
            error = lines[-1]
            for needle in (f"rank {options.victim}", str(victim.pid), socket.gethostname()):
                group.expect(error.startswith("error ") and needle in error, f"rank {rank} said {error!r}, which does not name {needle}")
            print(f"rank {rank}: {error}")
        victim.wait()
        group.expect(not processes_with(marker), f"processes {processes_with(marker)} are left")
        group.expect(not list(work.iterdir()), f"files are left: {list(work.iterdir())}")


if __name__ == "__main__":
    main()
