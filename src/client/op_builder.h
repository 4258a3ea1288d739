// Building blocks of the generated builders in sluice/ops.h: each builder is
// one line of calls to this class, so that including hundreds of them is cheap.
#ifndef SLUICE_CLIENT_OP_BUILDER_H_
#define SLUICE_CLIENT_OP_BUILDER_H_

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "graph/builder.h"

namespace sluice {

// A list argument of a builder: {a, b, 1.0f}, or a vector of outputs.
class Operands {
 public:
  Operands(std::initializer_list<Operand> items) : items_(items) {}  // NOLINT
  Operands(std::vector<Operand> items)                               // NOLINT
      : items_(std::move(items)) {}
  Operands(const std::vector<Output>& outputs)  // NOLINT
      : items_(outputs.begin(), outputs.end()) {}
  const std::vector<Operand>& items() const { return items_; }

 private:
  std::vector<Operand> items_;
};

// One call of a builder: collects the arguments in the order of the op's
// declaration, then adds the node. Lives for one expression on one thread.
//
// A bare number takes the type of the arguments that share its type attribute,
// else the declared type, else int32 or float. Errors are recorded in the
// graph, as by BuildNode; the outputs are then null, but lists keep the
// requested length.
class OpCall {
 public:
  OpCall(const char* op, const std::string& name, SourceLoc loc);
  OpCall(const OpCall&) = delete;

  OpCall& In(const Operand& x);
  OpCall& In(const Operands& xs);
  OpCall& Attr(const char* name, AttrValue value);

  // Each adds the node if it was not added before. `arg` is an index into the
  // declared outputs.
  Node* Run();
  Output Out(int arg = 0);
  std::vector<Output> List(int arg = 0);

 private:
  DType TypeOf(const std::string& attr) const;
  std::vector<Output> Inputs() const;
  void SetSeeds();
  size_t ExpectedLength(const ArgDef& arg) const;

  const char* op_name_;
  const OpDef* op_;
  std::string name_;
  SourceLoc loc_;
  std::vector<std::vector<Operand>> args_;
  AttrMap attrs_;
  Node* node_ = nullptr;
  Output failure_;  // Used for all outputs if node_ stays null.
  bool done_ = false;
};

}  // namespace sluice

#endif  // SLUICE_CLIENT_OP_BUILDER_H_
