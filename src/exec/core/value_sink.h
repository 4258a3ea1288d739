// Where the bytes of a large value from another task go as they arrive.
#ifndef SLUICE_EXEC_CORE_VALUE_SINK_H_
#define SLUICE_EXEC_CORE_VALUE_SINK_H_

#include <string_view>

#include "tensor/tensor.h"

namespace sluice {

// Made by who expects the value, and used instead of a tensor of its own. Used
// by one thread at a time; may be destroyed before all bytes have come.
class ValueSink {
 public:
  virtual ~ValueSink() = default;
  // The next bytes, as many or few as have come, at any address. Their sender
  // may change them meanwhile, so each is read once.
  virtual void Put(std::string_view bytes) = 0;
  // All bytes have come. Returns what is delivered as the value.
  virtual Tensor Take() = 0;
};

}  // namespace sluice

#endif  // SLUICE_EXEC_CORE_VALUE_SINK_H_
