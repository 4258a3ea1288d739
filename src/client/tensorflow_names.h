// Graphs that library functions build with operators, named as TensorFlow's
// Python client names them. Internal.
#ifndef SLUICE_CLIENT_TENSORFLOW_NAMES_H_
#define SLUICE_CLIENT_TENSORFLOW_NAMES_H_

namespace sluice {

// While it lives, the operators that this thread calls (client/operators.h)
// name their nodes "add", "sub", "mul" and "truediv", and a bare number beside
// a tensor "mul/x" or "mul/y", in place of "AddV2", "Const" and so on. A local
// variable.
class TensorFlowNames {
 public:
  TensorFlowNames();
  ~TensorFlowNames();
  TensorFlowNames(const TensorFlowNames&) = delete;

 private:
  const bool saved_;
};

}  // namespace sluice

#endif  // SLUICE_CLIENT_TENSORFLOW_NAMES_H_
