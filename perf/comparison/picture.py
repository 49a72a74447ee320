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

# name: colour on light, on dark. Plain classes rather than CSS variables: more programs than browsers draw them.
COLOURS = {"tutti0": ("#0b62d6", "#58a6ff"), "tutti1": ("#0f8f8a", "#3fd0c9"), "floor": ("#59636e", "#9aa4af"),
           "peer0": ("#c2410c", "#ff8a4c"), "peer1": ("#a3731a", "#e0b04a"), "peer2": ("#9d3fb5", "#d58bea"),
           "peer3": ("#5b7a1f", "#a5cf5c"), "peer4": ("#b91c5c", "#ff7ab0"), "peer5": ("#7a5c3e", "#c9a27e")}
PAGE = {"paper": ("#ffffff", "#0d1117"), "ink": ("#1f2328", "#e6edf3"), "soft": ("#59636e", "#9aa4af"),
        "grid": ("#e4e7eb", "#2b323b")}


def colour_rules(dark):
    page = {name: pair[dark] for name, pair in PAGE.items()}
    rules = [f".paper {{ fill: {page['paper']}; }}", f"text {{ fill: {page['soft']}; }}",
             f".title, .panel {{ fill: {page['ink']}; }}", f".grid {{ stroke: {page['grid']}; }}"]
    for name, pair in COLOURS.items():
        rules.append(f".{name} {{ stroke: {pair[dark]}; }} text.{name} {{ fill: {pair[dark]}; stroke: none; }}")
    return "\n  ".join(rules)


STYLE = f"""
  text {{ font: 12px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }}
  .title {{ font-size: 16px; font-weight: 600; }}
  .panel {{ font-weight: 600; }}
  .line {{ fill: none; stroke-width: 1.6; stroke-linejoin: round; }}
  .line.tutti0 {{ stroke-width: 3; }}
  .line.floor {{ stroke-dasharray: 5 4; }}
  text.tutti0 {{ font-weight: 600; }}
  {colour_rules(False)}
  @media (prefers-color-scheme: dark) {{
  {colour_rules(True)}
  }}
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
    """A line; look: its CSS class, a name of COLOURS."""

    def __init__(self, name, points, look):
        self.name, self.points, self.look = name, dict(sorted(points.items())), look


def all_series(medians):
    """Peers first, so that what is drawn last lies on top."""
    series = [Series(name, medians.times[name], f"peer{i % 6}") for i, name in enumerate(medians.peers)]
    floor = {size: medians.floor(size) for size in medians.sizes() if medians.floor(size)}
    if floor:
        series.append(Series("floor", floor, "floor"))
    for i, name in reversed(list(enumerate(medians.tuttis))):
        series.append(Series(name, medians.times[name], f"tutti{min(i, 1)}"))
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
            yield f'<polyline class="line {s.look}" points="{path}"/>'
        if self.labelled:
            yield from self.labels()

    def labels(self):
        ends = [(self.y.at(list(points.values())[-1]), self.x.at(list(points)[-1]), s) for s, points in self.lines]
        ends = [(y, i, x, s) for i, (y, x, s) in enumerate(ends)]
        for y, _, _, s in spread(ends, TOP, HEIGHT - BOTTOM - LINE_HEIGHT):
            yield f'<text class="{s.look}" x="{self.right + 10}" y="{y + 4:.1f}">{escape(s.name)}</text>'


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
        f"<style>{STYLE}</style>", f'<rect width="{WIDTH}" height="{HEIGHT}" class="paper"/>', *body, "</svg>", ""])
