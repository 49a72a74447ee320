"""Runs pytest in a folder, or a script, by the first interpreter that has what the tests need. Skips where none has."""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile

import ranks


def interpreter(modules):
    """An interpreter that imports all of `modules`: this one, the distribution's, or the first on PATH."""
    candidates = dict.fromkeys([sys.executable, "/usr/bin/python3", shutil.which("python3") or sys.executable])
    for candidate in candidates:
        if shutil.which(candidate) and not subprocess.run([candidate, "-c", "import " + ", ".join(modules)], capture_output=True).returncode:
            return candidate
    ranks.skip(f"none of {', '.join(candidates)} has {', '.join(modules)}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True, help="the folder of libtutti.so")
    parser.add_argument("--package", required=True, help="the folder of the package tutti")
    parser.add_argument("--needs", default="", help="modules that the tests import, comma-separated")
    parser.add_argument("--script", help="what to run instead of pytest")
    options, rest = parser.parse_known_args()
    python = interpreter([*filter(None, options.needs.split(",")), *([] if options.script else ["pytest"])])
    path = os.pathsep.join([options.package, *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = ranks.clean_environment(LD_LIBRARY_PATH=options.library, PYTHONPATH=path, PYTHONDONTWRITEBYTECODE="1",
                                          TUTTI_TIMEOUT="60")
    with tempfile.TemporaryDirectory(prefix="tutti-pytest-") as scratch:
        pytest = ["-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", f"--basetemp={scratch}/tmp"]
        command = [python, *([options.script] if options.script else pytest), *rest]
        return subprocess.run(command, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
