// Values of --feed: files and literals as tensors of the edge that they are fed
// to.
#ifndef SLUICE_TOOLS_SLUICE_FEED_VALUE_H_
#define SLUICE_TOOLS_SLUICE_FEED_VALUE_H_

#include <optional>
#include <string>
#include <utility>

#include "base/status.h"
#include "graph/graph.h"
#include "tensor/tensor.h"

namespace sluice::cli {

struct FeedOptions {
  // What 0 and 255 of an image become on a floating edge; else they stay.
  std::optional<std::pair<double, double>> image_range;
  // The first dimension counts examples: it may have any length.
  bool examples = false;
};

// `text` is a file if it ends in .npy or in an image's extension (.png, .jpg,
// ...) or begins with '@', which is not part of the name; else it is a literal.
//
// Literals: numbers (also nan, inf, 1+2j), true and false, strings ("quoted",
// or bare), and nested lists of them, "[[1, 2], [3, 4]]".
// Files: .npy; PNG and JPEG as [height, width, channels], with the edge's rank
// and channels; on a string edge the bytes of any file but .npy.
//
// The value has the edge's dtype and a shape that fits. Numbers are converted
// where that loses nothing but precision: an integer edge takes integers of its
// range, a floating edge any number of its range. InvalidArgument, naming the
// edge's node, for all else.
Result<Tensor> ReadFeedValue(const Output& to, const std::string& text,
                             const FeedOptions& options = {});

}  // namespace sluice::cli

#endif  // SLUICE_TOOLS_SLUICE_FEED_VALUE_H_
