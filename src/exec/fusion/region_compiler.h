// Compiles part of a graph to a region program.
#ifndef SLUICE_EXEC_FUSION_REGION_COMPILER_H_
#define SLUICE_EXEC_FUSION_REGION_COMPILER_H_

#include <memory>
#include <vector>

#include "exec/fusion/region_program.h"
#include "exec/fusion/region_structure.h"

namespace sluice {

struct CompiledRegion {
  // A node with a kernel, and the producers of its inputs: region inputs,
  // constants and other such nodes.
  struct Part {
    const Node* node = nullptr;
    std::shared_ptr<Kernel> kernel;
    std::vector<Output> operands;
  };
  std::shared_ptr<RegionProgram> program;
  std::vector<Output> inputs;   // Graph outputs, by region input.
  std::vector<Part> parts;      // In the order in which they run.
  std::vector<Output> outputs;  // The producers, by region output.
};

// `units`: units of frame `f`, in topological order; each kFree or kCheap under
// one guard, or a single child loop that is `whole`. `outputs`: the outputs of
// the region; each is the output of one of these units.
CompiledRegion CompileRegion(RegionStructure& structure, int f,
                             const std::vector<int>& units,
                             const std::vector<Output>& outputs);

}  // namespace sluice

#endif  // SLUICE_EXEC_FUSION_REGION_COMPILER_H_
