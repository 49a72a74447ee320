"""What a result has to say about where it comes from."""

import os
import platform
import re
import subprocess
from pathlib import Path


def read(path):
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def first_line(*argv):
    try:
        return subprocess.run(argv, capture_output=True, text=True, timeout=10).stdout.splitlines()[0].strip()
    except (OSError, IndexError, subprocess.TimeoutExpired):
        return ""


def package_version(name):
    return first_line("dpkg-query", "--show", "--showformat=${Version}", name)


def processor():
    found = re.search(r"^model name\s*: (.*)$", read("/proc/cpuinfo"), re.MULTILINE)
    return found.group(1) if found else platform.machine()


def caches():
    sizes = {}
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        if read(index / "type") != "Instruction":
            sizes[f"L{read(index / 'level')}"] = read(index / "size")
    return sizes


def describe(source):
    """A dict for the JSON: processor, kernel, versions. `source`: the checkout that Tutti was built from."""
    return {
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)),
        "caches": caches(),
        "kernel": platform.release(),
        "hypervisor": first_line("systemd-detect-virt") or ("yes" if " hypervisor" in read("/proc/cpuinfo") else "no"),
        "huge_pages": read("/sys/kernel/mm/transparent_hugepage/enabled"),
        "congestion_control": read("/proc/sys/net/ipv4/tcp_congestion_control"),
        "openmpi": package_version("libopenmpi3"),
        "mpich": package_version("libmpich12"),
        "gloo": package_version("libgloo-dev"),
        "tutti": first_line("git", "-C", str(source), "describe", "--always", "--dirty") if source else "",
    }
