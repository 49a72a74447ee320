"""The programs that are measured, compiled on demand into build/perf-peers of this checkout.

They are small, so they are compiled here rather than by CMake: a peer that is not installed is then no more than a
program that is missing, and one checkout can measure the library of another build.
"""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PERF = ROOT / "perf"
FOLDER = ROOT / "build" / "perf-peers"
FLAGS = ["-std=c++20", "-O2", "-Wall", "-Wextra"]


class Missing(Exception):
    """What is not there, in words: a compiler, a library, a build."""


def compile_program(name, source, compiler, flags=()):
    """The program's path. It is compiled when it, or what it is made of, has changed. Missing when that fails."""
    if not shutil.which(compiler):
        raise Missing(f"not installed ({compiler})")
    fresh = FOLDER / f"{name}.{os.getpid()}"
    command = [compiler, *FLAGS, str(PERF / source), *flags]
    made_of = hashlib.sha256(" ".join(command).encode())
    for path in [PERF / source, *sorted((PERF / "peers").glob("*.h"))]:
        made_of.update(path.read_bytes())
    stamp = FOLDER / f"{name}.stamp"
    if not (FOLDER / name).exists() or not stamp.exists() or stamp.read_text() != made_of.hexdigest():
        FOLDER.mkdir(parents=True, exist_ok=True)
        done = subprocess.run([*command, "-o", str(fresh)], capture_output=True, text=True)
        if done.returncode != 0:
            raise Missing(f"does not compile: {first_error(done.stderr)}")
        fresh.replace(FOLDER / name)  # another comparison may be running the old one
        stamp.write_text(made_of.hexdigest())
    return FOLDER / name


def first_error(text):
    lines = [line for line in text.splitlines() if "error" in line] or text.splitlines() or ["no message"]
    return lines[0]


def pingpong():
    return compile_program("pingpong", "pingpong.cc", "g++", ["-pthread"])


def floor():
    # Its loops are vectors of the widest kind that this processor has, so it is for this machine only.
    return compile_program("floor", "floor.cc", "g++", ["-march=native"])


def mpi(implementation):
    """openmpi or mpich; both may be installed side by side, under Debian's names."""
    return compile_program(f"mpi_bench-{implementation}", "peers/mpi_bench.cc", f"mpicxx.{implementation}",
                           ["-DOMPI_SKIP_MPICXX", "-DMPICH_SKIP_MPICXX"])


def gloo():
    if not Path("/usr/include/gloo/allreduce.h").exists():
        raise Missing("not installed (libgloo-dev)")
    return compile_program("gloo_bench", "peers/gloo_bench.cc", "g++", ["-lgloo", "-pthread"])


def tutti(build):
    """Tutti's own program, against the library of a build tree. It needs no new link when the library is rebuilt."""
    if not (build / "lib" / "libtutti.so").exists() or not (build / "bin" / "tutti").exists():
        raise Missing(f"no Tutti in {build}: cmake --preset release && cmake --build --preset release")
    which = hashlib.sha256(str(build).encode()).hexdigest()[:8]
    return compile_program(f"tutti_bench-{which}", "peers/tutti_bench.cc", "g++",
                           [f"-I{source_of(build)}/include", f"-L{build}/lib", "-ltutti", f"-Wl,-rpath,{build}/lib"])


def source_of(build):
    """The checkout that a build tree was made from."""
    for line in (build / "CMakeCache.txt").read_text().splitlines():
        if line.startswith("CMAKE_HOME_DIRECTORY:"):
            return line.split("=", 1)[1]
    raise Missing(f"{build}/CMakeCache.txt names no source")


def algorithms(build, collective, nranks):
    """The names of all that have a plan for n ranks."""
    plan = [str(build / "bin" / "tutti"), "plan", "--collective", collective, "-n", str(nranks)]
    # A name that does not exist makes it list those that do.
    said = subprocess.run([*plan, "--algo", "?"], capture_output=True, text=True).stderr
    names = said.rpartition(":")[2].split()
    return [name for name in names
            if subprocess.run([*plan, "--algo", name, "--rank", "0"], capture_output=True).returncode == 0]
