// joined: the elements of a range of strings with a separator between them.
#pragma once

#include <string>
#include <string_view>

namespace tutti::perf {

template <class Range>
std::string joined(const Range& words, std::string_view separator) {
  std::string text;
  for (const auto& word : words) {
    if (!text.empty()) text += separator;
    text += word;
  }
  return text;
}

}  // namespace tutti::perf
