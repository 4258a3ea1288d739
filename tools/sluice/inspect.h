// The parts of `sluice inspect`, one for each kind of file.
#ifndef SLUICE_TOOLS_SLUICE_INSPECT_H_
#define SLUICE_TOOLS_SLUICE_INSPECT_H_

#include <string>

namespace sluice::cli {

// Each prints what it finds, and errors; returns the exit code. A difference is
// no error.
int InspectCheckpoint(const std::string& path);
int CompareCheckpoints(const std::string& first, const std::string& second);
int InspectSavedModel(const std::string& folder);
int CompareSavedModels(const std::string& first, const std::string& second);
// A file of events, or a folder of such files.
int InspectEvents(const std::string& path);

// By its name, as all writers give it: "events.out.tfevents.1700000000.host".
// For a folder: whether there is such a file in it.
bool HasEvents(const std::string& path);

}  // namespace sluice::cli

#endif  // SLUICE_TOOLS_SLUICE_INSPECT_H_
