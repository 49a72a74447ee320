// A graph file as a picture: a row of discs for each channel, GPUs round, cards square.
#include <fmt/format.h>

#include <algorithm>

#include "tutti/topo.h"

namespace tutti {
namespace {

constexpr double kMargin = 24, kRow = 32, kStep = 40, kFirst = 110;

void draw_step(const ChannelGraph::Step& step, double x, double y, std::string& svg) {
  if (step.stop == ChannelGraph::Stop::net)
    svg += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"26\" height=\"24\" rx=\"4\" fill=\"#ffe0b2\" "
        "stroke=\"#fb8c00\"/>\n",
        x - 13, y - 12);
  else
    svg += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"13\" fill=\"#bbdefb\" stroke=\"#1e88e5\"/>\n", x, y);
  svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n", x, y + 4, step.dev);
}

}  // namespace

std::string to_svg(const std::string& title, const std::vector<ChannelGraph>& graphs) {
  std::string body;
  double y = kMargin, width = 480;
  const auto heading = [&](std::string_view text) {
    body += fmt::format("<text x=\"{}\" y=\"{:.1f}\" font-weight=\"bold\">{}</text>\n", kMargin, y += 20,
                        escaped(text, 100));
    y += kRow;
  };
  heading(title);
  for (const ChannelGraph& graph : graphs) {
    heading(fmt::format("{}: {} GB/s within a node, {} GB/s between nodes", name_of_graph(graph),
                        gigabytes(graph.gb_s_intra), gigabytes(graph.gb_s_inter)));
    for (size_t c = 0; c < graph.channels.size(); ++c, y += kRow) {
      const auto& steps = graph.channels[c];
      const double end = kFirst + kStep * static_cast<double>(std::max<size_t>(steps.size(), 1) - 1);
      width = std::max(width, end + kStep);
      body += fmt::format(
          "<text x=\"{}\" y=\"{:.1f}\">lane {}</text>\n<line x1=\"{}\" y1=\"{:.1f}\" x2=\"{:.1f}\" "
          "y2=\"{:.1f}\" stroke=\"#90a4ae\" stroke-width=\"3\"/>\n",
          kMargin, y + 4, c, kFirst, y, end, y);
      for (size_t i = 0; i < steps.size(); ++i) draw_step(steps[i], kFirst + kStep * static_cast<double>(i), y, body);
    }
  }
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} "
      "{1:.0f}\" font-family=\"Helvetica,Arial,sans-serif\" font-size=\"12\" fill=\"#263238\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n{2}</svg>\n",
      width + kMargin, y + kMargin, body);
}

}  // namespace tutti
