// Values of --feed: converts files and literals to tensors for the edge that
// they feed.
#ifndef SLUICE_TOOLS_SLUICE_FEED_VALUE_H_
#define SLUICE_TOOLS_SLUICE_FEED_VALUE_H_

#include <optional>
#include <string>
#include <utility>

#include "base/status.h"
#include "graph/node.h"
#include "tensor/tensor.h"

namespace sluice::cli {

struct FeedOptions {
  // The values that 0 and 255 of an image map to on a floating edge; else they
  // are unchanged.
  std::optional<std::pair<double, double>> image_range;
  // The first dimension is the number of examples and may have any length.
  bool examples = false;
};

// `text` is a file if it ends in .npy or in an image's extension (.png, .jpg,
// ...) or begins with '@', which is not part of the name; else it is a literal.
//
// Literals: numbers (also nan, inf, 1+2j), true and false, strings ("quoted",
// or bare), and nested lists of them, "[[1, 2], [3, 4]]".
// Files: .npy; images as [height, width, channels], with the edge's rank
// and channels; on a string edge the bytes of any file but .npy.
//
// The value has the edge's dtype and a shape that fits. Numbers are converted
// if that loses only precision: an integer edge takes integers in its range, a
// floating edge any number in its range. Anything else is InvalidArgument, with
// the name of the edge's node.
Result<Tensor> ReadFeedValue(const Output& to, const std::string& text,
                             const FeedOptions& options = {});

}  // namespace sluice::cli

#endif  // SLUICE_TOOLS_SLUICE_FEED_VALUE_H_
