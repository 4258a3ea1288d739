// Of initializers: which one a variable gets by default, and what one may know
// beyond its shape, that it makes a part of a larger variable. Internal.
#ifndef SLUICE_CLIENT_INITIAL_PART_H_
#define SLUICE_CLIENT_INITIAL_PART_H_

#include <cstdint>
#include <vector>

#include "client/initializers.h"
#include "tensor/shape.h"

namespace sluice {

// That of variables for which neither the user nor a scope has one.
InitializerFn DefaultInitializer(DType dtype);

// RAII scope of a thread in which initializers make the part at `offset` of a
// variable of shape `whole`. A local variable, as all scopes.
class InitialPart {
 public:
  InitialPart(Shape whole, std::vector<int64_t> offset);
  ~InitialPart();
  InitialPart(const InitialPart&) = delete;

  // The innermost one of this thread; null if there is none.
  static const InitialPart* Current();
  // The same for a tensor of shape `own`; null also if it cannot be the part,
  // such as a variable of its own that an initializer makes.
  static const InitialPart* CurrentOf(const Shape& own);
  const Shape& whole() const { return whole_; }
  int64_t offset(int axis) const { return offset_[static_cast<size_t>(axis)]; }
  const std::vector<int64_t>& offset() const { return offset_; }

 private:
  const Shape whole_;
  const std::vector<int64_t> offset_;
  const InitialPart* const outer_;
};

}  // namespace sluice

#endif  // SLUICE_CLIENT_INITIAL_PART_H_
