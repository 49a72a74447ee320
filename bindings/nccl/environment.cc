// NCCL_ variables, in NCCL's grammar, as the TUTTI_ variables that they stand for. Those that are set win. What has no
// counterpart is named once, on stderr.
#include <stdlib.h>
#include <strings.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstring>
#include <set>
#include <string_view>
#include <vector>

#include "communicator.h"

extern char** environ;

namespace tutti_nccl {
namespace {

using Words = std::vector<std::string>;

std::string lowered(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

Words split(const std::string& text, char separator) {
  Words words(1);
  for (const char c : text) {
    if (c == separator) {
      words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  return words;
}

std::string joined(const Words& words, char separator) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : std::string(1, separator)) + word;
  return text;
}

std::string value_of(const char* name) {
  const char* value = getenv(name);
  return value ? value : "";
}

bool is_true(const std::string& value) { return !value.empty() && value != "0"; }

class Translation {
 public:
  void run() {
    copy("NCCL_SOCKET_IFNAME", "TUTTI_SOCKET_IFNAME");
    copy("NCCL_SOCKET_FAMILY", "TUTTI_SOCKET_FAMILY");
    copy("NCCL_DEBUG_FILE", "TUTTI_DEBUG_FILE");
    copy("NCCL_TOPO_FILE", "TUTTI_TOPO_FILE");
    names("NCCL_ALGO", "TUTTI_ALGO", {"ring", "tree"});
    names("NCCL_PROTO", "TUTTI_PROTO", {"simple"});
    debug();
    transports();
    sizes();
    name_the_rest();
  }

 private:
  void set(const char* name, const std::string& value) {
    if (!value.empty()) setenv(name, value.c_str(), 0);
  }

  void copy(const char* theirs, const char* ours) {
    served_.insert(theirs);
    set(ours, value_of(theirs));
  }

  // One comma list with its ^, without the words that Tutti has not. Empty when none is left.
  std::string known(const std::string& list, const Words& allowed, Words& dropped) {
    const bool excluded = !list.empty() && list[0] == '^';
    Words kept;
    for (const std::string& word : split(list.substr(excluded), ',')) {
      const std::string name = lowered(word);
      if (std::find(allowed.begin(), allowed.end(), name) != allowed.end()) {
        kept.push_back(name);
      } else if (!name.empty()) {
        dropped.push_back(word);
      }
    }
    return kept.empty() ? "" : (excluded ? "^" : "") + joined(kept, ',');
  }

  // [list;]function:list;...
  void names(const char* theirs, const char* ours, const Words& allowed) {
    served_.insert(theirs);
    const std::string value = value_of(theirs);
    if (value.empty()) return;
    Words parts, dropped;
    for (const std::string& part : split(value, ';')) {
      const size_t colon = part.find(':');
      const std::string list = known(colon == std::string::npos ? part : part.substr(colon + 1), allowed, dropped);
      if (!list.empty()) parts.push_back(colon == std::string::npos ? list : lowered(part.substr(0, colon + 1)) + list);
    }
    // A protocol has no list by collective here.
    if (!strcmp(ours, "TUTTI_PROTO")) std::erase_if(parts, [](const std::string& part) { return part.find(':') != std::string::npos; });
    set(ours, joined(parts, ';'));
    if (!dropped.empty()) ignored_.push_back(std::string(theirs) + "'s " + joined(dropped, ','));
  }

  void debug() {
    served_.insert({"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS"});
    std::string level = value_of("NCCL_DEBUG");
    std::transform(level.begin(), level.end(), level.begin(), [](unsigned char c) { return std::toupper(c); });
    set("TUTTI_DEBUG", level == "ABORT" ? "WARN" : level);
    const std::string list = value_of("NCCL_DEBUG_SUBSYS");
    const bool excluded = !list.empty() && list[0] == '^';
    Words kept;
    for (const std::string& word : split(list.substr(excluded), ',')) {
      const std::string name = lowered(word);
      for (const auto& [theirs, ours] : {std::pair{"init", "INIT"}, {"bootstrap", "BOOTSTRAP"}, {"net", "NET"}, {"shm", "SHM"},
                                         {"tuning", "TUNE"}, {"coll", "COLL"}, {"env", "ENV"}, {"all", "ALL"}}) {
        if (name == theirs) kept.push_back(ours);
      }
    }
    if (!kept.empty()) set("TUTTI_DEBUG_SUBSYS", (excluded ? "^" : "") + joined(kept, ','));
  }

  // What is switched off is left out of the transports.
  void transports() {
    served_.insert({"NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", "NCCL_SHM_DISABLE", "NCCL_IB_DISABLE", "NCCL_NET"});
    std::set<std::string> without;
    if (is_true(value_of("NCCL_P2P_DISABLE"))) without.insert("p2p");
    p2p_level();
    if (is_true(value_of("NCCL_SHM_DISABLE"))) without.insert("shm");
    if (is_true(value_of("NCCL_IB_DISABLE"))) without.insert("verbs");
    const std::string net = lowered(value_of("NCCL_NET"));
    if (net == "socket") without.insert({"verbs", "ucx"});
    if (net == "ib") without.insert("ucx");
    if (!net.empty() && net != "socket" && net != "ib") ignored_.push_back("NCCL_NET=" + net);
    if (!without.empty()) set("TUTTI_TRANSPORT", "^" + joined({without.begin(), without.end()}, ','));
  }

  // By word, or by number as of old.
  void p2p_level() {
    const std::string level = lowered(value_of("NCCL_P2P_LEVEL"));
    if (level.empty()) return;
    for (const auto& [theirs, number, ours] : {std::tuple{"loc", "0", "LOC"}, {"nvl", "", "NVL"}, {"pix", "1", "PIX"},
                                               {"pxb", "2", "PXB"}, {"phb", "3", "PHB"}, {"sys", "4", "SYS"}, {"sys", "5", "SYS"}})
      if (level == theirs || level == number) return set("TUTTI_P2P_LEVEL", ours);
    ignored_.push_back("NCCL_P2P_LEVEL=" + level);
  }

  void sizes() {
    served_.insert({"NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS", "NCCL_MIN_CTAS", "NCCL_MAX_CTAS", "NCCL_BUFFSIZE"});
    // A channel of NCCL is a lane; only a number that leaves no choice can be forced.
    const auto number = [](const char* first, const char* second) {
      const std::string value = value_of(first).empty() ? value_of(second) : value_of(first);
      return atoi(value.c_str());
    };
    const int least = number("NCCL_MIN_CTAS", "NCCL_MIN_NCHANNELS"), most = number("NCCL_MAX_CTAS", "NCCL_MAX_NCHANNELS");
    if (most > 0 && (least == most || most == 1)) {
      set("TUTTI_LANES", std::to_string(std::min(most, 16)));
    } else if (least > 0 || most > 0) {
      ignored_.push_back("NCCL_MIN_NCHANNELS and NCCL_MAX_NCHANNELS, which leave a choice");
    }
    // A buffer of NCCL is eight steps, and a step is what travels at once: a tile.
    if (const long bytes = atol(value_of("NCCL_BUFFSIZE").c_str()); bytes > 0) {
      set("TUTTI_TILE", std::to_string(std::clamp(bytes / 8 / 64 * 64, 256L, 16L << 20)));
    }
  }

  void name_the_rest() {
    for (char** entry = environ; entry && *entry; ++entry) {
      const std::string name(*entry, strcspn(*entry, "="));
      if (name.rfind("NCCL_", 0) == 0 && !served_.count(name)) ignored_.push_back(name);
    }
    if (ignored_.empty() || value_of("TUTTI_DEBUG") == "NONE") return;
    std::sort(ignored_.begin(), ignored_.end());
    fprintf(stderr, "libnccl by Tutti: ignored, having no counterpart: %s\n", joined(ignored_, ' ').c_str());
  }

  std::set<std::string> served_;
  Words ignored_;
};

}  // namespace

void adopt_environment() {
  static std::once_flag once;
  std::call_once(once, [] { Translation{}.run(); });
}

}  // namespace tutti_nccl
