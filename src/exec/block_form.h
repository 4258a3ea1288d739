// How an elementwise kernel computes part of its result: what chains
// (exec/chains.h) run by.
#ifndef SLUICE_EXEC_BLOCK_FORM_H_
#define SLUICE_EXEC_BLOCK_FORM_H_

#include <cstdint>
#include <optional>

#include "exec/kernel.h"

namespace sluice {

// A value. The elements of the one output are a function of those at the same
// place of up to three inputs.
struct BlockForm {
  // Computes n elements on this thread, `state` being Kernel::state. Of input i
  // with bit i of `single` set there is one element, for all of them. With less
  // than three inputs `out` may be one of them that is not single and whose
  // elements have the size of the output's. False: not these values, the kernel
  // says why (an integer divided by zero).
  using Fn = bool (*)(const void* state, const void* const* in, uint32_t single,
                      void* out, int64_t n);
  enum Shapes : uint8_t {
    kSame,       // All inputs have the output's.
    kBroadcast,  // By numpy's rules.
    kChannels,   // Input 1 is a vector along the last dimension of input 0.
  };
  Fn fn = nullptr;
  Shapes shapes = kSame;
  bool may_fail = false;
  int32_t grain = 32768;  // Fewest elements worth a thread.
};

// Tells the form of a node's kernel, if it knows it. It knows the kernel by its
// `run`, which says of what type its state is.
using BlockFormFinder = std::optional<BlockForm> (*)(const Node&,
                                                     const Kernel&);

// Kernels declare their forms where they are (static initialisers only).
struct BlockFormRegistrar {
  explicit BlockFormRegistrar(BlockFormFinder finder);
};

// The form of a node's kernel; none if it is not elementwise or nobody says so.
std::optional<BlockForm> FindBlockForm(const Node& n, const Kernel& k);

}  // namespace sluice

#endif  // SLUICE_EXEC_BLOCK_FORM_H_
