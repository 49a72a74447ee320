#include "bootstrap/launcher.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/fd.h"
#include "base/log.h"
#include "bootstrap/process_tree.h"
#include "bootstrap/secret.h"

namespace tutti {
namespace {

constexpr uint16_t kPortCount = 16;
constexpr uint32_t kDerivedPortFirst = 20000, kDerivedPortEnd = 30000;

// What one launcher calls things. An empty name: it has no such variable.
struct Dialect {
  std::string_view launcher;
  std::string rank, size, local_rank, local_size;
  std::vector<std::string> also_needed;
  std::vector<std::string> job_id;  // all that are set are joined
};

const Dialect kTorchrun = {"torchrun",
                           "RANK",
                           "WORLD_SIZE",
                           "LOCAL_RANK",
                           "LOCAL_WORLD_SIZE",
                           {"MASTER_ADDR", "MASTER_PORT"},
                           {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"}};
const Dialect kOpenMpi = {"Open MPI",
                          "OMPI_COMM_WORLD_RANK",
                          "OMPI_COMM_WORLD_SIZE",
                          "OMPI_COMM_WORLD_LOCAL_RANK",
                          "OMPI_COMM_WORLD_LOCAL_SIZE",
                          {},
                          {"OMPI_MCA_ess_base_jobid", "PMIX_NAMESPACE"}};
const Dialect kSlurm = {
    "Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "", {"SLURM_JOB_ID"}, {"SLURM_JOB_ID", "SLURM_STEP_ID"}};
const Dialect kPmi = {"PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", {}, {"PMI_JOBID"}};

class Environment {
 public:
  Environment(const Config& config, const std::function<const char*(const char*)>& get) : config_(config), get_(get) {}

  Result<Launch> launch() const {
    std::optional<Status> partial;
    const std::vector<Dialect> all = dialects();
    for (const Dialect& dialect : all) {
      const std::vector<std::string> missing = missing_of(dialect);
      if (missing.empty()) {
        TUTTI_TRY(check_agreement(dialect, all));
        return launch_by(dialect);
      }
      const bool begun = value(dialect.rank) || value(dialect.size);
      if (begun && !partial) partial = incomplete(dialect, missing);
    }
    if (partial) return *partial;
    return invalid_usage(
        "no launcher has told this process its rank: neither RANK, WORLD_SIZE, MASTER_ADDR and "
        "MASTER_PORT (torchrun, tutti run) nor the variables of Open MPI, Slurm or PMI are set; start it "
        "with `tutti run -n 4 -- program` or set these four");
  }

 private:
  // Unset and empty are the same.
  std::optional<std::string> value(const std::string& name) const {
    const char* text = name.empty() ? nullptr : get_(name.c_str());
    return text && *text ? std::optional<std::string>(text) : std::nullopt;
  }

  std::vector<Dialect> dialects() const {
    Dialect slurm = kSlurm;
    // srun starts a step of its own size, SLURM_NTASKS may be the whole job's.
    if (value("SLURM_STEP_NUM_TASKS")) slurm.size = "SLURM_STEP_NUM_TASKS";
    // Hydra inside a Slurm job inherits a SLURM_PROCID that is not this process's.
    if (value("PMI_RANK") && value("MPI_LOCALNRANKS")) return {kTorchrun, kOpenMpi, kPmi, slurm};
    return {kTorchrun, kOpenMpi, slurm, kPmi};
  }

  std::vector<std::string> missing_of(const Dialect& dialect) const {
    std::vector<std::string> missing;
    for (const std::string& name : {dialect.rank, dialect.size})
      if (!value(name)) missing.push_back(name);
    for (const std::string& name : dialect.also_needed)
      if (!value(name)) missing.push_back(name);
    return missing;
  }

  // Two sets that are complete and say different things: either one launcher runs inside the other's job, which is
  // fine, or one is left over from something else, and going by it would give ranks twice or make worlds of one.
  Status check_agreement(const Dialect& chosen, const std::vector<Dialect>& all) const {
    for (const Dialect& other : all) {
      if (other.launcher == chosen.launcher || !missing_of(other).empty()) continue;
      if (value(other.rank) == value(chosen.rank) && value(other.size) == value(chosen.size)) continue;
      if (!may_be_outside(other, chosen)) return contradiction(chosen, other);
    }
    return {};
  }

  bool may_be_outside(const Dialect& outer, const Dialect& chosen) const {
    const bool in_slurm_step = value("SLURM_STEP_ID").has_value();
    if (chosen.launcher == kTorchrun.launcher) {
      // Launchers of ranks tell each how many there are on its host; a person who sets RANK does not.
      if (value(kTorchrun.local_size) || value("TORCHELASTIC_RUN_ID")) return true;
      // The variables of a batch script, which is no task of a step, and of an interactive shell that is the only task.
      return (outer.launcher == kSlurm.launcher && !in_slurm_step) || value(outer.size) == "1";
    }
    if (outer.launcher == kSlurm.launcher) return true;  // mpirun and mpiexec start their daemons by srun
    // PMI by Slurm's plugin, not by hydra, is of the step in which mpirun was started.
    return chosen.launcher == kOpenMpi.launcher && in_slurm_step && !value(kPmi.local_size);
  }

  Status contradiction(const Dialect& chosen, const Dialect& other) const {
    const auto told = [this](const Dialect& dialect) {
      return fmt::format("{}={} and {}={}", dialect.rank, value(dialect.rank).value_or(""), dialect.size,
                         value(dialect.size).value_or(""));
    };
    return invalid_usage("{} (as by {}) contradict {} (as by {}); unset those that are not this process's{}",
                         told(chosen), chosen.launcher, told(other), other.launcher,
                         chosen.launcher == kTorchrun.launcher
                             ? ", or set LOCAL_WORLD_SIZE too if RANK is a launcher's inside the other's job"
                             : "");
  }

  Status incomplete(const Dialect& dialect, const std::vector<std::string>& missing) const {
    std::vector<std::string> set;
    for (const std::string& name : {dialect.rank, dialect.size})
      if (value(name)) set.push_back(fmt::format("{}={}", name, *value(name)));
    const auto are = [](const std::vector<std::string>& names) { return names.size() == 1 ? "is" : "are"; };
    return invalid_usage("{} {} set (as by {}), but {} {} not; set all of them or none", fmt::join(set, " and "), are(set),
                         dialect.launcher, fmt::join(missing, " and "), are(missing));
  }

  // A whole number in [least, most]; the error names the variable and its value.
  Result<uint32_t> number(const std::string& name, uint32_t least, uint32_t most, std::string_view why = "") const {
    const std::string text = value(name).value_or("");
    uint32_t parsed = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parsed);
    if (error != std::errc() || end != text.data() + text.size() || parsed < least || parsed > most)
      return invalid_usage("{}={} must be a whole number from {} to {}{}", name, text, least, most, why);
    return parsed;
  }

  Result<Launch> launch_by(const Dialect& dialect) const {
    constexpr uint32_t kMostRanks = 1 << 20;
    Launch launch;
    launch.launcher = dialect.launcher;
    TUTTI_TRY_ASSIGN(const uint32_t size, number(dialect.size, 1, kMostRanks));
    const std::string because = fmt::format(", since {}={}", dialect.size, size);
    TUTTI_TRY_ASSIGN(const uint32_t rank, number(dialect.rank, 0, size - 1, because));
    launch.nranks = Rank{size};
    launch.rank = Rank{rank};
    uint32_t local_size = 0;  // not told
    if (value(dialect.local_size)) {
      TUTTI_TRY_ASSIGN(local_size, number(dialect.local_size, 1, size, because));
    }
    if (value(dialect.local_rank)) {
      const bool bounded = local_size > 0;
      TUTTI_TRY_ASSIGN(const uint32_t local_rank,
                       number(dialect.local_rank, 0, (bounded ? local_size : size) - 1,
                              bounded ? fmt::format(", since {}={}", dialect.local_size, local_size) : because));
      launch.local_rank = static_cast<int>(local_rank);
    }
    const bool one_host = size == 1 || local_size == size || (dialect.launcher == kSlurm.launcher && one_slurm_node());
    TUTTI_TRY_ASSIGN(launch.point, meeting_point(dialect, one_host));
    return launch;
  }

  bool one_slurm_node() const {
    for (const char* name : {"SLURM_STEP_NUM_NODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES"})
      if (value(name)) return value(name) == "1";
    return false;
  }

  Result<MeetingPoint> meeting_point(const Dialect& dialect, bool one_host) const {
    MeetingPoint point;
    TUTTI_TRY_ASSIGN(point.host, host(dialect, one_host, point.host_from));
    const std::string job = job_identity(dialect, one_host);
    uint32_t port = 0;
    if (value("MASTER_PORT")) {
      TUTTI_TRY_ASSIGN(port, number("MASTER_PORT", 1, 65535));
      if (value("TORCHELASTIC_USE_AGENT_STORE") == "True" && port < 65535) ++port;
    } else {
      TUTTI_TRY_ASSIGN(const Secret digest, secret_from_text(point.host + "\n" + job));
      const uint32_t number = static_cast<uint32_t>(digest[0]) << 8 | static_cast<uint32_t>(digest[1]);
      port = kDerivedPortFirst + number % (kDerivedPortEnd - kDerivedPortFirst - kPortCount + 1);
    }
    point.port = static_cast<uint16_t>(port);
    point.port_count = static_cast<uint16_t>(std::min<uint32_t>(kPortCount, 65536 - port));
    TUTTI_TRY_ASSIGN(const std::string secret, secret_file_contents());
    // Parts are separated by line ends, which none of the names, addresses and numbers has.
    TUTTI_TRY_ASSIGN(point.key,
                     secret_from_text(fmt::format("tutti rendezvous\n{}\n{}\n{}\n{}", point.host, port, job, secret)));
    return point;
  }

  // `from`: the variable that told it.
  Result<std::string> host(const Dialect& dialect, bool one_host, std::string& from) const {
    from = "MASTER_ADDR";
    if (value(from)) return *value(from);
    from.clear();
    if (one_host) return std::string(config_.socket_family == AddressFamily::ipv6 ? "::1" : "127.0.0.1");
    if (dialect.launcher == kSlurm.launcher) {
      for (const char* name : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"}) {
        if (!value(name)) continue;
        std::string first = first_slurm_host(*value(name));
        if (first.empty()) return invalid_usage("{}={} is not a list of hosts", name, *value(name));
        from = name;
        return first;
      }
      return invalid_usage(
          "SLURM_NTASKS={} on several nodes, but neither SLURM_STEP_NODELIST nor MASTER_ADDR says where "
          "rank 0 runs; set MASTER_ADDR",
          value("SLURM_NTASKS").value_or(""));
    }
    const bool open_mpi = dialect.launcher == kOpenMpi.launcher;
    return invalid_usage(
        "{} has started {}={} ranks on several hosts and does not tell where rank 0 runs; pass {} to the "
        "launcher",
        dialect.launcher, dialect.size, value(dialect.size).value_or(""),
        open_mpi ? "`-x MASTER_ADDR=<rank 0's host>`" : "`-genv MASTER_ADDR <rank 0's host>`");
  }

  std::string job_identity(const Dialect& dialect, bool one_host) const {
    std::string identity = config_.job_id;
    for (const std::string& name : dialect.job_id) identity += fmt::format("\n{}", value(name).value_or(""));
    // Hydra gives its ranks no name for the job, but on one host they have a common ancestor.
    if (dialect.launcher == kPmi.launcher && one_host) identity += fmt::format("\n{}", hydra_proxy_identity());
    return identity;
  }

  Result<std::string> secret_file_contents() const {
    if (config_.secret_file.empty()) return std::string();
    constexpr size_t kLeastBytes = 16, kMostBytes = 64 << 10;
    const Fd fd(::open(config_.secret_file.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd) return system_error(fmt::format("cannot read TUTTI_SECRET_FILE '{}'", config_.secret_file), errno);
    struct stat status {};
    if (::fstat(fd.get(), &status) == 0 && (status.st_mode & 077) != 0)
      log(LogLevel::warn, Subsystem::bootstrap, -1, "others may read TUTTI_SECRET_FILE '{}'; use chmod 600",
          config_.secret_file);
    std::string contents(kMostBytes + 1, '\0');
    size_t filled = 0;
    while (filled < contents.size()) {
      const ssize_t got = ::read(fd.get(), contents.data() + filled, contents.size() - filled);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return system_error(fmt::format("cannot read TUTTI_SECRET_FILE '{}'", config_.secret_file), errno);
      if (got == 0) break;
      filled += static_cast<size_t>(got);
    }
    contents.resize(filled);
    // An editor's line end at the end of one host's copy is no difference.
    while (!contents.empty() && (contents.back() == '\n' || contents.back() == '\r')) contents.pop_back();
    if (contents.size() < kLeastBytes || contents.size() > kMostBytes)
      return invalid_usage("TUTTI_SECRET_FILE '{}' must hold from {} to {} bytes; make one with `openssl rand -hex 32`",
                           config_.secret_file, kLeastBytes, kMostBytes);
    return contents;
  }

  const Config& config_;
  const std::function<const char*(const char*)>& get_;
};

}  // namespace

std::string first_slurm_host(std::string_view list) {
  std::string host;
  while (!list.empty() && list[0] != ',') {
    if (list[0] != '[') {
      const bool fits = std::isalnum(static_cast<unsigned char>(list[0])) ||
                        std::string_view("-._").find(list[0]) != std::string_view::npos;
      if (!fits) return "";
      host += list[0];
      list.remove_prefix(1);
      continue;
    }
    const size_t close = list.find(']');
    if (close == std::string_view::npos) return "";
    const std::string_view first = list.substr(1, list.find_first_of(",-]") - 1);
    if (first.empty()) return "";
    host += first;
    list.remove_prefix(close + 1);
  }
  return host;
}

Result<Launch> launch_from_environment(const Config& config, const std::function<const char*(const char*)>& get) {
  return Environment(config, get).launch();
}

Result<Launch> launch_from_environment(const Config& config) {
  return launch_from_environment(config, [](const char* name) { return std::getenv(name); });
}

}  // namespace tutti
