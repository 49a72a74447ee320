"""The Debian packages: what is in them, what they depend on, and that they work where nothing but them is.

Without --root they are unpacked into a temporary folder. With --root FOLDER, a root that debootstrap made
(debootstrap --variant=minbase bookworm FOLDER), apt installs them there with their dependencies, by chroot; this needs
root and a network.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import ranks

NAMES = ("libtutti0", "libtutti-dev", "tutti-tools", "libtutti-nccl2")
PLUGINS = ("libtutti-ucx",)  # where the build found what they need
SUM = """#include <stdio.h>
#include <tutti/tutti.h>
int main(void) { int version; tuttiGetVersion(&version); printf("%d\\n", version); return version != TUTTI_VERSION_CODE; }
"""


def run(*command, **options) -> str:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=options.pop("timeout", 200), **options)
    if done.returncode:
        sys.exit(f"FAILED: {' '.join(map(str, command))} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def field(package, name):
    return run("dpkg-deb", "--field", package, name).strip()


def check_contents(packages, symbols):
    files = {name: set(re.findall(r"\./(usr/\S*[^/\s])(?: ->|$)", run("dpkg-deb", "--contents", path), re.MULTILINE)) for name, path in packages.items()}

    def expect(name, pattern):
        if not any(re.fullmatch(pattern, file) for file in files[name]):
            sys.exit(f"FAILED: {name} holds no {pattern}: {sorted(files[name])}")

    expect("libtutti0", r"usr/lib/(\S+/)?libtutti\.so\.0")
    expect("libtutti-dev", r"usr/include/tutti/tutti\.h")
    expect("libtutti-dev", r"usr/lib/(\S+/)?libtutti\.so")
    expect("libtutti-dev", r"usr/lib/(\S+/)?pkgconfig/tutti\.pc")
    expect("libtutti-dev", r"usr/lib/(\S+/)?cmake/Tutti/TuttiConfig\.cmake")
    expect("tutti-tools", r"usr/bin/allreduce_perf")
    expect("tutti-tools", r"usr/bin/tutti")
    expect("libtutti-nccl2", r"usr/lib/(\S+/)?tutti/libnccl\.so\.2")
    for one in files:
        for other in files:
            if one < other and files[one] & files[other]:
                sys.exit(f"FAILED: {one} and {other} both hold {files[one] & files[other]}")
    for name in files.keys() & PLUGINS:
        expect(name, rf"usr/lib/(\S+/)?libtutti_{name.removeprefix('libtutti-')}\.so")
    for name in files.keys() - {"libtutti0"}:
        if "libtutti0" not in field(packages[name], "Depends"):
            sys.exit(f"FAILED: {name} does not depend on libtutti0: {field(packages[name], 'Depends')}")
    if not re.search(r"libc6.*", field(packages["libtutti0"], "Depends")):
        sys.exit(f"FAILED: libtutti0 depends on {field(packages['libtutti0'], 'Depends')}")
    return files


def check_unpacked(packages, symbols):
    """Runs the tools of the unpacked packages, on this machine's own libraries."""
    with tempfile.TemporaryDirectory(prefix="tutti-deb-") as folder:
        for path in packages.values():
            run("dpkg-deb", "--extract", path, folder)
        (library,) = Path(folder).rglob("libtutti.so.0")
        names = {line.split()[-1].split("@")[0] for line in run("nm", "-D", "--defined-only", library).splitlines() if line.split()[-2] != "A"}
        if names != set(Path(symbols).read_text().split()):
            sys.exit(f"FAILED: the packaged library exports {sorted(names)}")
        environment = ranks.clean_environment(LD_LIBRARY_PATH=str(library.parent), TUTTI_TIMEOUT="60")
        out = run(Path(folder) / "usr/bin/allreduce_perf", "-t", "4", "-b", "8", "-e", "1M", "-f", "64", "-c", "1", env=environment)
        if "# Out of bounds values : 0 OK" not in out:
            sys.exit(f"FAILED: allreduce_perf printed\n{out}")
        flags = run("pkg-config", "--define-prefix", "--libs", "tutti", env={**environment, "PKG_CONFIG_PATH": str(library.parent / "pkgconfig")})
        if "-ltutti" not in flags:
            sys.exit(f"FAILED: pkg-config --libs tutti printed {flags}")


def check_in_root(packages, root):
    place = root / "tmp/tutti"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    for path in packages.values():
        shutil.copy(path, place)
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "TUTTI_TIMEOUT": "60"}
    inside = lambda *command: run("chroot", root, *command, env=environment, timeout=550)  # noqa: E731
    inside("apt-get", "-q", "-y", "--no-install-recommends", "install", *(f"/tmp/tutti/{path.name}" for path in packages.values()))
    out = inside("allreduce_perf", "-t", "4", "-b", "8", "-e", "1M", "-f", "64", "-c", "1")
    if "# Out of bounds values : 0 OK" not in out:
        sys.exit(f"FAILED: allreduce_perf printed\n{out}")
    print(out)
    inside("apt-get", "-q", "-y", "--no-install-recommends", "install", "pkg-config", "gcc", "libc6-dev")
    flags = inside("pkg-config", "--cflags", "--libs", "tutti")
    (place / "version.c").write_text(SUM)
    inside("gcc", "/tmp/tutti/version.c", "-o", "/tmp/tutti/version", *flags.split())
    print(f"pkg-config: {flags.strip()}; a program built by it prints {inside('/tmp/tutti/version').strip()}")


def main():
    parser = argparse.ArgumentParser()
    for option in ("--cpack", "--build", "--symbols"):
        parser.add_argument(option, required=True)
    parser.add_argument("--root", type=Path)
    options = parser.parse_args()
    options.build = Path(options.build).resolve()
    for program in ("dpkg-deb", "dpkg-shlibdeps", "nm", "pkg-config"):
        if shutil.which(program) is None:
            ranks.skip(f"{program} is not installed")
    with tempfile.TemporaryDirectory(prefix="tutti-cpack-") as folder:
        run(options.cpack, "-G", "DEB", "-B", folder, "--config", options.build / "CPackConfig.cmake", cwd=options.build)
        packages = {path.name.split("_")[0]: path for path in Path(folder).glob("*.deb")}
        if set(packages) - set(PLUGINS) != set(NAMES):
            sys.exit(f"FAILED: the packages are {sorted(packages)}, not {NAMES}")
        files = check_contents(packages, options.symbols)
        for name in sorted(packages):
            print(f"{name}: {len(files[name])} files; depends on {field(packages[name], 'Depends')}")
        check_unpacked(packages, options.symbols)
        if options.root:
            check_in_root(packages, options.root)


if __name__ == "__main__":
    main()
