"""The picture: time of small sizes and bandwidth of large ones over size, as an SVG that fits light and dark pages.

Both axes are logarithmic. Lines are labelled at their right end, in their own colour, so there is no legend to look up.
"""

import math
from html import escape

from .report import size_text

WIDTH, HEIGHT = 920, 430
TOP, BOTTOM, LEFT, LABELS, GAP = 74, 56, 62, 142, 62
SPLIT = 64 << 10  # time up to here, bandwidth from here
LINE_HEIGHT = 15

STYLE = """
  svg { --ink: #1f2328; --soft: #59636e; --grid: #e4e7eb; --paper: #ffffff; --own: #0b62d6; --own2: #0f8f8a;
        --p0: #c2410c; --p1: #a3731a; --p2: #9d3fb5; --p3: #5b7a1f; --p4: #b91c5c; --p5: #7a5c3e; --p6: #4b5563; }
  @media (prefers-color-scheme: dark) {
    svg { --ink: #e6edf3; --soft: #9aa4af; --grid: #2b323b; --paper: #0d1117; --own: #58a6ff; --own2: #3fd0c9;
          --p0: #ff8a4c; --p1: #e0b04a; --p2: #d58bea; --p3: #a5cf5c; --p4: #ff7ab0; --p5: #c9a27e; --p6: #a3adb8; }
  }
  text { font: 12px system-ui, -apple-system, "Segoe UI", sans-serif; fill: var(--soft); }
  .title { font-size: 16px; font-weight: 600; fill: var(--ink); }
  .panel { font-weight: 600; fill: var(--ink); }
  .grid { stroke: var(--grid); stroke-width: 1; }
  .line { fill: none; stroke-width: 1.6; stroke-linejoin: round; }
  .own { stroke-width: 3; }
  .floor { stroke: var(--soft); stroke-width: 1.6; stroke-dasharray: 5 4; }
  .strong { font-weight: 600; }
"""

COLLECTIVE_TITLES = {"all_reduce": "AllReduce", "reduce_scatter": "ReduceScatter", "all_gather": "AllGather",
                     "broadcast": "Broadcast"}
TRANSPORT_TITLES = {"shm": "shared memory", "tcp": "TCP over loopback"}


class Axis:
    """Logarithmic: values from low to high onto pixels from start to end."""

    def __init__(self, low, high, start, end):
        self.low, self.high, self.start, self.end = math.log(low), math.log(max(high, low * 1.01)), start, end

    def at(self, value):
        return self.start + (math.log(value) - self.low) / (self.high - self.low) * (self.end - self.start)


class Series:
    def __init__(self, name, points, colour, style=""):
        self.name, self.points, self.colour, self.style = name, dict(sorted(points.items())), colour, style


def all_series(medians):
    """Peers first, so that what is drawn last lies on top."""
    series = [Series(name, medians.times[name], f"var(--p{i % 7})") for i, name in enumerate(medians.peers)]
    floor = {size: medians.floor(size) for size in medians.sizes() if medians.floor(size)}
    if floor:
        series.append(Series("floor", floor, "var(--soft)", "floor"))
    for i, name in reversed(list(enumerate(medians.tuttis))):
        series.append(Series(name, medians.times[name], "var(--own)" if i == 0 else "var(--own2)", "own" if i == 0 else ""))
    return series


def nice_steps(low, high):
    """1, 2, 5, 10, ... within the range; only the tens where the range is wide."""
    digits = (1,) if high / low > 3000 else (1, 2, 5)
    exponents = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
    return [d * 10.0**e for e in exponents for d in digits if low <= d * 10.0**e <= high]


def plain(value):
    return f"{value:g}"


def spread(labels, low, high):
    """Moves [(y, ...)] apart, so that neighbours are a line's height apart, as little as that needs."""
    placed = []
    for y, *rest in sorted(labels):
        placed.append([max(y, placed[-1][0] + LINE_HEIGHT) if placed else max(y, low), *rest])
    limit = high
    for label in reversed(placed):
        label[0] = min(label[0], limit)
        limit = label[0] - LINE_HEIGHT
    return placed


class Panel:
    """One diagram. value(size, µs) is what it shows."""

    def __init__(self, title, series, sizes, value, left, right, labelled):
        self.title, self.left, self.right, self.labelled = title, left, right, labelled
        self.lines = [(s, {size: value(size, s.points[size]) for size in sizes if size in s.points}) for s in series]
        self.lines = [(s, points) for s, points in self.lines if points]
        values = [v for _, points in self.lines for v in points.values()]
        self.sizes = sizes
        self.low, self.high = min(values) / 1.15, max(values) * 1.15
        self.x = Axis(sizes[0], sizes[-1], left, right)
        self.y = Axis(self.low, self.high, HEIGHT - BOTTOM, TOP)

    def draw(self):
        yield f'<text class="panel" x="{self.left}" y="{TOP - 10}">{escape(self.title)}</text>'
        for step in nice_steps(self.low, self.high):
            y = self.y.at(step)
            yield f'<line class="grid" x1="{self.left}" x2="{self.right}" y1="{y:.1f}" y2="{y:.1f}"/>'
            yield f'<text x="{self.left - 8}" y="{y + 4:.1f}" text-anchor="end">{plain(step)}</text>'
        for size in self.sizes:
            x = self.x.at(size)
            yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>'
            yield f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{size_text(size)}</text>'
        for s, points in self.lines:
            path = " ".join(f"{self.x.at(size):.1f},{self.y.at(v):.1f}" for size, v in points.items())
            yield f'<polyline class="line {s.style}" stroke="{s.colour}" points="{path}"/>'
        if self.labelled:
            yield from self.labels()

    def labels(self):
        ends = [(self.y.at(list(points.values())[-1]), self.x.at(list(points)[-1]), s) for s, points in self.lines]
        ends = [(y, i, x, s) for i, (y, x, s) in enumerate(ends)]
        for y, _, _, s in spread(ends, TOP, HEIGHT - BOTTOM):
            strong = " strong" if s.style == "own" else ""
            yield (f'<text class="label{strong}" x="{self.right + 10}" y="{y + 4:.1f}" '
                   f'style="fill: {s.colour}">{escape(s.name)}</text>')


def panels(series, sizes):
    small, large = [s for s in sizes if s <= SPLIT], [s for s in sizes if s >= SPLIT]
    time = ("Time, µs (lower is better)", lambda size, us: us)
    bandwidth = ("Bandwidth, GB/s (bytes / time; higher is better)", lambda size, us: size / us / 1000)
    end = WIDTH - LABELS
    if len(small) < 2 or len(large) < 2:
        text, value = time if len(large) < 2 else bandwidth
        return [Panel(text, series, sizes, value, LEFT, end, True)]
    share = LEFT + (end - LEFT - GAP) * len(small) / (len(small) + len(large))
    return [Panel(time[0], series, small, time[1], LEFT, share, False),
            Panel(bandwidth[0], series, large, bandwidth[1], share + GAP, end, True)]


def draw(case, medians, machine, date):
    """The SVG's text. Requires at least one size."""
    series = all_series(medians)
    heading = (f"{COLLECTIVE_TITLES[case.collective]} of float32 between {case.nranks} ranks, "
               f"{TRANSPORT_TITLES[case.transport]}")
    distance = f", processors {medians.ping_ns:.0f} ns apart" if medians.ping_ns else ""
    footing = (f"{machine['processor']}, {machine['cores']} cores{distance}; Open MPI {machine['openmpi'].split('-')[0]}, "
               f"MPICH {machine['mpich'].split('-')[0]}; medians of runs in turns, {date[:10]}")
    body = [f'<text class="title" x="{LEFT - 40}" y="30">{escape(heading)}</text>']
    for panel in panels(series, medians.sizes()):
        body += panel.draw()
    body.append(f'<text x="{LEFT - 40}" y="{HEIGHT - 12}">{escape(footing)}</text>')
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(heading)}">',
        f"<style>{STYLE}</style>", f'<rect width="{WIDTH}" height="{HEIGHT}" fill="var(--paper)"/>', *body, "</svg>", ""])
