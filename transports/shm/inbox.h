// Inbox: the shared memory that a rank receives into. PeerInbox: another rank's, seen from here.
//
// Mappings are made section by section when links are opened and shared by all users within a process, so that
// ThreadSanitizer sees rank threads touch the same addresses. Thread-safe.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "base/fd.h"
#include "base/status.h"
#include "transports/shm/address.h"

namespace tutti::shm {

// A shared mapping of a part of a file; unmapped with the object.
class Mapping {
 public:
  static Result<std::shared_ptr<Mapping>> create(int fd, size_t offset, size_t bytes);
  Mapping(std::byte* data, size_t bytes) : data_(data), bytes_(bytes) {}
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();
  std::byte* data() const { return data_; }

 private:
  std::byte* data_;
  size_t bytes_;
};

class Inbox {
 public:
  // Makes the memfd and enters it in the process's table of inboxes.
  static Result<std::shared_ptr<Inbox>> create(const Token& token, const Geometry& geometry);
  // The inbox of a transport of this very process, or null.
  static std::shared_ptr<Inbox> find(const Address& address);
  ~Inbox();

  InboxHeader& header() const { return *reinterpret_cast<InboxHeader*>(header_->data()); }
  const std::shared_ptr<Mapping>& shared_header() const { return header_; }
  Result<std::shared_ptr<Mapping>> section(Rank source, ChannelId channel);
  int memfd() const { return memfd_.get(); }

 private:
  Inbox(const Token& token, const Geometry& geometry, Fd memfd, std::shared_ptr<Mapping> header)
      : token_(token), geometry_(geometry), memfd_(std::move(memfd)), header_(std::move(header)) {}

  const Token token_;
  const Geometry geometry_;
  const Fd memfd_;
  const std::shared_ptr<Mapping> header_;
  std::mutex mutex_;
  std::map<std::pair<Rank, ChannelId>, std::weak_ptr<Mapping>> sections_;  // guarded by mutex_
};

class PeerInbox {
 public:
  // Through this process's table, or through /proc/PID/fd; keeps no descriptor. The error says why it cannot be.
  static Result<std::unique_ptr<PeerInbox>> open(const Address& address);

  bool same_process() const { return local_ != nullptr; }
  InboxHeader& header() const { return *reinterpret_cast<InboxHeader*>(header_->data()); }
  Result<std::shared_ptr<Mapping>> section(Rank source, ChannelId channel) const;

 private:
  explicit PeerInbox(const Address& address) : address_(address) {}
  Result<Fd> open_file() const;

  Address address_;
  std::shared_ptr<Inbox> local_;  // of this process; else null
  std::shared_ptr<Mapping> header_;
};

}  // namespace tutti::shm
