#include "comm/group.h"

#include <algorithm>
#include <thread>

#include "base/no_throw.h"
#include "comm/driver.h"

namespace tutti {
namespace {

struct Entry {
  Communicator* comm;
  Request request;
  Stream* stream;
};

struct OpenGroup {
  int depth = 0;
  Status refused;  // the first call that was not accepted
  std::vector<Entry> entries;
  std::vector<std::function<Status()>> meetings;
};
thread_local OpenGroup open_group;

// A batch that owns its requests, for work that outlives the call.
struct OwnedBatch {
  Communicator* comm = nullptr;
  Stream* stream = nullptr;
  uint64_t ticket = 0;
  std::vector<Request> ordered, messages;
  Batch view() const { return {comm, ticket, ordered, messages}; }
};

Status run_owned(const std::vector<OwnedBatch>& batches) {
  std::vector<Batch> views;
  for (const OwnedBatch& batch : batches) views.push_back(batch.view());
  return run_batches(views);
}

Result<std::vector<OwnedBatch>> batches_of(std::vector<Entry> entries) {
  std::vector<OwnedBatch> batches;
  for (Entry& entry : entries) {
    auto batch = std::find_if(batches.begin(), batches.end(), [&](auto& b) { return b.comm == entry.comm; });
    if (batch == batches.end()) {
      batches.push_back({entry.comm, entry.stream});
      batch = batches.end() - 1;
    }
    if (batch->stream != entry.stream)
      return invalid_usage("a group uses two streams for one communicator; use one stream for each communicator");
    auto& requests = entry.request.point_to_point() ? batch->messages : batch->ordered;
    requests.push_back(std::move(entry.request));
  }
  for (OwnedBatch& batch : batches) {
    batch.ordered = fuse_small_all_reduces(std::move(batch.ordered));
    batch.ticket = batch.comm->issue();
  }
  return batches;
}

// Batches without a stream run here, side by side; those of one stream as one piece of work there.
Status run_group(std::vector<Entry> entries) {
  TUTTI_TRY_ASSIGN(std::vector<OwnedBatch> batches, batches_of(std::move(entries)));
  std::vector<OwnedBatch> here;
  std::vector<std::pair<Stream*, std::shared_ptr<std::vector<OwnedBatch>>>> elsewhere;
  for (OwnedBatch& batch : batches) {
    if (!batch.stream) {
      here.push_back(std::move(batch));
      continue;
    }
    auto work = std::find_if(elsewhere.begin(), elsewhere.end(), [&](auto& w) { return w.first == batch.stream; });
    if (work == elsewhere.end()) {
      elsewhere.emplace_back(batch.stream, std::make_shared<std::vector<OwnedBatch>>());
      work = elsewhere.end() - 1;
    }
    work->second->push_back(std::move(batch));
  }
  for (auto& [stream, work] : elsewhere) stream->enqueue([owned = std::move(work)] { return run_owned(*owned); });
  return run_owned(here);
}

Status run_meetings(std::vector<std::function<Status()>> meetings) {
  std::vector<Status> statuses(meetings.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < meetings.size(); ++i) {
    try {
      threads.emplace_back([&, i] { statuses[i] = without_exceptions(meetings[i]); });
    } catch (const std::system_error& e) {
      statuses[i] = system_error("starting a thread for a rank", e.code().value(), "raise ulimit -u");
      break;  // the others will hear of a rank that does not come
    }
  }
  for (std::thread& thread : threads) thread.join();
  for (Status& status : statuses) TUTTI_TRY(status);
  return {};
}

}  // namespace

Status submit(Communicator& comm, Request request, Stream* stream) {
  TUTTI_TRY(comm.error());
  if (comm.finalized())
    return invalid_usage("the communicator has been finalized by tuttiCommFinalize; all that is left is to destroy it");
  if (open_group.depth > 0) {
    open_group.entries.push_back({&comm, std::move(request), stream});
    return {};
  }
  const uint64_t ticket = comm.issue();
  if (!stream) return run_request(comm, ticket, request);
  stream->enqueue([&comm, ticket, request = std::move(request)] { return run_request(comm, ticket, request); });
  return {};
}

Status submit_meeting(std::function<Status()> meeting) {
  if (open_group.depth == 0) return meeting();
  open_group.meetings.push_back(std::move(meeting));
  return {};
}

bool open_group_needs(const Communicator& comm) {
  const auto& entries = open_group.entries;
  return !open_group.meetings.empty() ||
         std::any_of(entries.begin(), entries.end(), [&](const Entry& entry) { return entry.comm == &comm; });
}

bool open_group_needs(const Stream& stream) {
  return std::ranges::any_of(open_group.entries, [&](const Entry& entry) { return entry.stream == &stream; });
}

void call_off_open_group(const Status& why) {
  if (open_group.depth > 0 && open_group.refused.ok()) open_group.refused = why;
}

void group_start() { ++open_group.depth; }

Status accept(Status checked) {
  if (!checked.ok() && open_group.depth > 0 && open_group.refused.ok()) open_group.refused = checked;
  return checked;
}

Status group_end() {
  if (open_group.depth == 0) return invalid_usage("tuttiGroupEnd without tuttiGroupStart in this thread");
  if (--open_group.depth > 0) return {};
  // Taken out first: whatever happens now, the next group starts empty.
  OpenGroup group = std::exchange(open_group, {});
  TUTTI_TRY(group.refused);
  TUTTI_TRY(run_meetings(std::move(group.meetings)));
  return run_group(std::move(group.entries));
}

}  // namespace tutti
