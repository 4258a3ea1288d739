// Stream: a queue of work on a device; Event: a point in it.
//
//   const std::shared_ptr<Event> computed = compute->Record();
//   copies->Wait(computed);  // The device waits, not the host.
//   copies->Enqueue(copy_ns);  // In the way of the device.
//   copies->Record()->OnDone([&] { copied = true; });  // On any thread.
#ifndef SLUICE_EXEC_CORE_STREAM_H_
#define SLUICE_EXEC_CORE_STREAM_H_

#include <functional>
#include <memory>

#include "base/status.h"

namespace sluice {

class KernelContext;

// The end of all work that was in a stream when the event was recorded.
// Thread-safe; may outlive its stream.
class Event {
 public:
  virtual ~Event() = default;
  virtual bool done() const = 0;
  // Calls `fn` once when the event is done: at once, or later on any thread.
  // `fn` must not wait for another event.
  virtual void OnDone(std::function<void()> fn) = 0;
};

// Work runs in the order in which it was enqueued; streams run beside each
// other. How work is enqueued is the device's own matter, between it and its
// kernels. Owned by the device and by the memory that is given back in its
// order (StreamAllocator). Thread-safe.
class Stream {
 public:
  virtual ~Stream() = default;
  // Cheap if nothing was enqueued since the last call.
  virtual std::shared_ptr<Event> Record() = 0;
  // Work that is enqueued later starts when the event is done. REQUIRES: the
  // event is of a device that this one can copy from (Device::CanCopyFrom), or
  // of this one.
  virtual void Wait(const std::shared_ptr<Event>& event) = 0;
};

// For async kernels: calls `finish` exactly once, with OK when the event is
// done, or with Cancelled when the step is cancelled. (The stream itself cannot
// be stopped.) Does not touch the context after that.
void AwaitEvent(KernelContext& ctx, Event& event,
                std::function<void(Status)> finish);

}  // namespace sluice

#endif  // SLUICE_EXEC_CORE_STREAM_H_
