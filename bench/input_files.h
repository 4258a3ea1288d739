// The files that the benchmarks of input read. They are written when they are
// first asked for, into the folder that $SLUICE_BENCH_FILES names, where the
// peers' script reads them too (bench/input_peers.py); or into a temporary one.
#ifndef SLUICE_BENCH_INPUT_FILES_H_
#define SLUICE_BENCH_INPUT_FILES_H_

#include <string>

#include "base/status.h"

namespace sluice::bench {

constexpr int64_t kPngImages = 4096, kJpegImages = 512, kExamples = 128;

// The pattern of four TFRecord files of grey PNGs of 28 x 28: strokes, such as
// digits have.
Result<std::string> PngFiles();
// Likewise of JPEGs of 224 x 224: noise of all wavelengths, such that the sizes
// are those of photographs, 10 to 30 kB.
Result<std::string> JpegFiles();
// A TFRecord file of 64 MB: random bytes in records of 0.3 to 20 kB.
Result<std::string> RecordsFile();
// kExamples serialised Examples: features dense0 to dense9 (even: 8 floats,
// odd: an int64) and sparse0 to sparse4 (up to 9 int64; sparse4: strings).
Result<std::string> ExamplesFile();

}  // namespace sluice::bench

#endif  // SLUICE_BENCH_INPUT_FILES_H_
