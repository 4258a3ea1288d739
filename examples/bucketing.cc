// Sentences of different lengths, batched with others of similar length, so
// that little of a batch is padding.
#include <cstdio>

#include "sluice/sluice.h"

using namespace sluice;

namespace {

// Prints how many words the batches have, and how many of them are padding.
Status Count(const char* name, const Dataset& batches) {
  DatasetIterator input = batches.MakeIterator(name);
  const std::vector<Output> batch = input.Next();
  const Output words = ops::Size(batch[0]), real = ops::Sum(batch[1], 0);
  Session session;
  SLUICE_RETURN_IF_ERROR(input.Start(session));
  int count = 0, all = 0, padding = 0;
  for (;; ++count) {
    const auto out = session.Run({words, real});
    if (out.status().code() == StatusCode::kOutOfRange) break;
    SLUICE_RETURN_IF_ERROR(out.status());
    all += (*out)[0].scalar<int32_t>();
    padding += (*out)[0].scalar<int32_t>() - (*out)[1].scalar<int32_t>();
  }
  std::printf("%-9s %3d batches, %6d words, %4.1f%% of them padding\n", name,
              count, all, 100.0 * padding / all);
  return input.Join();
}

}  // namespace

int main() {
  SetRandomSeed(1);
  // Sentences of 1 to 60 words: random numbers of words, and their length.
  const Dataset sentences = Dataset::Range(4000).Map([](Output) {
    const Output length = ops::RandomUniformInt({1}, 1, 61);
    return std::array{ops::RandomUniformInt(length, 1, 10'000),
                      ops::Reshape(length, Operand(IntVector({})))};
  });
  Status status = Count("shuffled", sentences.Batch(32, {.padded = true}));
  if (status.ok())
    status =
        Count("bucketed", sentences.BucketByLength(
                              [](Output, Output length) { return length; },
                              {10, 20, 30, 40, 50}, {64, 48, 32, 32, 24, 24}));
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
