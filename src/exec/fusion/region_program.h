// RegionProgram: the program of a region. A region is a part of a step that
// costs more to schedule than to compute - a group of cheap nodes, or a whole
// loop of them with its conditionals - whose order is fixed in advance and
// which is one node of the plan (exec/fusion/regions.h). Its program is a list
// of instructions over two tables: registers of eight bytes for values known to
// be scalars, and slots, which hold tensors, for everything else.
#ifndef SLUICE_EXEC_FUSION_REGION_PROGRAM_H_
#define SLUICE_EXEC_FUSION_REGION_PROGRAM_H_

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "exec/core/kernel.h"

namespace sluice {

// Half a cache line. With `fn`: registers[out] = fn(registers[in...]).
struct RegionInstr {
  enum Code : uint8_t {
    kCall,        // calls[target], on slots.
    kSkipUnless,  // To `target`, unless register in[0] is `flag`.
    kLoop,        // Counts in register out; back to `target`.
    kMove,        // Register out = register in[0].
    kSelect,      // Register out = in[2] ? in[1] : in[0].
    kMoveSlot,    // Slot out = slot in[0]; moved if `flag`.
    kSelectSlot,  // Slot out = register in[2] ? slot in[1] : slot in[0].
    kBox,         // Slot out = register in[0], of type `flag`.
    kUnbox,  // Register out = slot in[0], which must be a scalar of `flag`.
    kEnd,
  };
  ScalarFn fn = nullptr;
  union {
    ScalarPlaces at;
    struct {
      uint32_t in[3];
      uint32_t out;
      uint32_t target;
      Code code;
      uint8_t flag;
    };
  };
  RegionInstr() : at() {}
};
static_assert(sizeof(RegionInstr) == 32);

// Immutable once compiled (exec/fusion/region_compiler.h); shared by any number
// of steps on any threads.
class RegionProgram {
 public:
  // A node that runs its kernel on slots; for a scalar instruction, the node
  // that errors name.
  struct Call {
    explicit Call(const Node* n, std::shared_ptr<Kernel> k = nullptr);
    const Node* node = nullptr;
    std::shared_ptr<Kernel> kernel;
    // Copied from these two:
    Status (*run)(KernelContext&) = nullptr;
    void* state = nullptr;
    int num_inputs = 0, num_outputs = 0;
    uint32_t first_ref = 0;
    uint32_t first_output = 0;                // A slot.
    uint32_t first_clear = 0, num_clear = 0;  // Slots not read again.
  };
  // An input or output of the region, in a register, a slot or both.
  struct Port {
    int64_t reg = -1;
    int64_t slot = -1;
    DType dtype = DType::kInvalid;
    const Node* node = nullptr;  // For inputs: the producer.
  };
  struct Loop {
    std::string name;
    uint32_t counter = 0;  // The register with the iteration number.
    // Its code; the body follows the branch.
    uint32_t begin = 0, branch = 0, end = 0;
  };

  RegionProgram() = default;
  ~RegionProgram();

  // Runs as a kernel on the inputs and outputs of the region's node.
  Status Run(KernelContext& ctx);

  std::vector<RegionInstr> code;
  std::vector<uint32_t> call_of;  // By instruction (fn, kCall): index in calls.
  std::vector<Call> calls;
  // kFrame: a slot that is read again; kIteration: one that is not, so that a
  // kernel may take its buffer; kPlan: a constant.
  std::vector<InputRef> refs;
  std::vector<uint32_t> clears;
  std::vector<Tensor> constants;
  std::vector<uint64_t> registers;  // Initial values: constants set.
  uint32_t num_slots = 0;
  std::vector<std::pair<uint32_t, uint32_t>> constant_slots;  // And which.
  std::vector<Port> inputs, outputs;
  std::vector<Loop> loops;     // Inner ones before outer ones.
  std::vector<uint32_t> ones;  // A reader count of one for each slot.

 private:
  friend class RegionRun;
  // The tables of one run, which are reused.
  struct Workspace {
    std::vector<uint64_t> registers;
    std::vector<Tensor> slots;
  };
  void SetConstants(Workspace* w) const;
  std::unique_ptr<Workspace> Acquire();
  void Release(std::unique_ptr<Workspace> w);

  // Most runs find the workspace of the one before here, without a lock.
  std::atomic<Workspace*> last_ = nullptr;
  std::mutex mu_;
  std::vector<std::unique_ptr<Workspace>> idle_;  // GUARDED_BY(mu_)
};

}  // namespace sluice

#endif  // SLUICE_EXEC_FUSION_REGION_PROGRAM_H_
