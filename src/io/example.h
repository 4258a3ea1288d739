// Batches of Examples and SequenceExamples (io/proto/example.proto) in their
// serialised form, to columns.
#ifndef SLUICE_IO_EXAMPLE_H_
#define SLUICE_IO_EXAMPLE_H_

#include <string>
#include <vector>

#include "base/status.h"
#include "tensor/tensor.h"

namespace sluice {

// The features that are read. All types are float, int64 or string.
struct ExampleSpec {
  // Any number of values.
  struct Sparse {
    std::string key;
    DType dtype = DType::kInvalid;
  };
  // As many values as `shape` has elements. If its first dimension is unknown,
  // a multiple of the elements of the others.
  struct Dense {
    std::string key;
    DType dtype = DType::kInvalid;
    PartialShape shape;
    // Taken where the feature is missing. Empty: it is an error. With an
    // unknown first dimension: the one element that shorter examples are
    // filled with.
    Tensor default_value;
  };
  struct Ragged {
    std::string key;
    DType dtype = DType::kInvalid;
    DType splits = DType::kInt64;  // Or int32.
  };
  std::vector<Sparse> sparse;
  std::vector<Dense> dense;
  std::vector<Ragged> ragged;
};

// One tensor for each feature of the specification, in its order.
struct ExampleColumns {
  std::vector<Tensor> sparse_indices, sparse_values, sparse_shapes;
  std::vector<Tensor> dense_values;
  std::vector<Tensor> ragged_values, ragged_splits;
};

// `serialized`: a vector of Examples, or a scalar, whose columns have no
// dimension for the batch. `names`: as many strings, for messages, or none.
// If a feature is there twice, the last one counts; features that the
// specification does not have are skipped. InvalidArgument for bytes that are
// no Example, values of another type or number, and required features that are
// missing; it names the example and the feature. Uses the kernel's threads.
Result<ExampleColumns> ParseExamples(const Tensor& serialized,
                                     const Tensor& names,
                                     const ExampleSpec& spec);

// The feature lists of SequenceExamples that are read.
struct SequenceSpec {
  // Any number of values in each of any number of frames.
  struct Sparse {
    std::string key;
    DType dtype = DType::kInvalid;
  };
  // Any number of frames of this shape, which is fully known.
  struct Dense {
    std::string key;
    DType dtype = DType::kInvalid;
    Shape shape;
    bool may_be_missing = false;  // Read as no frames; else an error.
  };
  std::vector<Sparse> sparse;
  std::vector<Dense> dense;
};

// Sparse columns have the dimensions batch, frame, value. Dense ones have those
// of the shape after batch and frame; zeros (or "") follow the last frame.
// dense_lengths has the number of frames of each example.
struct SequenceColumns {
  std::vector<Tensor> sparse_indices, sparse_values, sparse_shapes;
  std::vector<Tensor> dense_values, dense_lengths;
};

// Reads the feature lists; the context of a SequenceExample is what
// ParseExamples reads of the same bytes.
Result<SequenceColumns> ParseSequences(const Tensor& serialized,
                                       const Tensor& names,
                                       const SequenceSpec& spec);

}  // namespace sluice

#endif  // SLUICE_IO_EXAMPLE_H_
