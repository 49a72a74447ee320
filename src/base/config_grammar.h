// How the values of TUTTI_ variables are written: one parser and one printer per kind of value. Used by config.cc
// alone.
//
// Parsers are strict: no blanks, no empty items, no trailing text. Their errors (tuttiInvalidUsage) say what is allowed
// and, for words, which one was probably meant; the caller adds "NAME=value: " in front. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/config.h"

namespace tutti::config_grammar {

using Words = std::span<const std::string_view>;

// A whole number from `least` to `most`, in decimal.
Result<uint64_t> parse_integer(std::string_view text, uint64_t least, uint64_t most);

// `[^]name,...`. With `known`, every name must be one of them, and a list that excludes all of them is an error;
// otherwise any identifier ([A-Za-z0-9_-]) will do.
Result<NameList> parse_name_list(std::string_view text, Words known);
std::string show(const NameList& list);

// The index of `text` in `known`, compared without regard to case.
Result<size_t> parse_word(std::string_view text, Words known);

// `[list;]collective:list;...`
Result<AlgorithmFilter> parse_algorithm_filter(std::string_view text);
std::string show(const AlgorithmFilter& filter);

// `[^][=]name,...`
Result<InterfaceFilter> parse_interface_filter(std::string_view text);
std::string show(const InterfaceFilter& filter);

// `port` or `first-last`
Result<PortRange> parse_port_range(std::string_view text);
std::string show(const PortRange& range);

// Seconds, decimals allowed: "300", "0.25".
Result<Nanoseconds> parse_seconds(std::string_view text);
std::string show_seconds(Nanoseconds time);

// "64K" for a multiple of 1024 and so on; reads back by parse_bytes.
std::string show_bytes(uint64_t bytes);

// A file name in which only %h, %p and %% follow a percent sign.
Status check_file_pattern(std::string_view text);

}  // namespace tutti::config_grammar
