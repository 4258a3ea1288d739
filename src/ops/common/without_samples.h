// Included before each file that declares ops in the small build
// (SLUICE_MINIMAL, src/CMakeLists.txt): drops what only tests and documentation
// read of a declaration, a tenth of the code of the files of ops and memory of
// every process.
#ifndef SLUICE_OPS_COMMON_WITHOUT_SAMPLES_H_
#define SLUICE_OPS_COMMON_WITHOUT_SAMPLES_H_

#include "graph/op_def.h"

// (The library's ops are its own anyway.)
#define Sample(...) Own()
#define Doc(...) Own()

#endif  // SLUICE_OPS_COMMON_WITHOUT_SAMPLES_H_
