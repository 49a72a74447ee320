#include "base/config_grammar.h"

#include <fmt/format.h>
#include <net/if.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>

namespace tutti {
namespace {

char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

std::string lowered(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), lower);
  return out;
}

// "a,b,c". (fmt::join does the same with 40 lines of warnings from g++ 12 at -O3.)
template <class List>
std::string joined(const List& list, std::string_view separator) {
  std::string out;
  for (const auto& item : list) {
    if (!out.empty()) out += separator;
    out += item;
  }
  return out;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

// Optimal string alignment: insertions, deletions, substitutions and swaps of neighbours each cost one.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before_last, last, row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    before_last = std::exchange(last, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
  }
  return row[b.size()];
}

// Near enough to be suggested: one typing error in three characters and at most three, or one word begins the other.
bool is_near(std::string_view word, std::string_view candidate, size_t distance) {
  const size_t shorter = std::min(word.size(), candidate.size());
  if (shorter >= 3 && word.substr(0, shorter) == candidate.substr(0, shorter)) return true;
  return distance <= std::clamp<size_t>(word.size() / 3, 1, 3) && distance < word.size();
}

}  // namespace

std::string_view nearest_name(std::string_view word, std::span<const std::string_view> candidates) {
  const std::string wanted = lowered(word);
  std::string_view best;
  size_t best_distance = std::numeric_limits<size_t>::max();
  for (std::string_view candidate : candidates) {
    const std::string name = lowered(candidate);
    const size_t distance = edit_distance(wanted, name);
    if (distance < best_distance && is_near(wanted, name, distance)) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

Result<uint64_t> parse_bytes(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view suffix = text.substr(static_cast<size_t>(end - text.data()));
  int shift = 0;
  if (suffix.size() == 1) {
    const size_t power = std::string_view("kmg").find(lower(suffix[0]));
    shift = power == std::string_view::npos ? 0 : static_cast<int>(10 * (power + 1));
  }
  if (error == std::errc::invalid_argument || (!suffix.empty() && shift == 0))
    return invalid_usage("'{}' is not a number of bytes; write it like 512, 64K, 1M or 2G (powers of 1024)", text);
  if (error == std::errc::result_out_of_range || number > (std::numeric_limits<uint64_t>::max() >> shift))
    return invalid_usage("'{}' is more bytes than 64 bits can count", text);
  return number << shift;
}

namespace config_grammar {
namespace {

// "; did you mean 'ring'?" or nothing.
std::string suggestion(std::string_view word, Words candidates) {
  const std::string_view near = nearest_name(word, candidates);
  return near.empty() ? "" : fmt::format("; did you mean '{}'?", near);
}

bool is_identifier(std::string_view name) {
  return !name.empty() &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-'; });
}

Status check_name(std::string_view name, Words known) {
  if (name.empty())
    return invalid_usage("a name is missing; write names separated by single commas, like 'a,b' or '^a,b'");
  if (known.empty()) {
    if (is_identifier(name)) return {};
    return invalid_usage("'{}' is not a name; names consist of letters, digits, '_' and '-', separated by commas",
                         name);
  }
  if (std::find(known.begin(), known.end(), name) != known.end()) return {};
  return invalid_usage("'{}' is unknown; allowed are {}{}", name, joined(known, ", "), suggestion(name, known));
}

std::vector<std::string_view> collective_names() {
  std::vector<std::string_view> names;
  for (int i = 0; i < kCollectiveCount; ++i) names.push_back(name_of(static_cast<Collective>(i)));
  return names;
}

}  // namespace

Result<uint64_t> parse_integer(std::string_view text, uint64_t least, uint64_t most) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < least || number > most)
    return invalid_usage("'{}' is not a whole number from {} to {}", text, least, most);
  return number;
}

Result<NameList> parse_name_list(std::string_view text, Words known) {
  NameList list;
  if (!text.empty() && text[0] == '^') {
    list.exclude = true;
    text.remove_prefix(1);
  }
  for (std::string_view name : split(text, ',')) {
    TUTTI_TRY(check_name(name, known));
    if (std::find(list.names.begin(), list.names.end(), name) != list.names.end())
      return invalid_usage("'{}' is listed twice", name);
    list.names.emplace_back(name);
  }
  // Each is named once, so this many are all.
  if (list.exclude && !known.empty() && list.names.size() == known.size())
    return invalid_usage("this excludes all there is: {}; leave one of them", joined(known, ", "));
  return list;
}

std::string show(const NameList& list) { return fmt::format("{}{}", list.exclude ? "^" : "", joined(list.names, ",")); }

Result<size_t> parse_word(std::string_view text, Words known) {
  for (size_t i = 0; i < known.size(); ++i)
    if (lowered(known[i]) == lowered(text)) return i;
  return invalid_usage("'{}' is unknown; allowed are {}{}", text, joined(known, ", "), suggestion(text, known));
}

Result<AlgorithmFilter> parse_algorithm_filter(std::string_view text) {
  AlgorithmFilter filter;
  const std::vector<std::string_view> parts = split(text, ';');
  for (size_t i = 0; i < parts.size(); ++i) {
    const size_t colon = parts[i].find(':');
    if (colon == std::string_view::npos) {
      if (i > 0 || parts[i].empty())
        return invalid_usage(
            "'{}' in part {} names no collective; write [list;]collective:list;... like "
            "'ring;broadcast:tree', with the list for all collectives first",
            parts[i], i + 1);
      TUTTI_TRY_ASSIGN(filter.general, parse_name_list(parts[i], {}));
      continue;
    }
    const std::string_view name = parts[i].substr(0, colon);
    const std::optional<Collective> collective = parse_collective(name);
    if (!collective) {
      const std::vector<std::string_view> names = collective_names();
      return invalid_usage("there is no collective '{}'; there are {}{}", name, joined(names, ", "),
                           suggestion(name, names));
    }
    for (const auto& [earlier, list] : filter.per_collective)
      if (earlier == *collective) return invalid_usage("{} is given two lists", name_of(*collective));
    Result<NameList> list = parse_name_list(parts[i].substr(colon + 1), {});
    if (!list.ok()) return list.status().within(name);
    filter.per_collective.emplace_back(*collective, std::move(list).value());
  }
  return filter;
}

std::string show(const AlgorithmFilter& filter) {
  std::vector<std::string> parts;
  if (!filter.general.empty()) parts.push_back(show(filter.general));
  for (const auto& [collective, list] : filter.per_collective)
    parts.push_back(fmt::format("{}:{}", name_of(collective), show(list)));
  return joined(parts, ";");
}

Result<InterfaceFilter> parse_interface_filter(std::string_view text) {
  InterfaceFilter filter;
  auto take = [&text](char mark) {
    if (text.empty() || text[0] != mark) return false;
    text.remove_prefix(1);
    return true;
  };
  filter.exclude = take('^');
  filter.exact = take('=');
  for (std::string_view name : split(text, ',')) {
    const bool odd = std::any_of(name.begin(), name.end(), [](unsigned char c) {
      return c == '^' || c == '=' || c == '/' || std::isspace(c) || std::iscntrl(c);
    });
    if (name.empty() || odd || name.size() >= IFNAMSIZ)
      return invalid_usage(
          "'{}' is not the beginning of an interface name; write [^][=]name,... like 'eth,ib' (names "
          "that begin so), '=eth0' (exactly that one) or '^docker,lo' (all others)",
          name);
    filter.names.emplace_back(name);
  }
  return filter;
}

std::string show(const InterfaceFilter& filter) {
  return fmt::format("{}{}{}", filter.exclude ? "^" : "", filter.exact ? "=" : "", joined(filter.names, ","));
}

Result<PortRange> parse_port_range(std::string_view text) {
  const size_t dash = text.find('-');
  const std::string_view first_text = text.substr(0, dash);
  const Result<uint64_t> first = parse_integer(first_text, 1, 65535);
  const Result<uint64_t> last = dash == std::string_view::npos ? first : parse_integer(text.substr(dash + 1), 1, 65535);
  if (!first.ok() || !last.ok() || first.value() > last.value())
    return invalid_usage(
        "'{}' is not a range of ports; write one port like 29500 or first-last like 29500-29599, from 1 "
        "to 65535, the lower one first",
        text);
  return PortRange{static_cast<uint16_t>(first.value()), static_cast<uint16_t>(last.value())};
}

std::string show(const PortRange& range) {
  if (range.first == 0) return "";
  return range.first == range.last ? std::to_string(range.first) : fmt::format("{}-{}", range.first, range.last);
}

Result<Nanoseconds> parse_seconds(std::string_view text) {
  constexpr double kMostSeconds = 1e6;  // 11 days; keeps sums of deadlines far from overflow
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds, std::chars_format::fixed);
  if (error != std::errc() || end != text.data() + text.size() || !(seconds * 1e9 >= 1) || seconds > kMostSeconds)
    return invalid_usage("'{}' is not a time; write seconds like 300 or 0.5, more than 0 and at most {:.0f}", text,
                         kMostSeconds);
  return static_cast<Nanoseconds>(std::llround(seconds * 1e9));
}

std::string show_seconds(Nanoseconds time) {
  if (time % kSecond == 0) return std::to_string(time / kSecond);
  std::string text = fmt::format("{}.{:09}", time / kSecond, time % kSecond);
  text.erase(text.find_last_not_of('0') + 1);
  return text;
}

std::string show_bytes(uint64_t bytes) {
  constexpr std::string_view kSuffixes = " KMG";
  size_t power = 0;
  while (bytes != 0 && bytes % 1024 == 0 && power + 1 < kSuffixes.size()) {
    bytes /= 1024;
    ++power;
  }
  return power == 0 ? std::to_string(bytes) : fmt::format("{}{}", bytes, kSuffixes[power]);
}

Status check_file_pattern(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') continue;
    if (i + 1 == text.size() || std::string_view("hp%").find(text[i + 1]) == std::string_view::npos)
      return invalid_usage("in a file name '%' may be followed by h (host), p (process id) or % only, not '{}'",
                           text.substr(i + 1, 1));
    ++i;
  }
  return {};
}

}  // namespace config_grammar
}  // namespace tutti
