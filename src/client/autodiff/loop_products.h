// Recognises the sums of a finished gradient loop that are better computed
// after it: the gradients of a layer's weights. Internal.
//
// A loop that multiplies rows x by weights has the gradient
//
//   dw = sum over t of x(t)^T * dy(t)
//
// which is one product, X^T * dY, of all rows x and all rows dy. If there are
// few rows, they need less memory than the running sum, and the one product is
// faster than all those of the iterations. Likewise for weights that are
// multiplied by a column, whose gradient is a column times a row, and for those
// that an iteration uses several times. The recognition reads a finished
// gradient loop and the sums that the walk recorded for it; it adds no nodes.
// client/autodiff/loop_sums.h builds what is found.
#ifndef SLUICE_CLIENT_AUTODIFF_LOOP_PRODUCTS_H_
#define SLUICE_CLIENT_AUTODIFF_LOOP_PRODUCTS_H_

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "client/autodiff/gradients.h"
#include "client/autodiff/loop_family.h"

namespace sluice {

// One gradient that a gradient loop contributes to a value around the
// differentiated loop: the sum of `term`, a value of the gradient loop's body,
// over all iterations.
struct LoopSum {
  Output x;  // What it is the gradient of.
  Gradient term;
};

// How nodes use each array of a graph: the nodes with ids below `num_nodes`,
// those that existed when the gradients began. The index is made once, when it
// is first needed, in time linear in those nodes. Guarded by the graph's mutex.
class ArrayUses {
 public:
  ArrayUses(const Graph* graph, int num_nodes)
      : graph_(graph), num_nodes_(num_nodes) {}

  // True if the elements of the array are the rows of one tensor and are read
  // by one node: every gradient of an element is then a row of the tensor's.
  bool HoldsRowsReadOnce(const Output& handle);
  // The number of nodes that were looked at so far.
  int64_t num_visits() const { return num_visits_; }

 private:
  struct Uses {
    int reads = 0, scatters = 0, others = 0;
  };
  void Index();

  const Graph* const graph_;
  const int num_nodes_;
  int64_t num_visits_ = 0;
  bool indexed_ = false;
  std::unordered_map<const Node*, Uses> uses_;  // By array.
};

// A sum of products to compute after the loop: a^T * b, or, of columns, a *
// b^T.
struct LoopProduct {
  Output a, b;  // The factors: matrices in the loop's body.
  bool columns = false;
  // If the loop already writes b, at the index of the iteration and only there,
  // to a gradient array: the array of which it is that (a value around the
  // loop), and the position of the sum of its flow among the loop's sums.
  struct Rows {
    Output array;
    size_t flow = 0;
  };
  std::optional<Rows> rows;
};

// The products among the sums of one gradient loop. The loop's body is
// finished: nothing that computes the terms is added later. All arguments must
// outlive it. Guarded by the graph's mutex.
class LoopProducts {
 public:
  // Takes time linear in the number of sums.
  LoopProducts(const LoopMember& loop, const std::vector<LoopSum>& sums,
               ArrayUses* uses);

  // The products to compute after the loop in place of the sum: its term, or
  // the terms that its term adds, are products of float or double matrices of
  // known shapes that every iteration computes, with at most 1/16 as many rows
  // as the sum has rows or columns, or at most as many if b is written already.
  // Empty for any other sum.
  std::vector<LoopProduct> ProductsOf(const LoopSum& sum) const;

 private:
  std::optional<LoopProduct> ProductOf(const Output& term) const;
  std::optional<LoopProduct::Rows> WrittenRows(const Output& value) const;

  const LoopMember& loop_;
  ArrayUses* const uses_;
  OutputMap<LoopProduct::Rows> written_;  // By the value that is written.
};

}  // namespace sluice

#endif  // SLUICE_CLIENT_AUTODIFF_LOOP_PRODUCTS_H_
