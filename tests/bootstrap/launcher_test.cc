// Launchers' variables, from a made-up environment.
#include "bootstrap/launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <map>

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using Variables = std::map<std::string, std::string>;

Result<Launch> launch(const Variables& variables, const Config& config = {}) {
  return launch_from_environment(config, [&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

Variables with(Variables variables, const Variables& changes) {
  for (const auto& [name, value] : changes) variables[name] = value;
  return variables;
}

std::string refusal(const Variables& variables) {
  const Result<Launch> result = launch(variables);
  if (result.ok()) return "accepted as " + result.value().launcher;
  EXPECT_EQ(result.status().code(), tuttiInvalidUsage);
  return std::string(result.status().message());
}

const Variables kTorchrun = {{"RANK", "2"},
                             {"WORLD_SIZE", "4"},
                             {"LOCAL_RANK", "1"},
                             {"LOCAL_WORLD_SIZE", "2"},
                             {"MASTER_ADDR", "alpha"},
                             {"MASTER_PORT", "29500"}};
const Variables kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "1"},
                            {"OMPI_COMM_WORLD_SIZE", "4"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                            {"OMPI_MCA_ess_base_jobid", "1907818497"}};
const Variables kSlurm = {{"SLURM_PROCID", "3"},
                          {"SLURM_NTASKS", "8"},
                          {"SLURM_LOCALID", "0"},
                          {"SLURM_JOB_ID", "77"},
                          {"SLURM_STEP_ID", "0"},
                          {"SLURM_NNODES", "2"},
                          {"SLURM_STEP_NODELIST", "gpu[07-08]"}};
const Variables kPmi = {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "2"}};

TEST(Launcher, Torchrun) {
  const Result<Launch> result = launch(kTorchrun);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result.value().launcher, "torchrun");
  EXPECT_EQ(result.value().rank, 2u);
  EXPECT_EQ(result.value().nranks, 4u);
  EXPECT_EQ(result.value().local_rank, 1);
  EXPECT_EQ(result.value().point.host, "alpha");
  EXPECT_EQ(result.value().point.host_from, "MASTER_ADDR");
  EXPECT_EQ(result.value().point.port, 29500);
  EXPECT_EQ(result.value().point.port_count, 16);
  EXPECT_EQ(launch(with(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}})).value().point.port, 29501);
  EXPECT_EQ(launch(with(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "False"}})).value().point.port, 29500);
  EXPECT_EQ(launch(with(kTorchrun, {{"LOCAL_RANK", ""}})).value().local_rank, -1);
  const MeetingPoint last = launch(with(kTorchrun, {{"MASTER_PORT", "65535"}})).value().point;
  EXPECT_EQ(last.port, 65535);
  EXPECT_EQ(last.port_count, 1);
}

TEST(Launcher, OpenMpiOnOneHostMeetsOnLoopbackAtAPortOfTheJob) {
  const Result<Launch> result = launch(kOpenMpi);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result.value().launcher, "Open MPI");
  EXPECT_EQ(result.value().rank, 1u);
  EXPECT_EQ(result.value().nranks, 4u);
  EXPECT_EQ(result.value().local_rank, 1);
  const MeetingPoint& point = result.value().point;
  EXPECT_EQ(point.host, "127.0.0.1");
  EXPECT_GE(point.port, 20000);
  EXPECT_LT(point.port + point.port_count, 30001);
  const MeetingPoint other_rank = launch(with(kOpenMpi, {{"OMPI_COMM_WORLD_RANK", "3"}})).value().point;
  EXPECT_EQ(other_rank.port, point.port);
  EXPECT_EQ(other_rank.key, point.key);
  const MeetingPoint other_job = launch(with(kOpenMpi, {{"OMPI_MCA_ess_base_jobid", "1907818498"}})).value().point;
  EXPECT_NE(other_job.key, point.key);
  EXPECT_NE(other_job.port, point.port);
}

TEST(Launcher, OpenMpiOnSeveralHostsNeedsMasterAddr) {
  const Variables two_hosts = with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}});
  EXPECT_THAT(refusal(two_hosts), HasSubstr("-x MASTER_ADDR=<rank 0's host>"));
  const Result<Launch> result = launch(with(two_hosts, {{"MASTER_ADDR", "10.0.0.1"}, {"MASTER_PORT", "4000"}}));
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result.value().point.host, "10.0.0.1");
  EXPECT_EQ(result.value().point.port, 4000);
}

TEST(Launcher, SlurmMeetsOnTheFirstHostOfTheStep) {
  const Result<Launch> result = launch(kSlurm);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result.value().launcher, "Slurm");
  EXPECT_EQ(result.value().rank, 3u);
  EXPECT_EQ(result.value().nranks, 8u);
  EXPECT_EQ(result.value().local_rank, 0);
  EXPECT_EQ(result.value().point.host, "gpu07");
  EXPECT_EQ(result.value().point.host_from, "SLURM_STEP_NODELIST");
  EXPECT_EQ(launch(with(kSlurm, {{"SLURM_NNODES", "1"}})).value().point.host, "127.0.0.1");
  EXPECT_EQ(launch(with(kSlurm, {{"SLURM_NNODES", ""}, {"SLURM_JOB_NUM_NODES", "1"}})).value().point.host, "127.0.0.1");
  EXPECT_EQ(launch(with(kSlurm, {{"SLURM_STEP_NUM_TASKS", "6"}})).value().nranks, 6u);
  EXPECT_NE(launch(with(kSlurm, {{"SLURM_STEP_ID", "1"}})).value().point.key, result.value().point.key);
  EXPECT_THAT(refusal(with(kSlurm, {{"SLURM_STEP_NODELIST", "gpu[07"}})), HasSubstr("SLURM_STEP_NODELIST=gpu[07"));
  EXPECT_THAT(refusal(with(kSlurm, {{"SLURM_STEP_NODELIST", ""}})), HasSubstr("set MASTER_ADDR"));
  EXPECT_THAT(refusal(with(kSlurm, {{"SLURM_JOB_ID", ""}})), HasSubstr("SLURM_JOB_ID"));
}

TEST(Launcher, SlurmHostListsAreReadByTheirFirstName) {
  EXPECT_EQ(first_slurm_host("tux"), "tux");
  EXPECT_EQ(first_slurm_host("tux.example.org,b"), "tux.example.org");
  EXPECT_EQ(first_slurm_host("node[07-09,12],gpu1"), "node07");
  EXPECT_EQ(first_slurm_host("node[3,5]"), "node3");
  EXPECT_EQ(first_slurm_host("a[1-2]b[30,4]-ib"), "a1b30-ib");
  for (const char* bad : {"", "[", "a[", "a[]", "a[-2]", "a b", "a]"}) EXPECT_EQ(first_slurm_host(bad), "") << bad;
}

TEST(Launcher, PmiOnOneHostAndOnSeveral) {
  const Result<Launch> result = launch(kPmi);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result.value().launcher, "PMI");
  EXPECT_EQ(result.value().nranks, 2u);
  EXPECT_EQ(result.value().point.host, "127.0.0.1");
  EXPECT_THAT(refusal(with(kPmi, {{"PMI_SIZE", "4"}})), HasSubstr("-genv MASTER_ADDR"));
  EXPECT_TRUE(launch(with(kPmi, {{"PMI_SIZE", "4"}, {"MASTER_ADDR", "alpha"}})).ok());
}

std::string launcher_of(const Variables& variables) {
  const Result<Launch> result = launch(variables);
  return result.ok() ? result.value().launcher : std::string(result.status().message());
}

TEST(Launcher, TheFirstCompleteOneWins) {
  Variables all = kTorchrun;
  for (const Variables& more : {kOpenMpi, kSlurm, kPmi}) all = with(all, more);
  EXPECT_EQ(launcher_of(all), "torchrun");
  all = with(kSlurm, with(kOpenMpi, {{"RANK", ""}, {"WORLD_SIZE", "4"}}));
  EXPECT_EQ(launcher_of(all), "Open MPI") << "mpirun inside a Slurm job";
  EXPECT_EQ(launcher_of(with(all, {{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}})), "Open MPI") << "by srun --mpi=pmi2";
  all = with(kSlurm, kPmi);
  EXPECT_EQ(launcher_of(all), "PMI") << "hydra inside a Slurm job: SLURM_PROCID is not this process's";
  all.erase("MPI_LOCALNRANKS");
  EXPECT_EQ(launcher_of(with(all, {{"PMI_RANK", "3"}, {"PMI_SIZE", "8"}})), "Slurm");
}

TEST(Launcher, SetsThatContradictEachOtherAreNamed) {
  const Variables by_hand = {
      {"RANK", "0"}, {"WORLD_SIZE", "1"}, {"LOCAL_RANK", "0"}, {"MASTER_ADDR", "alpha"}, {"MASTER_PORT", "29500"}};
  EXPECT_THAT(
      launcher_of(with(kOpenMpi, by_hand)),
      AllOf(HasSubstr("RANK=0 and WORLD_SIZE=1"), HasSubstr("OMPI_COMM_WORLD_RANK=1 and OMPI_COMM_WORLD_SIZE=4"),
            HasSubstr("unset"), HasSubstr("LOCAL_WORLD_SIZE")));
  EXPECT_THAT(refusal(with(kSlurm, by_hand)), HasSubstr("SLURM_PROCID=3 and SLURM_NTASKS=8"));
  EXPECT_THAT(refusal(with(kPmi, by_hand)), HasSubstr("PMI_RANK=0 and PMI_SIZE=2")) << "the size alone differs";
  EXPECT_THAT(refusal(with(kPmi, with(by_hand, {{"RANK", "1"}, {"WORLD_SIZE", "2"}}))), HasSubstr("PMI_RANK=0"))
      << "the rank alone differs";
  EXPECT_THAT(refusal(with(kOpenMpi, kPmi)),
              AllOf(HasSubstr("OMPI_COMM_WORLD_RANK=1"), HasSubstr("PMI_RANK=0 and PMI_SIZE=2")));
  Variables slurm_and_pmi = with(kSlurm, kPmi);
  slurm_and_pmi.erase("MPI_LOCALNRANKS");
  EXPECT_THAT(refusal(slurm_and_pmi), AllOf(HasSubstr("SLURM_PROCID=3"), HasSubstr("PMI_RANK=0")));
}

TEST(Launcher, ALauncherInsideAnothersJobIsNoContradiction) {
  const Variables by_hand = {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "alpha"}, {"MASTER_PORT", "29500"}};
  const Variables tutti_run = with(by_hand, {{"LOCAL_WORLD_SIZE", "2"}});
  const Variables torchrun = with(by_hand, {{"TORCHELASTIC_RUN_ID", "none"}});
  for (const Variables& outer : {kOpenMpi, kSlurm, kPmi})
    for (const Variables& inner : {tutti_run, torchrun}) EXPECT_EQ(launcher_of(with(outer, inner)), "torchrun");
  // They agree.
  EXPECT_EQ(launcher_of(with(kPmi, with(by_hand, {{"RANK", "0"}}))), "torchrun");
  // In an interactive shell that is the only process of its job, and in a batch script.
  EXPECT_EQ(launcher_of(with({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}}, by_hand)), "torchrun");
  EXPECT_EQ(launcher_of(with(with(kSlurm, {{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}}), by_hand)),
            "torchrun");
  Variables batch = with(kSlurm, {{"SLURM_PROCID", "0"}});
  batch.erase("SLURM_STEP_ID");
  EXPECT_EQ(launcher_of(with(batch, by_hand)), "torchrun");
}

TEST(Launcher, MissingAndContradictoryVariablesAreNamed) {
  EXPECT_THAT(refusal({}), AllOf(HasSubstr("RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT"), HasSubstr("tutti run")));
  EXPECT_THAT(refusal({{"RANK", "0"}}),
              AllOf(HasSubstr("RANK=0"), HasSubstr("WORLD_SIZE and MASTER_ADDR and MASTER_PORT")));
  EXPECT_THAT(refusal(with(kTorchrun, {{"MASTER_PORT", ""}})), HasSubstr("MASTER_PORT is not"));
  EXPECT_THAT(refusal(with(kTorchrun, {{"RANK", "4"}})),
              AllOf(HasSubstr("RANK=4"), HasSubstr("0 to 3, since WORLD_SIZE=4")));
  EXPECT_THAT(refusal(with(kTorchrun, {{"RANK", "-1"}})), HasSubstr("RANK=-1"));
  EXPECT_THAT(refusal(with(kTorchrun, {{"RANK", "one"}})), HasSubstr("RANK=one"));
  EXPECT_THAT(refusal(with(kTorchrun, {{"WORLD_SIZE", "0"}})), HasSubstr("WORLD_SIZE=0"));
  EXPECT_THAT(refusal(with(kTorchrun, {{"WORLD_SIZE", "4 "}})), HasSubstr("WORLD_SIZE=4 "));
  EXPECT_THAT(refusal(with(kTorchrun, {{"LOCAL_RANK", "2"}})),
              AllOf(HasSubstr("LOCAL_RANK=2"), HasSubstr("LOCAL_WORLD_SIZE=2")));
  EXPECT_THAT(refusal(with(kTorchrun, {{"LOCAL_WORLD_SIZE", "5"}})),
              AllOf(HasSubstr("LOCAL_WORLD_SIZE=5"), HasSubstr("WORLD_SIZE=4")));
  EXPECT_THAT(refusal(with(kTorchrun, {{"MASTER_PORT", "0"}})), HasSubstr("MASTER_PORT=0"));
  EXPECT_THAT(refusal(with(kTorchrun, {{"MASTER_PORT", "65536"}})), HasSubstr("from 1 to 65535"));
  EXPECT_THAT(refusal({{"OMPI_COMM_WORLD_RANK", "0"}}), HasSubstr("OMPI_COMM_WORLD_SIZE is not"));
  EXPECT_THAT(refusal(with(kOpenMpi, {{"OMPI_COMM_WORLD_RANK", "4"}})), HasSubstr("OMPI_COMM_WORLD_RANK=4"));
}

TEST(Launcher, TheKeyTellsJobsApart) {
  const auto key = [](const Variables& changes, const Config& config = {}) {
    return launch(with(kTorchrun, changes), config).value().point.key;
  };
  Config named;
  named.job_id = "another";
  const auto plain = key({});
  EXPECT_EQ(key({{"RANK", "0"}, {"LOCAL_RANK", "0"}}), plain);
  EXPECT_EQ(key({{"WORLD_SIZE", "8"}}), plain) << "ranks that disagree must be able to meet and be told";
  EXPECT_NE(key({{"MASTER_ADDR", "beta"}}), plain);
  EXPECT_NE(key({{"MASTER_PORT", "29501"}}), plain);
  EXPECT_NE(key({{"TORCHELASTIC_RUN_ID", "x"}}), plain);
  EXPECT_NE(key({{"TORCHELASTIC_RESTART_COUNT", "1"}}), plain);
  EXPECT_NE(key({}, named), plain);
}

TEST(Launcher, TheSecretFileIsTheKeyWhereThereIsOne) {
  char path[] = "/tmp/tutti_secret_XXXXXX";
  const int fd = ::mkstemp(path);
  ASSERT_GE(fd, 0);
  ::close(fd);
  Config config;
  config.secret_file = path;
  const auto key_of = [&](std::string_view contents) {
    std::ofstream(path) << contents;
    return launch(kTorchrun, config);
  };
  const auto plain = launch(kTorchrun).value().point.key;
  const auto first = key_of("0123456789abcdef"), same = key_of("0123456789abcdef\n"),
             other = key_of("0123456789abcdeX");
  EXPECT_NE(first.value().point.key, plain);
  EXPECT_EQ(first.value().point.key, same.value().point.key);
  EXPECT_NE(first.value().point.key, other.value().point.key);
  EXPECT_THAT(std::string(key_of("short").status().message()), AllOf(HasSubstr(path), HasSubstr("openssl rand")));
  ::unlink(path);
  const Result<Launch> gone = launch(kTorchrun, config);
  EXPECT_EQ(gone.status().code(), tuttiSystemError);
  EXPECT_THAT(std::string(gone.status().message()), AllOf(HasSubstr("TUTTI_SECRET_FILE"), HasSubstr("ENOENT")));
}

}  // namespace
}  // namespace tutti
