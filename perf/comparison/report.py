"""From runs to medians, ratios and the table.

A run is near or far by the distance measured before and after it; runs of different kinds are never mixed. Per kind,
subject and size the value is the median over the rounds of the median over a run's repetitions.
"""

from statistics import median

from .rounds import time_us

FAR_NS = 120  # on the machines seen so far processors are 45 to 60 or 200 to 280 ns apart


def kind_of(run):
    """near, far, changed (the machine moved the processors during the run), or any (one processor)."""
    before, after = run["ping_ns"]
    if before is None:
        return "any"
    if (before >= FAR_NS) != (after >= FAR_NS):
        return "changed"
    return "far" if before >= FAR_NS else "near"


def result_key(run, result):
    """Whose column a result belongs to. The floor's program measures several kernels."""
    return result["collective"] if run["kind"] == "floor" else run["subject"]


class Medians:
    """Of one case and one kind of distance: times[name][bytes] in µs."""

    def __init__(self, runs, kind):
        self.kind = kind
        self.runs = [run for run in runs if kind_of(run) == kind and "results" in run]
        samples = {}
        for run in self.runs:
            for result in run["results"]:
                samples.setdefault(result_key(run, result), {}).setdefault(result["bytes"], []).append(time_us(result))
        self.times = {name: {size: median(values) for size, values in sizes.items()} for name, sizes in samples.items()}
        self.rounds = {name: max(map(len, sizes.values())) for name, sizes in samples.items()}
        self.subjects = list(dict.fromkeys(run["subject"] for run in sorted(self.runs, key=lambda run: run["order"])))
        self.peers = [name for name in self.subjects if any(r["subject"] == name and r["kind"] == "peer" for r in self.runs)]
        self.tuttis = [name for name in self.subjects if any(r["subject"] == name and r["kind"] == "tutti" for r in self.runs)]
        pings = [ping for run in self.runs for ping in run["ping_ns"] if ping is not None]
        self.ping_ns = median(pings) if pings else None

    def sizes(self):
        return sorted({size for name in self.tuttis + self.peers for size in self.times[name]})

    def best_peer(self, size):
        """(name, µs), or None."""
        times = [(self.times[name][size], name) for name in self.peers if size in self.times[name]]
        return min(times)[::-1] if times else None

    def floor(self, size):
        """µs: the better of the ideal in-place kernels; below a page, one line's way. None where nobody measured it."""
        kernels = [self.times[name][size] for name in ("in_place_ordinary", "in_place_streaming")
                   if size in self.times.get(name, {})]
        if kernels:
            return min(kernels)
        measured = "in_place_ordinary" in self.times and size < 4096
        return self.ping_ns / 1000 if measured and self.ping_ns else None


def medians_by_kind(case_runs, order):
    """One Medians for each kind of distance that has something to compare, the best covered first."""
    runs = [{**run, "order": order.get(run["subject"], 0)} for run in case_runs]
    kinds = [Medians(runs, kind) for kind in ("near", "far", "any")]
    kinds = [medians for medians in kinds if medians.tuttis or medians.peers]
    return sorted(kinds, key=lambda medians: -len(medians.runs))


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
    tutti = medians.tuttis[0] if medians.tuttis else None
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
    counts = sorted(medians.rounds.values())
    rounds = f"{counts[0]}" if counts[0] == counts[-1] else f"{counts[0]} to {counts[-1]}"
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
