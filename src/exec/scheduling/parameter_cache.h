// ParameterCache: parameters of scheduled bodies in the memory of a device.
#ifndef SLUICE_EXEC_SCHEDULING_PARAMETER_CACHE_H_
#define SLUICE_EXEC_SCHEDULING_PARAMETER_CACHE_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "exec/core/resources.h"
#include "tensor/tensor.h"

namespace sluice {

// The number of a parameter, or of a device, by its name: the same in the whole
// process, for tables by number. Names are never removed. Thread-safe.
int ParameterNumber(const std::string& name);
int ScheduledDeviceNumber(const std::string& name);

// The bytes of parameters and inputs that bodies which run at the same time are
// to need at most on a device of this number; INT64_MAX if it was never set.
// (A hint: devices of one name in several sessions share it.) Thread-safe.
void SetBodyMemory(int device_number, int64_t bytes);
int64_t BodyMemory(int device_number);

// The copies of variables' values that one device holds for scheduled bodies
// of one session. Owned by the session's resources, so it ends with them; its
// device's kernels fill it, and the scheduler asks what is there. Thread-safe.
//
// A copy is kept with the value that it was made from. A variable that is
// updated while its value is held gets a new buffer, so the copy is current
// exactly if the buffer that it was made from is the variable's. The caches of
// all devices share one holder of a value (Scheduler::HeldValue): if nothing
// else refers to the buffer, the variable has another one, and the copies are
// dropped when somebody asks for what is there. All copies
// together have at most `max_bytes`; the least recently used one goes first. A
// copy that goes while a kernel still reads it lives until that is done.
class ParameterCache final : public Resource {
 public:
  struct Stats {
    int64_t hits = 0, fetches = 0, evictions = 0;
    int64_t bytes = 0;
  };

  explicit ParameterCache(int64_t max_bytes) : max_bytes_(max_bytes) {}
  std::string TypeName() const override { return "ParameterCache"; }
  // The name of a device's cache among the resources of a session, which other
  // sessions, with other devices of that name, may share: the number differs.
  static std::string NameFor(const std::string& device, int64_t number);

  // The copy that was made from this value; invalid if there is none.
  Tensor Find(int parameter, const Tensor& value);
  // Keeps a copy, in place of an older one of the parameter, if it fits.
  void Keep(int parameter, std::shared_ptr<const Tensor> value, Tensor copy);
  // Drops copies that only the cache holds until `bytes` are free or none is
  // left. Returns the bytes that were freed.
  int64_t Evict(int64_t bytes);
  // The bytes of these parameters that are here. Drops those that are not
  // current.
  int64_t BytesOf(std::span<const int> parameters);
  Stats stats() const;
  // Held while a value is fetched, so that two readers fetch it once.
  std::mutex& fetch_mutex() { return fetch_mu_; }

 private:
  struct Entry {
    std::shared_ptr<const Tensor> value;
    Tensor copy;  // Invalid if there is none.
    int64_t used = 0;
  };
  // What was dropped, to be destroyed without the lock.
  struct Dropped {
    std::vector<std::shared_ptr<const Tensor>> values;
    std::vector<Tensor> copies;
  };
  // Both REQUIRE mu_ held.
  void Drop(Entry* e, Dropped* dropped);
  Entry* LeastRecent(bool unused_only);

  const int64_t max_bytes_;
  std::mutex fetch_mu_;
  mutable std::mutex mu_;
  std::vector<Entry> entries_;  // By parameter. GUARDED_BY(mu_)
  int64_t clock_ = 0;           // GUARDED_BY(mu_)
  Stats stats_;                 // GUARDED_BY(mu_)
};

}  // namespace sluice

#endif  // SLUICE_EXEC_SCHEDULING_PARAMETER_CACHE_H_
