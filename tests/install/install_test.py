"""Installs into a fresh prefix, moves it, and builds the C program of README.md against it as strangers do: by
find_package and by pkg-config. Both are run by the installed `tutti run`."""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import ranks

CONSUMER_CMAKE = """cmake_minimum_required(VERSION 3.16)
project(consumer C)
find_package(Tutti 0.1 REQUIRED)
add_executable(consumer consumer.c)
target_link_libraries(consumer PRIVATE Tutti::tutti)
"""


def run(*command, **options) -> str:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=100, **options)
    if done.returncode:
        sys.exit(f"FAILED: {' '.join(map(str, command))} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def readme_program(readme: Path) -> str:
    programs = [block for block in re.findall(r"^```c\n(.*?)^```$", readme.read_text(), re.MULTILINE | re.DOTALL) if "int main" in block]
    if len(programs) != 1:
        sys.exit(f"FAILED: {readme} holds {len(programs)} C programs; expected one")
    if programs[0].count("\n") > 30:
        sys.exit(f"FAILED: the program of {readme} has {programs[0].count(chr(10))} lines; 30 were promised")
    return programs[0]


def expect_result(name: str, output: str):
    lines = sorted(line for line in output.splitlines() if line.startswith("rank "))
    wanted = [f"rank {rank} of 2: the sum is 3" for rank in (0, 1)]
    if lines != wanted:
        sys.exit(f"FAILED: the consumer built by {name} printed\n{output}instead of {wanted}")
    print(f"{name}: ok")


def main():
    parser = argparse.ArgumentParser()
    for option in ("--cmake", "--build", "--source"):
        parser.add_argument(option, required=True)
    options = parser.parse_args()

    with tempfile.TemporaryDirectory(prefix="tutti-install-") as folder:
        folder = Path(folder)
        run(options.cmake, "--install", options.build, "--prefix", folder / "first")
        prefix = folder / "moved"
        (folder / "first").rename(prefix)
        (library,) = prefix.rglob("libtutti.so")
        environment = ranks.clean_environment()
        environment.pop("LD_LIBRARY_PATH", None)
        source = folder / "consumer"
        source.mkdir()
        (source / "consumer.c").write_text(readme_program(Path(options.source) / "README.md"))

        (source / "CMakeLists.txt").write_text(CONSUMER_CMAKE)
        run(options.cmake, "-S", source, "-B", source / "build", f"-DCMAKE_PREFIX_PATH={prefix}", env=environment)
        run(options.cmake, "--build", source / "build", env=environment)
        launcher = (prefix / "bin/tutti", "run", "-n", "2", "--")
        expect_result("find_package", run(*launcher, source / "build/consumer", env=environment))

        search = {**environment, "PKG_CONFIG_PATH": str(library.parent / "pkgconfig")}
        flags = run("pkg-config", "--cflags", "--libs", "tutti", env=search).split()
        compiler = os.environ.get("CC") or shutil.which("cc") or "gcc"
        run(compiler, "-std=c99", "-Wall", "-Werror", source / "consumer.c", "-o", source / "by_pkg_config", *flags,
            f"-Wl,-rpath,{library.parent}", env=environment)
        expect_result("pkg-config", run(*launcher, source / "by_pkg_config", env=environment))

        for page in ("LICENSE", "README.md", "CHANGELOG.md"):
            if not list(prefix.glob(f"share/doc/*/{page}")):
                sys.exit(f"FAILED: {page} was not installed under share/doc")
        leaks = [path for path in prefix.rglob("*") if path.suffix in (".cmake", ".pc") and options.build in path.read_text()]
        if leaks:
            sys.exit(f"FAILED: {leaks} name the build folder")


if __name__ == "__main__":
    main()
