"""Ranks for the tests: threads of this process, or processes that `tutti.init()` joins."""

import os
import socket
import subprocess
import sys
import threading

import pytest

import tutti


def run_ranks(n, body, comms=None):
    """body(comm) in one thread per rank; returns the results by rank, or raises the first failure."""
    mine = comms or tutti.Communicator.local(n)
    results, failures = [None] * n, []

    def run(comm):
        try:
            results[comm.rank] = body(comm)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(comm,)) for comm in mine]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if comms is None:
        for comm in mine:
            comm.close()
    if failures:
        raise failures[0]
    return results


@pytest.fixture
def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def start_script(free_port):
    """start_script(rank, nranks, source, **environment) -> a Popen of a script in torchrun's environment."""
    started = []

    def start(rank, nranks, source, **extra):
        environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(nranks), "LOCAL_RANK": str(rank),
                       "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port), **extra}
        environment = {name: value for name, value in environment.items() if value is not None}
        process = subprocess.Popen([sys.executable, "-c", source], env=environment, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()
