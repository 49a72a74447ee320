#include "tune/parameters.h"

#include <cmath>
#include <vector>

#include "base/config.h"

namespace tutti {
namespace {

constexpr double kNanosecond = 1e-9, kPerKib = 1e-9 / 1024, kFactor = 1;
constexpr double kMostNs = 1e9, kMostPerKib = 1e9, kMostFactor = 100;

template <LinkKind kind, double LinkParameters::*field>
double& of_link(Parameters& p) {
  return p.links[static_cast<size_t>(kind)].*field;
}
template <double Parameters::*field>
double& of_machine(Parameters& p) {
  return p.*field;
}

constexpr LinkKind kMapped = LinkKind::mapped, kOneHost = LinkKind::tcp_one_host, kFar = LinkKind::tcp_between_hosts;
using Link = LinkParameters;

constexpr ParameterField kFields[] = {
    {"mapped_latency_ns", kNanosecond, 0, kMostNs, of_link<kMapped, &Link::latency_s>},
    {"mapped_transit_ns_per_kib", kPerKib, 0, kMostPerKib, of_link<kMapped, &Link::transit_s_per_byte>},
    {"mapped_message_ns", kNanosecond, 0, kMostNs, of_link<kMapped, &Link::message_s>},
    {"mapped_send_ns_per_kib", kPerKib, 0, kMostPerKib, of_link<kMapped, &Link::send_s_per_byte>},
    {"mapped_receive_ns_per_kib", kPerKib, 0, kMostPerKib, of_link<kMapped, &Link::receive_s_per_byte>},
    {"tcp_one_host_latency_ns", kNanosecond, 0, kMostNs, of_link<kOneHost, &Link::latency_s>},
    {"tcp_one_host_transit_ns_per_kib", kPerKib, 0, kMostPerKib, of_link<kOneHost, &Link::transit_s_per_byte>},
    {"tcp_one_host_message_ns", kNanosecond, 0, kMostNs, of_link<kOneHost, &Link::message_s>},
    {"tcp_one_host_send_ns_per_kib", kPerKib, 0, kMostPerKib, of_link<kOneHost, &Link::send_s_per_byte>},
    {"tcp_one_host_receive_ns_per_kib", kPerKib, 0, kMostPerKib, of_link<kOneHost, &Link::receive_s_per_byte>},
    {"tcp_between_hosts_latency_ns", kNanosecond, 0, kMostNs, of_link<kFar, &Link::latency_s>},
    {"tcp_between_hosts_transit_ns_per_kib", kPerKib, 0, kMostPerKib, of_link<kFar, &Link::transit_s_per_byte>},
    {"tcp_between_hosts_message_ns", kNanosecond, 0, kMostNs, of_link<kFar, &Link::message_s>},
    {"tcp_between_hosts_send_ns_per_kib", kPerKib, 0, kMostPerKib, of_link<kFar, &Link::send_s_per_byte>},
    {"tcp_between_hosts_receive_ns_per_kib", kPerKib, 0, kMostPerKib, of_link<kFar, &Link::receive_s_per_byte>},
    {"step_ns", kNanosecond, 0, kMostNs, of_machine<&Parameters::step_s>},
    {"fold_ns_per_kib", kPerKib, 0, kMostPerKib, of_machine<&Parameters::fold_s_per_byte>},
    {"store_ns_per_kib", kPerKib, 0, kMostPerKib, of_machine<&Parameters::store_s_per_byte>},
    {"handover_ns", kNanosecond, 0, kMostNs, of_machine<&Parameters::handover_s>},
    {"operation_ns", kNanosecond, 0, kMostNs, of_machine<&Parameters::operation_s>},
    {"spill", kFactor, 0, kMostFactor, of_machine<&Parameters::spill>},
};

constexpr LinkParameters link_of(double latency_ns, double transit_ns_per_kib, double message_ns,
                                 double send_ns_per_kib, double receive_ns_per_kib) {
  return {latency_ns * kNanosecond, transit_ns_per_kib * kPerKib, message_ns * kNanosecond, send_ns_per_kib * kPerKib,
          receive_ns_per_kib * kPerKib};
}

// What `tutti tune` found on a server of 2021 (two EPYC cores of a virtual machine, 512 KiB and 32 MiB of cache),
// rounded; TCP between hosts is taken to be 10 Gb/s. The cores of that machine are at times near each other and at
// times, going by their ping-pong, one last-level cache apart: then a line takes 240 ns instead of 50, and a tile twice
// as long.
Parameters server(double line_ns, double mapped_send_ns_per_kib) {
  Parameters p;
  p.links = {link_of(line_ns, 0, 130, mapped_send_ns_per_kib, 0), link_of(1800, 20, 4800, 170, 200),
             link_of(20000, 900, 4800, 170, 200)};
  p.step_s = 35 * kNanosecond;
  p.fold_s_per_byte = 5 * kPerKib;
  p.store_s_per_byte = 10 * kPerKib;
  p.handover_s = 2200 * kNanosecond;
  p.operation_s = 100 * kNanosecond;
  p.spill = 1.3;
  return p;
}

}  // namespace

std::string_view name_of(LinkKind kind) {
  constexpr std::string_view kNames[] = {"mapped", "tcp on one host", "tcp between hosts"};
  return kNames[static_cast<size_t>(kind)];
}

std::span<const ParameterField> parameter_fields() { return kFields; }

const Parameters& built_in_parameters(MachineClass machine) {
  static const Parameters near = server(55, 110), far = server(240, 220);
  return machine == MachineClass::one_last_level_cache ? near : far;
}

uint64_t hash_of(const Parameters& parameters) {
  // FNV-1a over the values in thousandths of the file's unit: what the file shows, so that a file that was read and
  // written again is the same.
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (const ParameterField& field : kFields)
    hash = (hash ^ static_cast<uint64_t>(std::llround(field.in_file_unit(parameters) * 1000))) * 0x100000001b3ULL;
  return hash;
}

}  // namespace tutti
