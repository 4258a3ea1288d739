// How an elementwise kernel computes part of its result, for chains
// (exec/fusion/chains.h).
#ifndef SLUICE_EXEC_FUSION_BLOCK_FORM_H_
#define SLUICE_EXEC_FUSION_BLOCK_FORM_H_

#include <cstdint>
#include <optional>

#include "exec/core/kernel.h"

namespace sluice {

// A value type. Each element of the single output is a function of the elements
// at the same position of up to three inputs.
struct BlockForm {
  // Computes n elements on this thread; `state` is Kernel::state. If bit i of
  // `single` is set, input i has one element, which is used for all n. With
  // fewer than three inputs, `out` may alias an input that is not single and
  // whose elements have the size of the output's. Returns false if the values
  // are not supported; the kernel then reports the error (an integer divided by
  // zero).
  using Fn = bool (*)(const void* state, const void* const* in, uint32_t single,
                      void* out, int64_t n);
  enum Shapes : uint8_t {
    kSame,       // All inputs have the output's shape.
    kBroadcast,  // By NumPy's rules.
    kChannels,   // Input 1 is a vector along the last dimension of input 0.
  };
  Fn fn = nullptr;
  Shapes shapes = kSame;
  bool may_fail = false;
  int32_t grain = 32768;  // Fewest elements worth a thread.
};

// Returns the form of a node's kernel, if it recognises the kernel by its
// `run`, which determines the type of the state.
using BlockFormFinder = std::optional<BlockForm> (*)(const Node&,
                                                     const Kernel&);

// Kernels register their forms in their own files (static initialisers only).
struct BlockFormRegistrar {
  explicit BlockFormRegistrar(BlockFormFinder finder);
};

// The form of a node's kernel; none if it is not elementwise or not registered.
std::optional<BlockForm> FindBlockForm(const Node& n, const Kernel& k);

}  // namespace sluice

#endif  // SLUICE_EXEC_FUSION_BLOCK_FORM_H_
