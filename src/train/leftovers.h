// What saves left behind whose process was killed.
#ifndef SLUICE_TRAIN_LEFTOVERS_H_
#define SLUICE_TRAIN_LEFTOVERS_H_

#include <string>

namespace sluice {

// Removes the temporary files and folders of checkpoints whose path is `prefix`
// or "<prefix>-<step>", and of the state file beside them. What cannot be
// removed stays. REQUIRES: no saver writes to the folder.
void RemoveLeftovers(const std::string& prefix, const std::string& state_file);

}  // namespace sluice

#endif  // SLUICE_TRAIN_LEFTOVERS_H_
