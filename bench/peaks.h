// The measured peaks of this machine, to which the shares of `sluice bench
// --filter ops` refer.
#ifndef SLUICE_BENCH_PEAKS_H_
#define SLUICE_BENCH_PEAKS_H_

namespace sluice::bench {

// Fused multiply-adds of floats on all cores, two operations each, with nothing
// read from memory. Measured at the first call.
double PeakFlopsPerSecond();

// Bytes read and written by copies between uncached blocks, by all cores.
// Measured at the first call.
double CopyBytesPerSecond();

}  // namespace sluice::bench

#endif  // SLUICE_BENCH_PEAKS_H_
