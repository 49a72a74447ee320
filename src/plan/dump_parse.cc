#include <charconv>
#include <limits>
#include <optional>

#include "plan/dump.h"

namespace tutti {
namespace {

// One line as words, with the place of each.
class Line {
 public:
  Line(std::string_view text, uint32_t number) : text_(text.substr(0, text.find('#'))), number_(number) {
    skip_blanks();
  }

  bool at_end() const { return at_ >= text_.size(); }
  // Takes the word or the punctuation if it comes next.
  bool take(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return false;
    const size_t end = at_ + word.size();
    if (is_letter(word.back()) && end < text_.size() && is_letter(text_[end])) return false;
    at_ = end;
    skip_blanks();
    return true;
  }
  bool next_is_letter() const { return !at_end() && is_letter(text_[at_]); }

  template <class Int>
  Result<Int> number(std::string_view what) {
    int64_t value = 0;
    const char* begin = text_.data() + at_;
    const char* end = text_.data() + text_.size();
    if (begin < end && *begin == '+') ++begin;
    const auto [stop, error] = std::from_chars(begin, end, value);
    if (error != std::errc()) return expected(what);
    if (value < std::numeric_limits<Int>::min() || value > static_cast<int64_t>(std::numeric_limits<Int>::max()))
      return wrong(fmt::format("{} {} is out of range; {} .. {} is allowed", what, value,
                               std::numeric_limits<Int>::min(), std::numeric_limits<Int>::max()));
    at_ = static_cast<size_t>(stop - text_.data());
    skip_blanks();
    return static_cast<Int>(value);
  }

  Status expected(std::string_view what) const {
    if (at_end()) return wrong(fmt::format("{} is expected, and the line ends", what));
    return wrong(fmt::format("{} is expected, not '{}'", what, text_.substr(at_, text_.find(' ', at_) - at_)));
  }
  Status wrong(std::string_view what) const {
    return invalid_argument("line {}, column {}: {}", number_, at_ + 1, what);
  }

 private:
  static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || c == '_'; }
  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\r')) ++at_;
  }

  std::string_view text_;
  uint32_t number_;
  size_t at_ = 0;
};

Status parse_slots(Line& line, uint16_t& first, uint16_t& count) {
  TUTTI_TRY_ASSIGN(first, line.number<uint16_t>("a peer slot"));
  count = 1;
  if (!line.take("count")) return {};
  TUTTI_TRY_ASSIGN(count, line.number<uint16_t>("a number of peers"));
  return {};
}

Status parse_walk(Line& line, Buffer& buffer, ChunkWalk& walk) {
  bool found = false;
  for (const Buffer b : {Buffer::none, Buffer::in, Buffer::out, Buffer::scratch})
    if (!found && line.take(name_of(b))) buffer = b, found = true;
  if (!found) return line.expected("none, in, out or scratch");
  if (!line.take("[")) return line.expected("'['");
  TUTTI_TRY_ASSIGN(walk.first, line.number<int32_t>("a chunk"));
  if (line.take("]")) return {};
  TUTTI_TRY_ASSIGN(walk.step, line.number<int32_t>("a step or ']'"));
  return line.take("]") ? Status() : line.expected("']'");
}

// The words of a move, in the order of to_text.
constexpr std::string_view kWords[] = {"recv", "load",   "at",        "store",   "send",
                                       "span", "repeat", "peer_step", "complete"};

Status parse_word(Line& line, size_t word, Move& m) {
  switch (word) {
    case 0:
      return parse_slots(line, m.recv_first, m.recv_count);
    case 1:
      return parse_walk(line, m.load_from, m.load);
    case 2: {
      TUTTI_TRY_ASSIGN(m.local_pos, line.number<uint16_t>("an operand number"));
      return {};
    }
    case 3:
      return parse_walk(line, m.store_to, m.store);
    case 4:
      return parse_slots(line, m.send_first, m.send_count);
    case 5: {
      TUTTI_TRY_ASSIGN(m.span, line.number<uint16_t>("a number of chunks"));
      return {};
    }
    case 6: {
      TUTTI_TRY_ASSIGN(m.repeat, line.number<uint32_t>("a number of iterations"));
      return {};
    }
    case 7: {
      TUTTI_TRY_ASSIGN(m.peer_step, line.number<int16_t>("a step over slots"));
      return {};
    }
    default:
      m.complete = 1;
      return {};
  }
}

Result<Move> parse_move(Line& line) {
  Move m;
  bool seen[std::size(kWords)] = {};
  while (!line.at_end()) {
    std::optional<size_t> word;
    for (size_t w = 0; w < std::size(kWords) && !word; ++w)
      if (!seen[w] && line.take(kWords[w])) word = w;
    if (!word)
      return line.expected("recv, load, at, store, send, span, repeat, peer_step or complete, each at most once");
    seen[*word] = true;
    TUTTI_TRY(parse_word(line, *word, m));
  }
  return m;
}

Result<Lane> parse_lane(Line& line) {
  if (!line.take("peers")) return line.expected("peers");
  Lane lane;
  while (!line.at_end()) {
    TUTTI_TRY_ASSIGN(const uint32_t rank, line.number<uint32_t>("a rank"));
    if (!line.take(":")) return line.expected("':'");
    TUTTI_TRY_ASSIGN(const uint16_t channel, line.number<uint16_t>("a channel"));
    lane.peers.push_back({Rank{rank}, ChannelId{channel}});
  }
  return lane;
}

Result<Plan> parse_head(Line& line) {
  Plan plan;
  if (!line.take("chunks")) return line.expected("chunks");
  TUTTI_TRY_ASSIGN(plan.chunks, line.number<uint32_t>("a number of chunks"));
  if (line.take("scratch")) {
    TUTTI_TRY_ASSIGN(plan.scratch_chunks, line.number<uint32_t>("a number of chunks"));
  }
  if (!line.at_end()) return line.expected("scratch or the end of the line");
  return plan;
}

// Reads one line into the plans so far.
Status parse_line(Line& line, std::vector<Plan>& plans, uint32_t& ranks) {
  if (line.take("rank")) {
    TUTTI_TRY_ASSIGN(const uint32_t rank, line.number<uint32_t>("a rank"));
    if (rank != ranks || plans.size() != ranks)
      return line.wrong(fmt::format("rank {} is expected here", plans.size()));
    ++ranks;
    return line.at_end() ? Status() : line.expected("the end of the line");
  }
  if (line.take("plan")) {
    TUTTI_TRY_ASSIGN(Plan plan, parse_head(line));
    if (!plans.empty() && plans.size() >= ranks) return line.wrong("a second plan needs a line 'rank 1' before it");
    plans.push_back(std::move(plan));
    return {};
  }
  if (line.take("lane")) {
    if (plans.empty() || plans.size() < ranks) return line.wrong("a lane comes after 'plan chunks ...'");
    TUTTI_TRY_ASSIGN(Lane lane, parse_lane(line));
    plans.back().lanes.push_back(std::move(lane));
    return {};
  }
  if (line.take("move")) {
    if (plans.empty() || plans.size() < ranks || plans.back().lanes.empty())
      return line.wrong("a move comes after 'lane peers ...'");
    TUTTI_TRY_ASSIGN(const Move m, parse_move(line));
    plans.back().lanes.back().moves.push_back(m);
    return {};
  }
  return line.expected("rank, plan, lane or move");
}

}  // namespace

Result<std::vector<Plan>> parse_plans(std::string_view text) {
  std::vector<Plan> plans;
  uint32_t ranks = 0, number = 0;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    Line line(text.substr(0, end), ++number);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (!line.at_end()) TUTTI_TRY(parse_line(line, plans, ranks));
  }
  if (plans.empty() || plans.size() < ranks)
    return invalid_argument("line {}, column 1: 'plan chunks ...' is expected, and the text ends", number + 1);
  return plans;
}

Result<Plan> parse_plan(std::string_view text) {
  TUTTI_TRY_ASSIGN(std::vector<Plan> plans, parse_plans(text));
  if (plans.size() != 1) return invalid_argument("the text holds {} plans; one is expected", plans.size());
  return std::move(plans.front());
}

}  // namespace tutti
