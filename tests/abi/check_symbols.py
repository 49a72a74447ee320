"""Compares what the library exports with the header and with the checked-in list, and checks its SONAME."""

import argparse
import re
import subprocess
import sys
from pathlib import Path


def main() -> int:
    parser = argparse.ArgumentParser()
    for option in ("--nm", "--library", "--soname", "--header", "--list"):
        parser.add_argument(option, required=True)
    options = parser.parse_args()

    listing = subprocess.run([options.nm, "-D", "--defined-only", options.library], check=True, capture_output=True, text=True)
    # `address type name@@VERSION`; an absolute symbol (A) is the version node itself.
    rows = [line.split() for line in listing.stdout.splitlines()]
    exported = {row[-1].split("@")[0] for row in rows if row[-2] != "A"}
    versions = {row[-1] for row in rows if row[-2] == "A"}
    header = Path(options.header).read_text()
    declared = set(re.findall(r"\b(tutti[A-Z]\w*)\(", re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)))
    listed = set(Path(options.list).read_text().split())
    major = re.search(r"#define TUTTI_MAJOR (\d+)", header).group(1)

    offences = [f"{name} is exported but not in {options.list}: hide it, or declare and list it" for name in exported - listed]
    offences += [f"{name} is in {options.list} but not exported: callers linked against it would not start" for name in listed - exported]
    offences += [f"{name} is declared in the header but not listed" for name in declared - listed]
    offences += [f"{name} is listed but not declared in the header" for name in listed - declared]
    if options.soname != f"libtutti.so.{major}":
        offences.append(f"the SONAME is {options.soname}; the header's major version asks for libtutti.so.{major}")
    if versions != {f"TUTTI_{major}"}:
        offences.append(f"the version nodes are {sorted(versions)}; expected TUTTI_{major} alone")
    print("\n".join(sorted(offences)) or f"{len(exported)} symbols, as listed")
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main())
