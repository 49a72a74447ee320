#include "transports/shm/inbox.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>

namespace tutti::shm {
namespace {

// Never destroyed: a transport that the application leaks may outlive static destructors.
struct Table {
  std::mutex mutex;
  std::map<Token, std::weak_ptr<Inbox>> inboxes;
};
Table& table() {
  static Table* const instance = new Table;
  return *instance;
}

Status check_file_size_limit(size_t bytes) {
  // ftruncate() past RLIMIT_FSIZE is answered with SIGXFSZ, so ask first.
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < bytes)
    return fail(
        tuttiSystemError,
        "shared memory needs a sparse file of {} MiB, but the limit of file sizes (ulimit -f) is {} MiB; raise it or "
        "set TUTTI_TRANSPORT=^shm",
        bytes >> 20, limit.rlim_cur >> 20);
  return {};
}

}  // namespace

Result<std::shared_ptr<Mapping>> Mapping::create(int fd, size_t offset, size_t bytes) {
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, static_cast<off_t>(offset));
  if (data == MAP_FAILED)
    return system_error("mmap(shared memory)", errno,
                        "are the limits of address space (ulimit -v) or of mappings reached?");
  return std::make_shared<Mapping>(static_cast<std::byte*>(data), bytes);
}

Mapping::~Mapping() { ::munmap(data_, bytes_); }

Result<std::shared_ptr<Inbox>> Inbox::create(const Token& token, const Geometry& geometry) {
  TUTTI_TRY(check_file_size_limit(geometry.inbox_bytes()));
  Fd memfd(::memfd_create("tutti-inbox", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memfd) return system_error("memfd_create", errno, "is the limit of open files (ulimit -n) reached?");
  if (::ftruncate(memfd.get(), static_cast<off_t>(geometry.inbox_bytes())) != 0)
    return system_error("ftruncate(memfd)", errno);
  // A peer that could shrink the file could kill this process by SIGBUS.
  if (::fcntl(memfd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return system_error("fcntl(memfd, F_ADD_SEALS)", errno);
  TUTTI_TRY_ASSIGN(std::shared_ptr<Mapping> header, Mapping::create(memfd.get(), 0, kPageBytes));
  std::shared_ptr<Inbox> inbox(new Inbox(token, geometry, std::move(memfd), std::move(header)));
  inbox->header().token = token;
  const std::lock_guard lock(table().mutex);
  table().inboxes[token] = inbox;
  return inbox;
}

std::shared_ptr<Inbox> Inbox::find(const Address& address) {
  // A forked child has a copy of its parent's table; what is in there is another process's.
  if (address.pid != ::getpid()) return nullptr;
  const std::lock_guard lock(table().mutex);
  const auto entry = table().inboxes.find(address.token);
  return entry == table().inboxes.end() ? nullptr : entry->second.lock();
}

Inbox::~Inbox() {
  const std::lock_guard lock(table().mutex);
  table().inboxes.erase(token_);
}

Result<std::shared_ptr<Mapping>> Inbox::section(Rank source, ChannelId channel) {
  const std::lock_guard lock(mutex_);
  std::weak_ptr<Mapping>& known = sections_[{source, channel}];
  if (auto mapping = known.lock()) return mapping;
  TUTTI_TRY_ASSIGN(auto mapping,
                   Mapping::create(memfd_.get(), geometry_.section_offset(source, channel), geometry_.section_bytes()));
  known = mapping;
  return mapping;
}

Result<std::unique_ptr<PeerInbox>> PeerInbox::open(const Address& address) {
  std::unique_ptr<PeerInbox> peer(new PeerInbox(address));
  if ((peer->local_ = Inbox::find(address))) {
    peer->header_ = peer->local_->shared_header();
    return peer;
  }
  TUTTI_TRY_ASSIGN(const Fd file, peer->open_file());
  TUTTI_TRY_ASSIGN(peer->header_, Mapping::create(file.get(), 0, kPageBytes));
  return peer;
}

Result<Fd> PeerInbox::open_file() const {
  const std::string path = fmt::format("/proc/{}/fd/{}", address_.pid, address_.memfd);
  Fd file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!file)
    return system_error(
        fmt::format("open({})", path), errno,
        errno == EACCES || errno == EPERM
            ? "its process forbids it (prctl PR_SET_DUMPABLE, more capabilities, another user namespace)"
            : "its process has ended or closed the descriptor, or /proc is not mounted");
  // The number may have been closed and used again for something else in the meantime.
  Token found{};
  if (::pread(file.get(), &found, sizeof found, offsetof(InboxHeader, token)) != sizeof found ||
      found != address_.token)
    return fail(tuttiSystemError,
                "{} is no longer the rank's shared memory: its process closed a descriptor not its own", path);
  return file;
}

Result<std::shared_ptr<Mapping>> PeerInbox::section(Rank source, ChannelId channel) const {
  if (local_) return local_->section(source, channel);
  TUTTI_TRY_ASSIGN(const Fd file, open_file());
  return Mapping::create(file.get(), address_.geometry.section_offset(source, channel),
                         address_.geometry.section_bytes());
}

}  // namespace tutti::shm
