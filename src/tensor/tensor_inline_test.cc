// Tensors that live inline, written through one type and copied: the optimiser
// must not take the write and the copy for independent. Fails only when
// optimised, so the writers are out of line and the release build runs it.
#include <gtest/gtest.h>

#include <cstdint>
#include <utility>

#include "tensor/tensor.h"

namespace sluice {
namespace {

template <typename T>
[[gnu::noinline]] void WriteThenCopy(T value, Tensor* copied,
                                     Tensor* assigned) {
  Tensor t = *Tensor::Make(DTypeOf<T>(), Shape());
  t.data<T>()[0] = value;
  Tensor copy = t;
  *assigned = t;
  *copied = std::move(copy);
}

template <typename T>
void ExpectKept(T value) {
  Tensor copied, assigned;
  WriteThenCopy(value, &copied, &assigned);
  EXPECT_EQ(copied.data<T>()[0], value);
  EXPECT_EQ(assigned.data<T>()[0], value);
}

TEST(InlineTensorTest, CopiesShareWritesThroughData) {
  ExpectKept<float>(1.5f);
  ExpectKept<double>(-2.5);
  ExpectKept<int8_t>(-3);
  ExpectKept<int16_t>(300);
  ExpectKept<int32_t>(70000);
  ExpectKept<int64_t>(int64_t{1} << 40);
  ExpectKept<bool>(true);
}

}  // namespace
}  // namespace sluice
