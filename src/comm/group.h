// Group: what a thread calls between GroupStart and GroupEnd, and how single calls and groups are carried out.
#pragma once

#include <functional>

#include "comm/communicator.h"
#include "comm/stream.h"

namespace tutti {

// Runs `request` now (stream null), queues it on `stream`, or adds it to the calling thread's open group.
Status submit(Communicator& comm, Request request, Stream* stream);

// Work that must meet other ranks and may be done for several ranks by one thread: made now, or, inside a group, at its
// end, each in a thread of its own.
Status submit_meeting(std::function<Status()> meeting);

// What an operation's call returns. A failure in an open group is kept: the peers would wait for the call that is missing,
// so none of the group is carried out.
Status accept(Status checked);

// Whether the calling thread's open group holds calls on `comm`, or meetings, any of which may use it.
bool open_group_needs(const Communicator& comm);
bool open_group_needs(const Stream& stream);
// Nothing of the calling thread's open group, if there is one, will be carried out; its end returns `why`.
void call_off_open_group(const Status& why);

void group_start();
// Runs what was collected, at the outermost level. Errors: the first one; a call without group_start().
Status group_end();

}  // namespace tutti
