"""libnccl.so.2: its names, a ctypes program as Python libraries load NCCL, a C program against NVIDIA's header, and
NCCL_ variables."""

import argparse
import ctypes
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import ranks

# Where the CUDA toolkit puts NCCL; the names and the header are compared where it is there.
TOOLKITS = [Path(folder) for folder in (os.environ.get("CUDA_HOME"), "/usr/local/cuda", "/usr") if folder]


def exported(nm, library):
    listing = subprocess.run([nm, "-D", "--defined-only", str(library)], check=True, capture_output=True, text=True).stdout
    return {line.split()[-1].split("@")[0] for line in listing.splitlines()}


def check_names(options):
    mine = exported(options.nm, options.library)
    listed = set((Path(__file__).parent / "names.txt").read_text().split())
    missing = listed - mine
    others = {name for name in mine if not name.startswith(("nccl", "pnccl"))}
    if missing or others:
        sys.exit(f"FAILED: missing {sorted(missing)}; too many: {sorted(others)}")
    print(f"{len(mine)} names, with all {len(listed)} of NCCL 2.28 to 2.32")
    real = next((path for toolkit in TOOLKITS for path in toolkit.glob("lib*/libnccl.so.2")), None)
    if real is None:
        print("the toolkit's libnccl.so.2 is not on this machine: compared with the list only")
        return
    lacking = exported(options.nm, real) - mine
    if lacking:
        sys.exit(f"FAILED: {real} has {sorted(lacking)} besides")
    print(f"and all {len(exported(options.nm, real))} of {real}")


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


def check_ctypes(options):
    """GetUniqueId, InitRank, AllReduce, Split, GetAsyncError and Abort, as pynccl wrappers call them."""
    nccl = ctypes.CDLL(str(options.library))
    nccl.ncclGetErrorString.restype = nccl.ncclGetLastError.restype = ctypes.c_char_p

    def call(name, *arguments):
        result = getattr(nccl, name)(*arguments)
        if result:
            raise RuntimeError(f"{name}: {nccl.ncclGetErrorString(result).decode()}: {nccl.ncclGetLastError(None).decode()}")

    point, failures, n = UniqueId(), [], 3
    call("ncclGetUniqueId", ctypes.byref(point))
    together = threading.Barrier(n)

    def run(rank):
        comm, part, state = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int(-1)
        call("ncclCommInitRank", ctypes.byref(comm), n, point, rank)
        values = (ctypes.c_float * 4)(*[rank + 1.0] * 4)
        call("ncclAllReduce", values, values, ctypes.c_size_t(4), 7, 0, comm, None)
        assert list(values) == [6.0] * 4, list(values)
        call("ncclCommSplit", comm, 0 if rank else -1, rank, ctypes.byref(part), None)
        assert bool(part) == bool(rank)
        call("ncclCommGetAsyncError", comm, ctypes.byref(state))
        assert state.value == 0
        # One rank aborts while the others wait for it.
        together.wait()
        if rank == 2:
            call("ncclCommAbort", part)
            call("ncclCommAbort", comm)
        else:
            result = nccl.ncclAllReduce(values, values, ctypes.c_size_t(4), 7, 0, comm, None)
            assert result == 6, f"{result}: {nccl.ncclGetLastError(comm)}"
            call("ncclCommGetAsyncError", comm, ctypes.byref(state))
            assert state.value == 6
            if rank:
                nccl.ncclCommAbort(part)
            nccl.ncclCommAbort(comm)

    def guarded(rank):
        try:
            run(rank)
        except BaseException as error:
            failures.append(f"rank {rank}: {error!r}")
            together.abort()

    threads = [threading.Thread(target=guarded, args=(rank,)) for rank in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        sys.exit("FAILED: " + "\n".join(failures))
    print("a ctypes program runs")


def check_header(options):
    toolkit = next((folder for folder in TOOLKITS if (folder / "include/nccl.h").exists() and (folder / "include/cuda_runtime.h").exists()), None)
    if toolkit is None:
        ranks.skip("NVIDIA's nccl.h and the CUDA headers are not on this machine")
    folder = options.library.parent
    with tempfile.TemporaryDirectory(prefix="tutti-nccl-") as scratch:
        program = Path(scratch) / "from_header"
        build = [options.compiler, "-std=c99", "-D_GNU_SOURCE", "-Wall", "-isystem", toolkit / "include",
                 Path(__file__).parent / "from_header.c", "-o", program, f"-L{folder}", "-l:libnccl.so.2", f"-Wl,-rpath,{folder}",
                 f"-Wl,-rpath-link,{folder.parent}", "-pthread"]
        built = subprocess.run([str(word) for word in build], capture_output=True, text=True)
        if built.returncode:
            sys.exit(f"FAILED: {built.stderr}")
        done = subprocess.run([program], env=ranks.clean_environment(TUTTI_TIMEOUT="60"), capture_output=True, text=True, timeout=100)
        if done.returncode:
            sys.exit(f"FAILED: {done.stdout}{done.stderr}")
        print(done.stdout.strip())


PROBE = """
import ctypes, os, sys
nccl = ctypes.CDLL(sys.argv[1])
class Id(ctypes.Structure): _fields_ = [("internal", ctypes.c_byte * 128)]
result = nccl.ncclGetUniqueId(ctypes.byref(Id()))
get = ctypes.CDLL(None).getenv
get.restype = ctypes.c_char_p
print(result, *(f"{name}={(get(name.encode()) or b'').decode()}" for name in sys.argv[2:]))
"""


def check_environment(options):
    cases = [
        ({"NCCL_ALGO": "Ring,NVLS;broadcast:Tree"}, {"TUTTI_ALGO": "ring;broadcast:tree"}, "NVLS"),
        ({"NCCL_ALGO": "^tree"}, {"TUTTI_ALGO": "^tree"}, ""),
        ({"NCCL_PROTO": "LL,Simple"}, {"TUTTI_PROTO": "simple"}, "LL"),
        ({"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"}, {"TUTTI_TRANSPORT": "^p2p,shm"}, ""),
        ({"NCCL_P2P_LEVEL": "nvl"}, {"TUTTI_P2P_LEVEL": "NVL"}, ""),
        ({"NCCL_P2P_LEVEL": "3"}, {"TUTTI_P2P_LEVEL": "PHB"}, ""),
        ({"NCCL_TOPO_FILE": "/etc/topo.xml"}, {"TUTTI_TOPO_FILE": "/etc/topo.xml"}, ""),
        ({"NCCL_P2P_LEVEL": "near"}, {}, "NCCL_P2P_LEVEL=near"),
        ({"NCCL_NET": "Socket", "NCCL_SHM_DISABLE": "0"}, {"TUTTI_TRANSPORT": "^ucx,verbs"}, ""),
        ({"NCCL_SOCKET_IFNAME": "=lo", "NCCL_SOCKET_FAMILY": "AF_INET"}, {"TUTTI_SOCKET_IFNAME": "=lo", "TUTTI_SOCKET_FAMILY": "AF_INET"}, ""),
        ({"NCCL_MIN_NCHANNELS": "2", "NCCL_MAX_NCHANNELS": "2", "NCCL_BUFFSIZE": "4194304"}, {"TUTTI_LANES": "2", "TUTTI_TILE": "524288"}, ""),
        ({"NCCL_DEBUG": "ABORT", "NCCL_DEBUG_SUBSYS": "INIT,GRAPH,TUNING"}, {"TUTTI_DEBUG": "WARN", "TUTTI_DEBUG_SUBSYS": "INIT,TUNE"}, ""),
        ({"NCCL_ALGO": "Ring", "TUTTI_ALGO": "tree"}, {"TUTTI_ALGO": "tree"}, ""),
        ({"NCCL_CROSS_NIC": "1", "NCCL_IB_TIMEOUT": "20"}, {"TUTTI_ALGO": ""}, "NCCL_CROSS_NIC NCCL_IB_TIMEOUT"),
    ]
    clean = {name: value for name, value in ranks.clean_environment().items() if not name.startswith("NCCL_")}
    for given, wanted, ignored in cases:
        done = subprocess.run([sys.executable, "-c", PROBE, str(options.library), *wanted], env={**clean, **given},
                              capture_output=True, text=True, timeout=60)
        expected = "0 " + " ".join(f"{name}={value}" for name, value in wanted.items())
        if done.stdout.strip() != expected.strip():
            sys.exit(f"FAILED: {given} became '{done.stdout.strip()}', not '{expected}'\n{done.stderr}")
        if ignored not in done.stderr or (not ignored and "ignored" in done.stderr):
            sys.exit(f"FAILED: {given} said '{done.stderr}'; expected it to name '{ignored}'")
    print(f"{len(cases)} settings mean the same")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True, type=Path)
    parser.add_argument("--nm", default="nm")
    parser.add_argument("--compiler", default="cc")
    parser.add_argument("part", choices=["names", "ctypes", "header", "environment"])
    options = parser.parse_args()
    os.environ.setdefault("TUTTI_TIMEOUT", "60")
    {"names": check_names, "ctypes": check_ctypes, "header": check_header, "environment": check_environment}[options.part](options)


if __name__ == "__main__":
    main()
