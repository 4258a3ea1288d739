// BatchProgram: what runs when instances of a held node run together: the
// kernel of the node, or, if the node is a region (exec/fusion/regions.h),
// those of the nodes that it replaces, one after the other. Between them the
// values of all instances stay together in one buffer, so what a region costs
// per instance are its inputs and outputs.
#ifndef SLUICE_EXEC_BATCHING_BATCH_PROGRAM_H_
#define SLUICE_EXEC_BATCHING_BATCH_PROGRAM_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "exec/batching/batch_objects.h"
#include "exec/batching/batch_requests.h"
#include "exec/core/frame.h"
#include "exec/fusion/regions.h"

namespace sluice {

// Immutable once made; shared by any number of steps on any threads.
//
// Values are numbered: the inputs of the held node first, then constants, then
// the outputs of each kernel.
struct BatchProgram {
  struct Call {
    const Node* node = nullptr;
    std::shared_ptr<Kernel> kernel;
    // At most one of them. None: the kernel runs for each instance.
    std::optional<BatchForm> form;
    ObjectForm object;
    // Whether the batch may overwrite its inputs. False if the kernel may fail:
    // then it runs for each instance on the same inputs.
    bool in_place = false;
    // Whether each run checks the outputs against what the node declares
    // (checked_kernel.h). A batch checks those of its instances.
    bool checked = false;
    std::vector<uint32_t> operands;  // Values.
    std::vector<bool> last_read;     // By operand.
    uint32_t first_output = 0;       // A value.
    uint32_t num_outputs = 0;
  };
  // What all instances must have in common in an input.
  enum class InputUse : uint8_t {
    kNothing,  // Read by kernels that run for each instance.
    kObject,   // What ObjectForm::fits compares.
    kShape,    // Its type and shape.
    kValue,    // The tensor, or equal elements.
  };

  uint32_t num_inputs() const { return static_cast<uint32_t>(inputs.size()); }

  std::vector<InputUse> inputs;
  std::vector<ObjectForm> objects;  // By input, if that is kObject.
  std::vector<Tensor> constants;
  std::vector<Call> calls;
  std::vector<uint32_t> outputs;  // Values, by output of the held node.
  uint32_t num_values = 0;
};

// The program of one node.
std::shared_ptr<const BatchProgram> ProgramOf(const Node& node,
                                              std::shared_ptr<Kernel> kernel,
                                              const BatchForm& form);
// That of a region. `forms`: of the nodes that have one.
std::shared_ptr<const BatchProgram> ProgramOf(const HeldRegion& region,
                                              const BatchForms& forms);

// Runs programs, each in two steps: Load, on the thread of the driver, takes
// what it needs of the frames' state; Run may be on another thread, while the
// driver goes on with other nodes. In between and during Run the instances are
// running: nobody else writes their input and output slots. Owned by a stage.
// It keeps its tables from one run to the next; they hold no tensors in
// between.
class BatchRun {
 public:
  explicit BatchRun(const Plan& plan) : plan_(plan) {}

  // Prepares to run `program` for `instances`, which have what InputUse says in
  // common and outlive the run. REQUIRES: nothing is loaded.
  void Load(const BatchProgram& program, std::span<const Ready> instances);
  // Fills the instances' output slots. If a kernel fails, `failed` is the
  // number of the instance, and no slots are filled.
  Status Run(StepContext* step, size_t* failed);
  // Drops what was loaded and has not run.
  void Clear();
  // Whether the last run called each kernel with a form once for all instances.
  bool ran_together() const { return ran_together_; }

 private:
  const Tensor& Input(Ready r, uint32_t i) const {
    const InputRef ref = plan_.inputs[r.node->first_input + i];
    return r.iteration->tables[ref.table][ref.index];
  }
  Tensor TakeInput(Ready r, uint32_t i) const;
  size_t count() const { return instances_.size(); }

  Status Execute(size_t* failed);
  void LoadInput(uint32_t i);
  bool IsSharedInput(uint32_t i) const;
  static bool IsShared(BatchValue* v);
  void MakeEach(uint32_t value);
  Status MakeStacked(uint32_t value);
  template <typename At>
  Result<Tensor> Stack(const At& at) const;
  Status RunTogether(const BatchProgram::Call& call);
  Status RunForAll(const BatchProgram::Call& call);
  Status RunStacked(const BatchProgram::Call& call);
  Status GatherOperands(const BatchProgram::Call& call);
  void DropLastReads(const BatchProgram::Call& call);
  void RestoreLastReads(const BatchProgram::Call& call);
  Status KeepOutputs(const BatchProgram::Call& call);
  Status RunEach(const BatchProgram::Call& call, size_t* failed);
  void HandOut();

  const Plan& plan_;
  // Of the run in progress.
  const BatchProgram* program_ = nullptr;
  std::span<const Ready> instances_;
  StepContext* step_ = nullptr;
  std::vector<BatchValue> values_;
  bool ran_together_ = true;
  // Of the call in progress.
  std::vector<Tensor> in_, first_, out_;
  bool shares_result_ = false;  // No operand differs between instances.
  std::vector<std::pair<size_t, Shape>> dropped_;  // Operands, and what of.
};

}  // namespace sluice

#endif  // SLUICE_EXEC_BATCHING_BATCH_PROGRAM_H_
