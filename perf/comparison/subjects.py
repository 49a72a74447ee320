"""Who is measured, and how each is started: Tutti, its peers in their variants, and the floor.

A subject's command is started once per round and case and measures all sizes. n ranks on n or more cores are bound to
one each; where ranks outnumber cores nobody is bound, and the peers that can are told to yield.
"""

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from . import programs
from .programs import Missing

COLLECTIVES = ("all_reduce", "reduce_scatter", "all_gather", "broadcast")
TRANSPORTS = ("shm", "tcp")
# Open MPI refuses to start as root unless told twice.
MPI_ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
CORES = len(os.sched_getaffinity(0))


@dataclass(frozen=True)
class Case:
    collective: str
    nranks: int
    transport: str

    def __str__(self):
        return f"{self.collective} float32, n={self.nranks}, {self.transport}"


@dataclass
class Subject:
    name: str
    kind: str  # tutti, peer or floor
    transports: tuple = TRANSPORTS
    collectives: tuple = COLLECTIVES
    environment: dict = field(default_factory=dict)
    needs_store: bool = False  # a fresh folder where its ranks meet
    unbound: bool = False  # its ranks are never bound to a core, so they cannot tell how far they are from each other

    def command(self, case):
        """The argv before the arguments of loop.h. Raises Missing."""
        raise NotImplementedError

    def measures(self, case):
        return case.transport in self.transports and case.collective in self.collectives

    def variables(self, case):
        return self.environment


@dataclass
class Tutti(Subject):
    build: Path = None
    registered: bool = False

    def command(self, case):
        program = programs.tutti(self.build)
        settings = {"TUTTI_TRANSPORT": case.transport, **self.environment}
        argv = [str(self.build / "bin" / "tutti"), "run", "-n", str(case.nranks)]
        for name, value in settings.items():
            argv += ["--env", f"{name}={value}"]
        argv += ["--", str(program)]
        return argv + ["--pin"] * (case.nranks <= CORES) + ["--registered"] * self.registered


@dataclass
class OpenMpi(Subject):
    options: dict = field(default_factory=dict)  # transport -> mca parameters

    def command(self, case):
        program = programs.mpi("openmpi")
        require("mpirun.openmpi")
        argv = ["mpirun.openmpi", "-np", str(case.nranks)]
        if case.nranks <= CORES:
            argv += ["--bind-to", "core"]
        else:
            argv += ["--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]
        for name, value in self.options[case.transport].items():
            argv += ["--mca", name, value]
        return argv + [str(program)]


@dataclass
class Mpich(Subject):
    def command(self, case):
        program = programs.mpi("mpich")
        require("mpirun.mpich")
        bind = ["-bind-to", "core"] if case.nranks <= CORES else []
        return ["mpirun.mpich", *bind, "-np", str(case.nranks), str(program)]

    def variables(self, case):
        if case.transport == "shm":
            return {}
        # Debian builds MPICH on UCX. NOLOCAL turns off its own shared memory, UCX_TLS that of UCX.
        return {"MPIR_CVAR_NOLOCAL": "1", "UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "lo"}


@dataclass
class Gloo(Subject):
    algorithm: str = ""
    launcher: Path = None  # `tutti run` starts any program

    def command(self, case):
        program = programs.gloo()
        if self.launcher is None or not self.launcher.exists():
            raise Missing("`tutti run` starts it, and there is no build of Tutti")
        return [str(self.launcher), "run", "-n", str(case.nranks), "--", str(program), "--algorithm", self.algorithm]


@dataclass
class Floor(Subject):
    def command(self, case):
        return [str(programs.floor())]

    def measures(self, case):
        return super().measures(case) and case.nranks == 2 <= CORES


def require(program):
    if not shutil.which(program):
        raise Missing(f"not installed ({program})")


def open_mpi_subjects():
    """The variants of Open MPI whose best counts: nobody knows beforehand which one wins at a size."""
    vader = {"pml": "ob1", "btl": "vader,self"}
    tcp = {"pml": "ob1", "btl": "tcp,self", "btl_tcp_if_include": "lo"}
    ring = {"coll_tuned_use_dynamic_rules": "1", "coll_tuned_allreduce_algorithm": "5",
            "coll_tuned_allreduce_algorithm_segmentsize": "262144"}
    # UCX's component steps aside where it sees no fast network, unless any will do.
    ucx = {"pml": "ucx", "pml_ucx_tls": "any", "pml_ucx_devices": "any"}
    common = {"kind": "peer", "environment": MPI_ENVIRONMENT}
    yield OpenMpi("openmpi", options={"shm": vader, "tcp": tcp}, **common)
    yield OpenMpi("openmpi-nocma", transports=("shm",), **common,
                  options={"shm": {**vader, "btl_vader_single_copy_mechanism": "none"}})
    yield OpenMpi("openmpi-ring", collectives=("all_reduce",), options={"shm": {**vader, **ring}, "tcp": {**tcp, **ring}},
                  **common)
    yield OpenMpi("openmpi-ucx", transports=("shm",), options={"shm": ucx}, **common)


def all_subjects(builds, tutti_environment, registered):
    """builds: [(name, path)]; the first is the one that ratios are about."""
    subjects = []
    for name, build in builds:
        subjects.append(Tutti(name, "tutti", build=build, environment=tutti_environment))
        if registered:
            subjects.append(Tutti(f"{name}-registered", "tutti", build=build, environment=tutti_environment,
                                  transports=("shm",), registered=True))
    subjects += open_mpi_subjects()
    subjects.append(Mpich("mpich", "peer"))
    launcher = builds[0][1] / "bin" / "tutti" if builds else None
    for algorithm in ("ring", "halving_doubling"):
        subjects.append(Gloo(f"gloo-{algorithm.replace('halving_doubling', 'halving')}", "peer", transports=("tcp",),
                             collectives=("all_reduce",), algorithm=algorithm, launcher=launcher, needs_store=True,
                             unbound=True))
    subjects.append(Floor("floor", "floor", transports=("shm",), collectives=("all_reduce",)))
    return subjects
