// The picture: above, the machine as boxes in boxes (NUMA nodes, switches, GPUs and cards); below, the links among the
// GPUs as chords of a circle, and the matrix of paths, coloured by class; then the ring of each lane.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "topo/speeds.h"
#include "tutti/topo.h"

namespace tutti {
namespace {

constexpr double kLeafWidth = 104, kLeafHeight = 46, kGap = 10, kHead = 22, kWidest = 1180, kMargin = 24;

std::string_view colour_of(PathClass path_class) {
  switch (path_class) {
    case PathClass::loc:
      return "#eceff1";
    case PathClass::nvl:
      return "#81c784";
    case PathClass::nvb:
      return "#c5e1a5";
    case PathClass::c2c:
      return "#80cbc4";
    case PathClass::pix:
      return "#90caf9";
    case PathClass::pxb:
      return "#bbdefb";
    case PathClass::p2c:
      return "#b2dfdb";
    case PathClass::pxn:
      return "#fff59d";
    case PathClass::phb:
      return "#ffcc80";
    case PathClass::sys:
      return "#ef9a9a";
    default:
      return "#ffffff";
  }
}

constexpr std::string_view kLaneColours[] = {"#1565c0", "#c62828", "#2e7d32", "#6a1b9a",
                                             "#ef6c00", "#00838f", "#4e342e", "#ad1457"};

// A box with boxes in it, laid out in rows.
struct Box {
  std::string title, subtitle;
  std::string_view fill = "#ffffff", stroke = "#90a4ae";
  std::vector<Box> inner;
  bool leaf = false;
  double x = 0, y = 0, width = kLeafWidth, height = kLeafHeight;

  // Places what is inside from (0, 0) on; rows break before `widest`.
  void lay_out(double widest) {
    if (leaf) return;
    double row_x = kGap, row_y = kHead, row_height = 0;
    width = std::max<double>(kLeafWidth + 2 * kGap, 8.0 * static_cast<double>(title.size()) + 2 * kGap);
    for (Box& box : inner) {
      box.lay_out(widest - 2 * kGap);
      if (row_x > kGap && row_x + box.width + kGap > widest) {
        row_x = kGap;
        row_y += row_height + kGap;
        row_height = 0;
      }
      box.x = row_x;
      box.y = row_y;
      row_x += box.width + kGap;
      row_height = std::max(row_height, box.height);
      width = std::max(width, row_x);
    }
    height = row_y + row_height + kGap;
  }

  void draw(std::string& svg, double at_x, double at_y) const {
    const double left = at_x + x, top = at_y + y;
    svg += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"6\" fill=\"{}\" stroke=\"{}\"/>\n",
        left, top, width, height, fill, stroke);
    if (leaf) {
      svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\" class=\"b\">{}</text>\n",
                         left + width / 2, top + 19, escaped(title, 14));
      svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\" class=\"s\">{}</text>\n",
                         left + width / 2, top + 35, escaped(subtitle, 17));
      return;
    }
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"h\">{}</text>\n", left + kGap, top + 15,
                       escaped(title, 100));
    for (const Box& box : inner) box.draw(svg, left, top);
  }
};

Box leaf(std::string title, std::string subtitle, std::string_view fill, std::string_view stroke) {
  Box box;
  box.title = std::move(title);
  box.subtitle = std::move(subtitle);
  box.fill = fill;
  box.stroke = stroke;
  box.leaf = true;
  return box;
}

Box nic_box(const Nic& nic) {
  std::string below = nic.mbit_s == 0 ? "speed unknown" : describe_speed(nic);
  if (!nic.up) below = "down";
  return leaf(nic.name, below, nic.up ? "#ffe0b2" : "#eeeeee", "#fb8c00");
}

// The boxes of what stands below a switch, or (kNone) at a NUMA node.
std::vector<Box> boxes_below(const TopologyView& view, const std::vector<bool>& shown, int32_t parent, uint32_t numa) {
  const Machine& machine = view.machine;
  std::vector<Box> boxes;
  for (uint32_t d = 0; d < machine.pci.size(); ++d) {
    const PciDevice& device = machine.pci[d];
    if (!shown[d] || device.parent != parent || (parent == kNone && device.numa != numa)) continue;
    if (device.kind == PciKind::bridge) {
      Box box;
      box.title = fmt::format("switch, {} GB/s", gigabytes(pcie_gb_s(device.lane_gt_s, device.lanes)));
      box.fill = "#fafafa";
      box.inner = boxes_below(view, shown, static_cast<int32_t>(d), numa);
      boxes.push_back(std::move(box));
      continue;
    }
    for (const Gpu& gpu : machine.gpus)
      if (gpu.pci == d)
        boxes.push_back(leaf(fmt::format("GPU {}", gpu.dev), to_text(device.bus), "#bbdefb", "#1e88e5"));
    for (const Nic& nic : machine.nics)
      if (nic.pci == static_cast<int32_t>(d)) boxes.push_back(nic_box(nic));
  }
  if (parent == kNone)
    for (const Nic& nic : machine.nics)
      if (nic.pci == kNone && nic.numa == numa) boxes.push_back(nic_box(nic));
  return boxes;
}

Box machine_box(const TopologyView& view) {
  const std::vector<bool> shown = shown_devices(view.machine);
  Box all;
  all.title = fmt::format("{}: {}", view.title, describe(view.machine));
  all.fill = "#ffffff";
  for (uint32_t n = 0; n < view.machine.numas.size(); ++n) {
    Box box;
    box.title = describe(view.machine.numas[n]);
    box.fill = "#eceff1";
    box.inner = boxes_below(view, shown, kNone, n);
    all.inner.push_back(std::move(box));
  }
  all.lay_out(kWidest);
  return all;
}

// GPUs on a circle, a chord for each pair of linked ones; NVSwitches as one in the middle. Returns the height used.
double draw_links(const TopologyView& view, std::string& svg, double left, double top) {
  const Machine& machine = view.machine;
  const uint32_t n = view.fabric.gpus();
  if (machine.links.empty() || n < 2) return 0;
  const double radius = std::clamp(n * 17.0, 90.0, 190.0), half = radius + 36;
  const double cx = left + half, cy = top + half + 10;
  svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"h\">links between GPUs</text>\n", left, top);
  const auto point = [&](uint32_t g, double r) {
    const double angle = 2 * std::numbers::pi * g / n - std::numbers::pi / 2;
    return std::pair(cx + r * std::cos(angle), cy + r * std::sin(angle));
  };
  bool switched = false;
  for (const GpuLink& link : machine.links) {
    const auto [x1, y1] = point(link.gpu, radius);
    double x2 = cx, y2 = cy;
    if (link.target_kind == GpuLinkTarget::numa) continue;
    if (link.target_kind == GpuLinkTarget::nvswitch)
      switched = true;
    else if (link.gpu > link.target)
      continue;  // both directions are one line
    else
      std::tie(x2, y2) = point(link.target, radius);
    svg += fmt::format(
        "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#43a047\" "
        "stroke-width=\"{:.1f}\" stroke-opacity=\"0.75\"/>\n",
        x1, y1, x2, y2, switched ? 3.0 : std::min(1.5 * link.count, 6.0));
  }
  if (switched) {
    svg += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"44\" fill=\"#c8e6c9\" stroke=\"#2e7d32\"/>\n", cx, cy);
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\" class=\"b\">NVSwitch</text>\n", cx, cy);
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\" class=\"s\">x {}</text>\n", cx, cy + 16,
                       machine.nvswitches.size());
  }
  for (uint32_t g = 0; g < n; ++g) {
    const auto [x, y] = point(g, radius);
    svg += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"15\" fill=\"#bbdefb\" stroke=\"#1e88e5\"/>\n", x, y);
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\" class=\"b\">{}</text>\n", x, y + 4,
                       machine.gpus[g].dev);
  }
  return 2 * half + 20;
}

double links_width(const TopologyView& view) {
  if (view.machine.links.empty() || view.fabric.gpus() < 2) return 0;
  return 2 * (std::clamp(view.fabric.gpus() * 17.0, 90.0, 190.0) + 36) + 30;
}

constexpr double kCell = 42, kCellHeight = 32, kRowHead = 48;

double draw_matrix(const TopologyView& view, std::string& svg, double left, double top) {
  const uint32_t n = view.fabric.gpus(), columns = n + view.fabric.nics();
  if (n == 0) return 0;
  svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"h\">paths: class and GB/s</text>\n", left, top);
  const double first_y = top + 28;
  for (uint32_t c = 0; c < columns; ++c)
    svg += fmt::format(
        "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\" class=\"t\">{}</text>\n",
        left + kRowHead + c * kCell + kCell / 2, first_y - 6,
        c < n ? fmt::format("GPU{}", view.machine.gpus[c].dev) : fmt::format("NIC{}", view.machine.nics[c - n].dev));
  for (uint32_t r = 0; r < n; ++r) {
    const double y = first_y + r * kCellHeight;
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"s\">GPU{}</text>\n", left, y + 20,
                       view.machine.gpus[r].dev);
    for (uint32_t c = 0; c < columns; ++c) {
      const Path& path = c < n ? view.fabric.between_gpus(r, c) : view.fabric.to_nic(r, c - n);
      const double x = left + kRowHead + c * kCell;
      const bool known = path.path_class != PathClass::net, own = path.path_class == PathClass::loc;
      svg +=
          fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{}\" height=\"{}\" fill=\"{}\" stroke=\"#ffffff\"/>\n",
                      x, y, kCell, kCellHeight, colour_of(path.path_class));
      if (!known || own) continue;
      svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\" class=\"t\">{}</text>\n",
                         x + kCell / 2, y + 14, name_of(path.path_class));
      svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\" class=\"t\">{}</text>\n",
                         x + kCell / 2, y + 26, gigabytes(path.gb_s));
    }
  }
  return 28 + n * kCellHeight + 12;
}

double matrix_width(const TopologyView& view) {
  return view.fabric.gpus() == 0 ? 0 : kRowHead + (view.fabric.gpus() + view.fabric.nics()) * kCell;
}

// The lanes as rows of discs, in order, with the card at both ends.
double draw_lanes(const TopologyView& view, std::string& svg, double left, double top) {
  if (view.order.lanes.empty()) return 0;
  constexpr double kRow = 30, kStep = 38;
  std::string title = fmt::format("ring of each lane; together {} GB/s within the node", gigabytes(view.order.gb_s));
  if (view.order.between_gb_s > 0) title += fmt::format(", {} GB/s between nodes", gigabytes(view.order.between_gb_s));
  svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"h\">{}</text>\n", left, top, title);
  for (size_t l = 0; l < view.order.lanes.size(); ++l) {
    const LaneOrder& lane = view.order.lanes[l];
    const double y = top + 26 + static_cast<double>(l) * kRow, first = left + 150;
    const std::string_view colour = kLaneColours[l % std::size(kLaneColours)];
    const std::string nic = lane.nic == kNone ? "" : escaped(view.machine.nics[static_cast<size_t>(lane.nic)].name, 14);
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"s\">lane {}{}{}</text>\n", left, y + 4, l,
                       nic.empty() ? "" : " · ", nic);
    svg += fmt::format(
        "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" stroke-width=\"3\"/>\n", first, y,
        first + kStep * static_cast<double>(lane.gpus.size() - 1), y, colour);
    for (size_t i = 0; i < lane.gpus.size(); ++i) {
      const double x = first + kStep * static_cast<double>(i);
      svg += fmt::format(
          "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"12\" fill=\"#ffffff\" stroke=\"{}\" stroke-width=\"2\"/>\n", x, y,
          colour);
      svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\" class=\"s\">{}</text>\n", x, y + 4,
                         view.machine.gpus[lane.gpus[i]].dev);
    }
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"s\">{}, {} GB/s</text>\n",
                       first + kStep * static_cast<double>(lane.gpus.size()) - 14, y + 4, name_of(lane.widest_class),
                       gigabytes(lane.gb_s));
  }
  return 26 + static_cast<double>(view.order.lanes.size()) * kRow + 10;
}

}  // namespace

std::string escaped(std::string_view text, size_t most) {
  std::string result;
  size_t count = 0;
  for (const char c : text) {
    if (++count > most) return result + "…";
    if (c == '&')
      result += "&amp;";
    else if (c == '<')
      result += "&lt;";
    else if (c == '>')
      result += "&gt;";
    else if (c == '"')
      result += "&quot;";
    else
      result += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return result;
}

std::string to_svg(const TopologyView& view) {
  std::string body;
  const Box box = machine_box(view);
  box.draw(body, kMargin, kMargin);
  double y = kMargin + box.height + 36, width = box.width;
  // Side by side where the two fit.
  const double links = links_width(view), matrix = matrix_width(view);
  const bool beside = links + matrix <= std::max(box.width, kWidest);
  const double links_height = draw_links(view, body, kMargin, y);
  if (!beside) y += links_height + 20;
  const double matrix_height = draw_matrix(view, body, kMargin + (beside ? links : 0), y);
  y += (beside ? std::max(links_height, matrix_height) : matrix_height) + 20;
  width = std::max(width, beside ? links + matrix : std::max(links, matrix));
  y += draw_lanes(view, body, kMargin, y);
  width = std::max(width, view.order.lanes.empty() ? 0.0 : 300 + 38.0 * view.fabric.gpus());
  const double all_width = width + 2 * kMargin, all_height = y + kMargin - 20;
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 "
             "{0:.0f} {1:.0f}\">\n"
             "<style>text{{font-family:Helvetica,Arial,sans-serif;fill:#263238}} .h{{font-size:13px;"
             "font-weight:bold}} .b{{font-size:12px;font-weight:bold}} .s{{font-size:11px}} "
             ".t{{font-size:10px}}</style>\n"
             "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
             all_width, all_height) +
         body + "</svg>\n";
}

}  // namespace tutti
