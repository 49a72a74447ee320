"""From runs to medians, ratios and the table.

A repetition is near or far by the distance measured before and after it; repetitions of different kinds are never
mixed. Where every rank has a core, one during which somebody else had a rank's core is left out. Per kind, subject and
size the value is the median over the rounds of the median over a run's repetitions.

An entry is one case of the JSON: {"collective", "nranks", "transport", "bound": every rank has a core, "runs"}.
"""

from statistics import median

FAR_NS = 120  # on the machines seen so far processors are 45 to 60 or 200 to 280 ns apart
MOST_NS = 2000  # no distance: the two did not run at the same time

# The greatest part of a repetition that a rank may have waited for its core. Alone on a machine it is below 0.01, but
# ranks that block in the kernel and are woken wait a little each time, so it is not asked of tcp.
MOST_DISPLACED = 0.05

KINDS = ("near", "far", "any")


def kind_between(before, after):
    """near, far, changed (the machine moved the processors meanwhile), or disturbed."""
    if max(before, after) > MOST_NS:
        return "disturbed"
    if (before >= FAR_NS) != (after >= FAR_NS):
        return "changed"
    return "far" if before >= FAR_NS else "near"


def samples_of(entry, run):
    """(name, bytes, kind, µs, ping) of each repetition. Where ranks outnumber cores there is one kind: any."""
    bound = entry["bound"]
    for result in run.get("results", []):
        name = result["collective"] if run["kind"] == "floor" else run["subject"]  # the floor has several kernels
        pings = result["ping_ns"] or [run["ping_ns"][0]] * len(result["times_us"]) + [run["ping_ns"][1]]
        for i, time in enumerate(result["times_us"]):
            before, after = pings[i], pings[i + 1]
            kind = "any" if before is None or after is None or not bound else kind_between(before, after)
            if bound and entry["transport"] == "shm" and result["displaced"][i] > MOST_DISPLACED:
                kind = "disturbed"
            yield name, result["bytes"], kind, time, before


class Medians:
    """Of one case and one kind of distance: times[name][bytes] in µs."""

    def __init__(self, entry, runs, kind):
        self.kind = kind
        values, pings, self.repetitions = {}, [], 0
        for number, run in enumerate(runs):
            for name, size, of_kind, time, ping in samples_of(entry, run):
                if of_kind == kind:
                    values.setdefault(name, {}).setdefault(size, {}).setdefault(number, []).append(time)
                    pings.append(ping)
                    self.repetitions += 1
        self.times = {name: {size: median(median(times) for times in by_run.values()) for size, by_run in sizes.items()}
                      for name, sizes in values.items()}
        self.rounds = sorted({len(by_run) for sizes in values.values() for by_run in sizes.values()})
        names = list(dict.fromkeys((run["subject"], run["kind"]) for run in runs))
        self.peers = [name for name, kind in names if kind == "peer" and name in self.times]
        self.tuttis = [name for name, kind in names if kind == "tutti" and name in self.times]
        self.ping_ns = median(pings) if pings and None not in pings else None

    def sizes(self):
        return sorted({size for name in self.tuttis + self.peers for size in self.times[name]})

    def best_peer(self, size):
        """(name, µs), or None."""
        times = [(self.times[name][size], name) for name in self.peers if size in self.times[name]]
        return min(times)[::-1] if times else None

    def floor(self, size):
        """µs: the better of the ideal in-place kernels; below a page, one line's way. None where nobody measured it."""
        kernels = [self.times.get(name) for name in ("in_place_ordinary", "in_place_streaming")]
        if None in kernels or not self.ping_ns:
            return None
        if size < 4096:
            return self.ping_ns / 1000
        return min(kernel[size] for kernel in kernels) if all(size in kernel for kernel in kernels) else None


def left_out(entry):
    """How many repetitions no table shows: {why: how many}."""
    kinds = [kind for run in entry["runs"] for _, _, kind, _, _ in samples_of(entry, run)]
    return {"the distance changed": kinds.count("changed"), "somebody else had a rank's core": kinds.count("disturbed"),
            "in all": len(kinds)}


def medians_by_kind(entry, order):
    """One Medians for each kind of distance that has something to compare, the best covered first. `order`: the place of
    each subject in the tables."""
    runs = sorted(entry["runs"], key=lambda run: order.get(run["subject"], 0))
    kinds = [Medians(entry, runs, kind) for kind in KINDS]
    kinds = [medians for medians in kinds if medians.tuttis or medians.peers]
    return sorted(kinds, key=lambda medians: -medians.repetitions)


def is_covered(entry, rounds):
    """Whether there is a kind of distance of which everybody has `rounds` runs at every size. Runs that failed do not
    count against it: they would fail again."""
    points, covered = set(), {kind: {} for kind in KINDS}
    for number, run in enumerate(entry["runs"]):
        for name, size, kind, _, _ in samples_of(entry, run):
            points.add((name, size))
            if kind in covered:
                covered[kind].setdefault((name, size), set()).add(number)
    return any(all(len(found.get(point, ())) >= rounds for point in points) for found in covered.values())


def size_text(size):
    for unit, name in ((1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")):
        if size >= unit and size % unit == 0:
            return f"{size // unit}{name}"
    return str(size)


def number(value):
    """Three significant digits, without an exponent."""
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def rows_of(medians):
    """The table's header and rows, as strings."""
    with_floor = any(medians.floor(size) for size in medians.sizes())
    header = ["bytes", *medians.tuttis, *medians.peers, *(["floor"] if with_floor else []), "best peer",
              *(f"best/{name}" for name in medians.tuttis)]
    if with_floor:
        header += [f"{name} of floor" for name in medians.tuttis]
    rows = []
    for size in medians.sizes():
        best, floor = medians.best_peer(size), medians.floor(size)
        row = [size_text(size)]
        row += [number(medians.times[name].get(size)) for name in medians.tuttis + medians.peers]
        row += [number(floor)] if with_floor else []
        row.append(best[0] if best else "-")
        for name in medians.tuttis:
            time = medians.times[name].get(size)
            row.append(f"{best[1] / time:.2f}x" if best and time else "-")
        for name in medians.tuttis if with_floor else []:
            time = medians.times[name].get(size)
            row.append(f"{100 * floor / time:.0f}%" if floor and time else "-")
        rows.append(row)
    return header, rows


def title(case, medians):
    counts = medians.rounds
    rounds = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    distance = f"{medians.kind}: {medians.ping_ns:.0f} ns one way, " if medians.ping_ns else ""
    return f"{case}; {distance}µs, medians of {rounds} rounds"


def text_table(case, medians):
    header, rows = rows_of(medians)
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths)) for row in [header, *rows]]
    return "\n".join([title(case, medians), *lines])


def markdown_table(case, medians):
    header, rows = rows_of(medians)
    lines = [" | ".join(row).join(("| ", " |")) for row in [header, ["---:"] * len(header), *rows]]
    return "\n".join([title(case, medians), "", *lines])
