// Streaming: an endless source, and statistics over windows of it that slide by
// half their length, computed as the values come. A producer enqueues
// measurements one by one; a loop in the graph keeps the last window and emits
// its mean and its maximum.
#include <chrono>
#include <cmath>
#include <cstdio>

#include "sluice/sluice.h"

using namespace sluice;

namespace {

constexpr int kWindow = 100, kSlide = 50, kReports = 8;

Status RunStream() {
  // The source: whatever arrives in this queue.
  const Queue measurements =
      Queue::Fifo({{DType::kFloat, {}}}, {.capacity = 1000});
  const Output value = Placeholder<float>({});
  Node* const put = measurements.Enqueue({value});

  // The last kWindow values are the state of a scan over the steps of kSlide.
  DatasetIterator statistics =
      Dataset::FromQueue(measurements)
          .Batch(kSlide, {.drop_remainder = true})
          .Scan({Tensor(*Tensor::Zeros(DType::kFloat, {kWindow}))},
                [](const Dataset::Element& state, const Dataset::Element& x) {
                  const Output window = ops::Concat(
                      0, {ops::Slice(state[0], {kSlide}, {kWindow - kSlide}),
                          x[0]});
                  return std::pair{Dataset::Element{window},
                                   Dataset::Element{ops::Mean(window, 0),
                                                    ops::Max(window, 0)}};
                })
          .Skip(1)  // The first window is not full.
          .MakeIterator("statistics");
  const std::vector<Output> next = statistics.Next();

  Session session;
  SLUICE_RETURN_IF_ERROR(statistics.Start(session));
  Coordinator producer;
  SLUICE_RETURN_IF_ERROR(producer.Start([&]() -> Status {
    SLUICE_ASSIGN_OR_RETURN(const Session::Callable step,
                            session.MakeCallable({value}, {}, {put}));
    RunOptions options;
    options.cancellation = producer.cancellation();
    for (int i = 0; !producer.ShouldStop(); ++i) {
      const Tensor v = Tensor::Scalar(std::sin(0.01f * static_cast<float>(i)));
      SLUICE_RETURN_IF_ERROR(step.Run({&v, 1}, options).status());
    }
    return OkStatus();
  }));
  for (int i = 0; i < kReports; ++i) {
    SLUICE_ASSIGN_OR_RETURN(const std::vector<Tensor> out, session.Run(next));
    std::printf("values %3d to %3d: mean %6.3f, maximum %6.3f\n", i * kSlide,
                i * kSlide + kWindow - 1, out[0].scalar<float>(),
                out[1].scalar<float>());
  }
  producer.RequestStop();
  SLUICE_RETURN_IF_ERROR(producer.Join());
  statistics.Stop();
  return statistics.Join();
}

}  // namespace

int main() {
  const Status status = RunStream();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
