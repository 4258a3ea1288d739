// ChainProgram: the program of a chain, which runs block by block.
#ifndef SLUICE_EXEC_FUSION_CHAIN_PROGRAM_H_
#define SLUICE_EXEC_FUSION_CHAIN_PROGRAM_H_

#include <memory>
#include <vector>

#include "exec/fusion/block_form.h"

namespace sluice {

// Elementwise nodes, in an order in which they can run. Values are numbered:
// the chain's inputs, then the results of its nodes. Immutable once made
// (exec/fusion/chains.h); shared by any number of steps on any threads.
class ChainProgram {
 public:
  static constexpr int kMaxChainNodes = 64;
  static constexpr int kMaxInputs = 64;
  struct Instr {
    const Node* node = nullptr;  // Outlives the program.
    std::shared_ptr<Kernel> kernel;
    const void* state = nullptr;  // The kernel's, for the form.
    BlockForm form;
    int num_inputs = 0;
    int in[3] = {};                // Values.
    int output = -1;               // An output of the chain, or else
    int scratch = -1;              // the scratch block that holds the result.
    DType type = DType::kInvalid;  // Type of the result.
  };

  // `outputs`: values that instructions compute. REQUIRES: 1 to kMaxChainNodes
  // instructions, at most kMaxInputs inputs.
  ChainProgram(std::vector<Instr> instrs, std::vector<DType> input_types,
               std::vector<int> outputs);

  // Runs as a kernel on the chain's inputs and outputs.
  Status Run(KernelContext& ctx) const;

 private:
  friend class ChainRun;
  void PlaceBlocks();
  void FindForwards();
  // Runs one node after the other, without blocks.
  Status RunOneByOne(KernelContext& ctx) const;
  int num_inputs() const { return static_cast<int>(input_types_.size()); }
  size_t SizeOf(int value) const;

  std::vector<Instr> instrs_;
  const std::vector<DType> input_types_;
  const std::vector<int> outputs_;  // Values.
  std::vector<int> last_read_;      // By value: the instruction; -1: none.
  // By output: the inputs whose memory it may reuse, because they are not read
  // after the block has been written.
  std::vector<std::vector<int>> forwards_;
  int num_scratch_ = 0;
  int64_t block_ = 0;  // Elements.
  size_t widest_ = 1;  // Bytes of an element.
};

}  // namespace sluice

#endif  // SLUICE_EXEC_FUSION_CHAIN_PROGRAM_H_
