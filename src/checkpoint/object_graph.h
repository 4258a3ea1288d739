// The names of variables in checkpoints of TensorFlow 2 (tf.train.Checkpoint),
// whose keys are paths through objects. Internal.
#ifndef SLUICE_CHECKPOINT_OBJECT_GRAPH_H_
#define SLUICE_CHECKPOINT_OBJECT_GRAPH_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace sluice {

// The key of the objects, a scalar string.
inline constexpr char kObjectGraphKey[] = "_CHECKPOINTABLE_OBJECT_GRAPH";

// The keys of the variables by their full names, the names that a saver of
// TensorFlow 1 gives them ("dense/kernel"). Several objects may refer to one
// variable, and several variables may have one name. DataLoss if the bytes are
// no object graph.
Result<std::map<std::string, std::vector<std::string>>> KeysByFullName(
    std::string_view object_graph);

}  // namespace sluice

#endif  // SLUICE_CHECKPOINT_OBJECT_GRAPH_H_
