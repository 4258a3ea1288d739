// For any input bytes, parsing them as Examples and as SequenceExamples returns
// columns of the declared types that agree with each other, or an error.
//
// Seeds are in tests/fuzz/example_fuzz.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "io/example.h"

namespace {

using sluice::DType;
using sluice::PartialShape;
using sluice::Shape;
using sluice::Tensor;

void Require(bool ok) {
  if (!ok) std::abort();
}

void CheckSparse(const Tensor& indices, const Tensor& values,
                 const Tensor& shape) {
  Require(indices.rank() == 2 && indices.dim(0) == values.num_elements());
  Require(indices.dim(1) == shape.num_elements());
  const int64_t* at = indices.raw<int64_t>();
  for (int64_t i = 0; i < indices.num_elements(); ++i)
    Require(at[i] >= 0 &&
            at[i] < shape.raw<int64_t>()[i % shape.num_elements()]);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  // The whole input, and a batch of its two halves.
  const Tensor one = Tensor::Scalar(bytes);
  const Tensor two = Tensor::Vector<std::string>(
      {bytes.substr(0, size / 2), bytes.substr(size / 2)});
  const Tensor no_names(DType::kString, Shape({0}));
  sluice::ExampleSpec spec;
  spec.sparse = {{"s", DType::kInt64}, {"b", DType::kString}};
  spec.dense = {
      {"x", DType::kFloat, PartialShape({2}), Tensor::Vector<float>({1, 2})},
      {"v", DType::kInt64, PartialShape({-1, 2}),
       Tensor::Vector<int64_t>({0})}};
  spec.ragged = {{"r", DType::kFloat, DType::kInt32}};
  sluice::SequenceSpec lists;
  lists.sparse = {{"s", DType::kInt64}, {"b", DType::kString}};
  lists.dense = {{"x", DType::kFloat, Shape({2}), true}};
  for (const Tensor* serialized : {&one, &two}) {
    const auto columns = ParseExamples(*serialized, no_names, spec);
    if (columns.ok()) {
      for (size_t i = 0; i < spec.sparse.size(); ++i)
        CheckSparse(columns->sparse_indices[i], columns->sparse_values[i],
                    columns->sparse_shapes[i]);
      const Tensor& splits = columns->ragged_splits[0];
      if (splits.num_elements() > 0)
        Require(splits.raw<int32_t>()[splits.num_elements() - 1] ==
                columns->ragged_values[0].num_elements());
    }
    const auto sequences = ParseSequences(*serialized, no_names, lists);
    if (sequences.ok())
      for (size_t i = 0; i < lists.sparse.size(); ++i)
        CheckSparse(sequences->sparse_indices[i], sequences->sparse_values[i],
                    sequences->sparse_shapes[i]);
  }
  return 0;
}
