"""A Slurm of one machine: munged, slurmctld and slurmd of the test's own, for tests of srun.

Everything is in a temporary folder, ports and sockets too, so that a Slurm of this machine is not disturbed. The daemons
are ended by their ids. Needs root: slurmd starts steps as the user that asks for them.
"""

import contextlib
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import ranks

START_SECONDS = 60


def daemon(name):
    path = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
    return path or ranks.skip(f"srun is installed, but {name} is not")


def configuration(folder: Path, tasks: int) -> str:
    host = socket.gethostname().split(".")[0]
    return f"""
ClusterName=tutti
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmctldPort={ranks.free_port()}
SlurmdPort={ranks.free_port()}
StateSaveLocation={folder}
SlurmdSpoolDir={folder}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs={tasks} State=UNKNOWN
PartitionName=test Nodes={host} Default=YES State=UP
"""


def answers(environment) -> bool:
    """Whether a controller answers and has a node that is free."""
    state = subprocess.run(["sinfo", "--noheader", "--format=%T"], env=environment, capture_output=True, text=True, timeout=30)
    return state.returncode == 0 and "idle" in state.stdout


@contextlib.contextmanager
def cluster(tasks=4):
    """Yields the variables by which srun finds a controller. Skips where there can be none."""
    if not shutil.which("srun") or not shutil.which("sinfo"):
        ranks.skip("srun is not installed")
    if answers(ranks.clean_environment()):
        yield {}
        return
    if os.geteuid() != 0:
        ranks.skip("srun is installed, but no Slurm controller answers, and only root can start one")
    munged, slurmctld, slurmd = (daemon(name) for name in ("munged", "slurmctld", "slurmd"))
    with tempfile.TemporaryDirectory(prefix="tutti-slurm-") as name, contextlib.ExitStack() as started:
        folder = Path(name)
        key = folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(secrets.token_bytes(128))
        (folder / "slurm.conf").write_text(configuration(folder, tasks))
        variables = {"SLURM_CONF": str(folder / "slurm.conf")}
        commands = ([munged, "--foreground", "--force", f"--socket={folder}/munge.socket", f"--key-file={key}", f"--pid-file={folder}/munge.pid",
                     f"--log-file={folder}/munge.log", f"--seed-file={folder}/munge.seed"],
                    [slurmctld, "-D"], [slurmd, "-D"])
        processes = {}
        for command in commands:
            log = started.enter_context(open(folder / f"{Path(command[0]).name}.out", "wb"))
            process = subprocess.Popen(command, env=ranks.clean_environment(**variables), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            started.callback(end, process)
            processes[Path(command[0]).name] = process
        await_node(folder, processes, ranks.clean_environment(**variables))
        yield variables


def await_node(folder, processes, environment):
    deadline = time.monotonic() + START_SECONDS
    while not answers(environment):  # sinfo itself waits for a controller a while, and there is nothing to be woken by
        ended = [name for name, process in processes.items() if process.poll() is not None]
        if ended or time.monotonic() > deadline:
            logs = "\n".join(f"---- {name}\n{(folder / f'{name}.out').read_text(errors='replace')[-2000:]}" for name in processes)
            raise SystemExit(f"FAILED: {', '.join(ended) + ' ended' if ended else 'no node was free in time'}\n{logs}")
        time.sleep(0.1)


def end(process):
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
