"""The options that perf/compare and perf/grid have in common: what is measured, how often, and where it goes."""

import argparse
from pathlib import Path

from . import subjects


def parse_size(text):
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    try:
        size = int(text[:-1]) * units[text[-1].upper()] if text[-1:].upper() in units else int(text)
    except ValueError:
        size = 0
    if size < 4:
        raise argparse.ArgumentTypeError(f"'{text}' is no size: write bytes, 4 or more, with K, M or G if you like")
    return size


def listed(parse):
    return lambda text: [parse(part) for part in text.split(",") if part]


def named_build(text):
    """[NAME=]DIR."""
    name, _, folder = text.rpartition("=")
    return name, Path(folder).resolve()


def add_case_options(parser, nranks, sizes, rounds, seconds):
    """With these defaults."""
    parser.add_argument("--collective", type=listed(str), default=["all_reduce"], metavar="NAME,...",
                        help=f"of {', '.join(subjects.COLLECTIVES)}; default all_reduce")
    parser.add_argument("-n", "--nranks", type=listed(int), default=nranks, metavar="N,...",
                        help=f"numbers of ranks; default {','.join(map(str, nranks))}")
    parser.add_argument("--transport", type=listed(str), default=["shm"], metavar="NAME,...",
                        help="shm, tcp; default shm")
    parser.add_argument("--sizes", type=listed(parse_size), default=listed(parse_size)(sizes), metavar="BYTES,...",
                        help=f"default {sizes}")
    parser.add_argument("--rounds", type=int, default=rounds, metavar="N", help=f"default {rounds}")
    parser.add_argument("--seconds", type=float, default=seconds, metavar="S",
                        help=f"measuring time per size and run, at least 5 calls; default {seconds}")
    parser.add_argument("--timeout", type=float, default=60, metavar="S", help="per run; default 60")
    parser.add_argument("--lock", type=Path, metavar="FILE",
                        help="hold an exclusive flock(1) on FILE during each round, one round at a time")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all that was measured")


def checked(parser, arguments):
    for values, known in ((arguments.collective, subjects.COLLECTIVES), (arguments.transport, subjects.TRANSPORTS)):
        for value in values:
            if value not in known:
                parser.error(f"'{value}' is none of {', '.join(known)}")
    if min(arguments.nranks, default=0) < 1 or arguments.rounds < 1 or not arguments.sizes:
        parser.error("at least one rank, one round and one size")
    return arguments


def cases(arguments):
    return [subjects.Case(collective, nranks, transport) for collective in arguments.collective
            for transport in arguments.transport for nranks in arguments.nranks]
