// tutti.hpp against the linked library: what its classes add to the C API is ownership and exceptions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tutti/tutti.hpp"

namespace {

// Runs body(communicator) on one thread per rank; what a body throws fails the test.
template <class Body>
void on_every_rank(int nranks, const Body& body) {
  std::vector<tutti::Communicator> comms = tutti::Communicator::in_process(nranks);
  std::vector<std::string> errors(comms.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < comms.size(); ++i) {
    threads.emplace_back([&, i] {
      try {
        body(comms[i]);
      } catch (const tutti::Error& error) {
        errors[i] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

TEST(Raii, CollectivesThroughTheClasses) {
  on_every_rank(3, [](const tutti::Communicator& comm) {
    const int rank = comm.rank(), n = comm.size();
    std::vector<double> values(1000, rank + 1.0);
    comm.all_reduce(values.data(), values.size(), tuttiSum);
    EXPECT_THAT(values, testing::Each(6.0));

    std::vector<int> gathered(static_cast<size_t>(n), -1);
    comm.all_gather(&rank, gathered.data(), 1);
    EXPECT_THAT(gathered, testing::ElementsAre(0, 1, 2));

    int root_value = rank == 2 ? 77 : 0;
    comm.broadcast(&root_value, 1, 2);
    EXPECT_EQ(root_value, 77);
    comm.barrier();
  });
}

TEST(Raii, SplitMovesAndEmptyCommunicators) {
  on_every_rank(4, [](const tutti::Communicator& comm) {
    const int rank = comm.rank();
    tutti::Communicator half = comm.split(rank < 3 ? 0 : TUTTI_SPLIT_NOCOLOR, rank);
    EXPECT_EQ(static_cast<bool>(half), rank < 3);
    tutti::Communicator moved = std::move(half);
    if (moved) {
      EXPECT_EQ(moved.size(), 3);
      EXPECT_EQ(moved.rank(), rank);
      moved.finalize();
    }
    comm.check_health();
  });
}

TEST(Raii, AGroupOnAStream) {
  on_every_rank(2, [](const tutti::Communicator& comm) {
    tutti::Stream stream;
    const int peer = 1 - comm.rank();
    const int sent = comm.rank() + 10;
    int received = 0;
    tutti::Group group;
    comm.send(&sent, 1, peer, stream.get());
    comm.recv(&received, 1, peer, stream.get());
    group.end();
    stream.synchronize();
    EXPECT_TRUE(stream.done());
    EXPECT_EQ(received, peer + 10);
  });
}

TEST(Raii, AnErrorCarriesCodeAndSentence) {
  std::vector<tutti::Communicator> comms = tutti::Communicator::in_process(1);
  int value = 1;
  try {
    comms[0].broadcast(&value, 1, 5);
    FAIL() << "root 5 of 1 rank was accepted";
  } catch (const tutti::Error& error) {
    EXPECT_EQ(error.code(), tuttiInvalidArgument);
    EXPECT_THAT(error.what(), testing::HasSubstr("5"));
  }
}

TEST(Raii, AbortLeavesAnEmptyObject) {
  std::vector<tutti::Communicator> comms = tutti::Communicator::in_process(1);
  comms[0].abort();
  EXPECT_FALSE(comms[0]);
  comms[0].abort();
}

}  // namespace
