// Signatures: what a model computes, by names that callers know.
//
//   Output x = Placeholder<float>({-1, 784}, "x");
//   Output scores = ops::Softmax(ops::MatMul(x, w));
//   Result<Signature> predict =
//       PredictSignature({{"images", x}}, {{"scores", scores}});
//   // predict->inputs.at("images").name == "x:0"
#ifndef SLUICE_DEPLOY_SIGNATURE_H_
#define SLUICE_DEPLOY_SIGNATURE_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/node.h"
#include "tensor/tensor.h"

namespace sluice {

// The names that TensorFlow's servers and clients expect.
inline constexpr char kPredictMethod[] = "tensorflow/serving/predict";
inline constexpr char kClassifyMethod[] = "tensorflow/serving/classify";
inline constexpr char kRegressMethod[] = "tensorflow/serving/regress";
inline constexpr char kDefaultSignature[] = "serving_default";

// A value of a graph, by its name.
struct TensorInfo {
  std::string name;  // "x:0"; "" if it consists of several tensors.
  DType dtype = DType::kInvalid;
  PartialShape shape = PartialShape::Unknown();
  // A sparse tensor consists of three.
  struct Sparse {
    std::string values, indices, dense_shape;
  };
  std::optional<Sparse> sparse = std::nullopt;
  // One of the tensors of a value: what callers add to its name ("/values", ""
  // if it is the whole value), and the tensor.
  struct Part {
    std::string suffix;
    std::string name;
    DType dtype = DType::kInvalid;
    PartialShape shape = PartialShape::Unknown();
  };
  // Another value that consists of several, as programs of TensorFlow 2 have
  // them: a ragged tensor of "/values", "/row_splits_0" (the outermost) and so
  // on; others of "/0", "/1" and so on.
  struct Composite {
    std::string type_spec;  // A serialised TypeSpecProto.
    std::vector<Part> parts;
  };
  std::optional<Composite> composite = std::nullopt;
  // The tensors of this value: three of a sparse one.
  std::vector<Part> Parts() const;
  static TensorInfo Of(const Output& o);  // Empty for a null output.
  std::string ToString() const;           // "float[?,784] x:0"
};

struct Signature {
  std::map<std::string, TensorInfo> inputs, outputs;
  std::string method = kPredictMethod;
  // Of inputs that a caller may leave out.
  std::map<std::string, Tensor> defaults = {};
};

// A signature of any values. InvalidArgument if there are no inputs or no
// outputs, or one of them is null.
Result<Signature> PredictSignature(
    const std::map<std::string, Output>& inputs,
    const std::map<std::string, Output>& outputs);
// From serialised examples (strings) to classes (strings), their scores
// (floats), or both: one of them may be null. The input is named "inputs", the
// outputs "classes" and "scores". InvalidArgument for other types.
Result<Signature> ClassifySignature(const Output& examples,
                                    const Output& classes,
                                    const Output& scores);
// From serialised examples to numbers (floats): "inputs" and "outputs".
Result<Signature> RegressSignature(const Output& examples,
                                   const Output& predictions);
// Whether a signature has what its method asks for: InvalidArgument says what
// is missing. Methods other than these three ask for nothing.
Status CheckSignature(const Signature& signature);

}  // namespace sluice

#endif  // SLUICE_DEPLOY_SIGNATURE_H_
