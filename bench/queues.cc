// Queues: what an element costs, what a batch of rows does, and whether memory
// stays flat.
#include <sys/resource.h>

#include <cstdio>
#include <cstring>
#include <vector>

#include "bench.h"
#include "sluice/sluice.h"
#include "timing.h"

namespace sluice::bench {
namespace {

// Steps that enqueue a scalar and dequeue one, from several threads.
Result<double> PairsPerS(int threads) {
  constexpr int kSteps = 40'000;
  Graph g;
  WithGraph use(g);
  const Queue queue =
      Queue::Fifo({{DType::kFloat, PartialShape::Scalar()}}, {.capacity = 64});
  const Output x = Placeholder<float>(PartialShape::Scalar());
  Node* const put = queue.Enqueue({x});
  Output y;
  {
    const ControlDependencies after({put});
    y = queue.Dequeue()[0];
  }
  Session session(g);
  SLUICE_ASSIGN_OR_RETURN(const Session::Callable step,
                          session.MakeCallable({x}, {y}));
  const auto run = [&] {
    for (int i = 0; i < kSteps / threads; ++i)
      SLUICE_RETURN_IF_ERROR(step.Run({Tensor::Scalar(1.f)}).status());
    return OkStatus();
  };
  SLUICE_ASSIGN_OR_RETURN(const double s, Best(5, [&] {
                            Coordinator clients;
                            for (int i = 1; i < threads; ++i)
                              (void)clients.Start(run);
                            clients.RequestStop(run());
                            return clients.Join();
                          }));
  return kSteps / s;
}

SLUICE_BENCH("queue.pairs_t1.per_s") { return PairsPerS(1); }
SLUICE_BENCH("queue.pairs_t4.per_s") { return PairsPerS(4); }

constexpr int64_t kRows = 64, kRowBytes = 3072, kBatches = 1000;
constexpr double kGb = 1e-9 * kRows * kRowBytes * kBatches;

// A queue of rows, and steps that fill it and take batches out of it.
struct RowQueue {
  RowQueue() {
    const WithGraph use(graph);
    const Queue queue =
        Queue::Fifo({{DType::kUint8, {kRowBytes}}}, {.capacity = 4 * kRows});
    rows = Placeholder<uint8_t>({kRows, kRowBytes});
    put = queue.EnqueueMany({rows});
    batch = queue.DequeueMany(static_cast<int32_t>(kRows))[0];
    std::memset(values.raw(), 7, kRows * kRowBytes);
  }
  Status MakeSteps() {
    SLUICE_ASSIGN_OR_RETURN(fill, session.MakeCallable({rows}, {}, {put}));
    SLUICE_ASSIGN_OR_RETURN(take, session.MakeCallable({}, {batch}));
    return OkStatus();
  }
  Status Fill(const RunOptions& options = {}) {
    return fill.Run({&values, 1}, options).status();
  }
  Status Take() { return take.Run().status(); }

  Graph graph;
  Output rows, batch;
  Node* put;
  Tensor values{DType::kUint8, Shape({kRows, kRowBytes})};
  Session session{graph};
  Session::Callable fill, take;
};

// Out of a queue that another thread keeps full.
SLUICE_BENCH("queue.dequeue_many.gb_per_s") {
  RowQueue queue;
  SLUICE_RETURN_IF_ERROR(queue.MakeSteps());
  Coordinator producer;
  SLUICE_RETURN_IF_ERROR(producer.Start([&] {
    RunOptions options;
    options.cancellation = producer.cancellation();
    while (!producer.ShouldStop())
      if (Status s = queue.Fill(options); !s.ok())
        return producer.ShouldStop() ? OkStatus() : s;
    return OkStatus();
  }));
  const Result<double> s = Best(5, [&] {
    for (int64_t i = 0; i < kBatches; ++i) SLUICE_RETURN_IF_ERROR(queue.Take());
    return OkStatus();
  });
  producer.RequestStop();
  SLUICE_RETURN_IF_ERROR(producer.Join());
  SLUICE_RETURN_IF_ERROR(s.status());
  return kGb / *s;
}

// By one thread, which fills the queue and takes batches in turn: what batches
// cost where no thread is woken.
SLUICE_BENCH("queue.dequeue_many.t1.gb_per_s") {
  RowQueue queue;
  SLUICE_RETURN_IF_ERROR(queue.MakeSteps());
  SLUICE_ASSIGN_OR_RETURN(const double s, Best(5, [&] {
                            for (int64_t i = 0; i < kBatches; ++i) {
                              SLUICE_RETURN_IF_ERROR(queue.Fill());
                              SLUICE_RETURN_IF_ERROR(queue.Take());
                            }
                            return OkStatus();
                          }));
  return kGb / s;
}

// What a thread that only copies as many rows, each from a place of its own,
// into batches reaches.
SLUICE_BENCH("queue.dequeue_many.copy_gb_per_s") {
  std::vector<Tensor> rows;
  for (int64_t i = 0; i < 4 * kRows; ++i) {
    rows.emplace_back(DType::kUint8, Shape({kRowBytes}));
    std::memset(rows.back().raw(), 7, kRowBytes);
  }
  SLUICE_ASSIGN_OR_RETURN(
      const double s, Best(5, [&] {
        size_t next = 0;
        for (int64_t i = 0; i < kBatches; ++i) {
          Tensor batch(DType::kUint8, Shape({kRows, kRowBytes}));
          for (int64_t r = 0; r < kRows; ++r, ++next)
            std::memcpy(batch.raw<uint8_t>() + r * kRowBytes,
                        rows[next % rows.size()].raw(), kRowBytes);
          asm volatile("" : : "r"(batch.raw()) : "memory");
        }
        return OkStatus();
      }));
  return kGb / s;
}

// ---- Memory -----------------------------------------------------------------

constexpr int64_t kTenMillion = 10'000'000;

// The most memory that the process has had, in MiB.
double MaxRssMb() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

// How much MaxRssMb grows over ten million elements after the first hundred
// thousand. use(n) passes n elements on.
template <typename Use>
Result<double> Growth(const Use& use) {
  SLUICE_RETURN_IF_ERROR(use(100'000));
  const double before = MaxRssMb();
  SLUICE_RETURN_IF_ERROR(use(kTenMillion));
  const double after = MaxRssMb();
  std::fprintf(stderr, "max RSS: %.1f MiB before, %.1f MiB after\n", before,
               after);
  return after - before;
}

// Single elements from one thread to another, through a queue of 64.
SLUICE_BENCH("queue.ten_million.rss_growth_mb") {
  Graph g;
  const WithGraph use(g);
  const Queue queue =
      Queue::Fifo({{DType::kInt64, PartialShape::Scalar()}}, {.capacity = 64});
  const Output x = Placeholder<int64_t>(PartialShape::Scalar());
  Node* const put_node = queue.Enqueue({x});
  const Output taken = queue.Dequeue()[0];
  Session session(g);
  SLUICE_ASSIGN_OR_RETURN(const Session::Callable put,
                          session.MakeCallable({x}, {}, {put_node}));
  SLUICE_ASSIGN_OR_RETURN(const Session::Callable take,
                          session.MakeCallable({}, {taken}));
  return Growth([&](int64_t n) -> Status {
    Coordinator producer;
    SLUICE_RETURN_IF_ERROR(producer.Start([&]() -> Status {
      for (int64_t i = 0; i < n; ++i)
        SLUICE_RETURN_IF_ERROR(put.Run({Tensor::Scalar(i)}).status());
      return OkStatus();
    }));
    for (int64_t i = 0; i < n; ++i) {
      SLUICE_ASSIGN_OR_RETURN(const std::vector<Tensor> y, take.Run());
      if (y[0].scalar<int64_t>() != i)
        return Internal("bench: expected element ", i, ", got ",
                        y[0].scalar<int64_t>());
    }
    return producer.Join();
  });
}

// A pipeline that maps, shuffles and batches.
SLUICE_BENCH("pipeline.ten_million.rss_growth_mb") {
  Graph g;
  const WithGraph use(g);
  const Output limit = Placeholder<int64_t>(PartialShape::Scalar());
  DatasetIterator numbers = Dataset::Range(limit)
                                .Map([](Output i) { return i * int64_t{3}; })
                                .Shuffle(1000)
                                .Batch(100)
                                .Prefetch(2)
                                .MakeIterator();
  const Output sum_node = ops::Sum(numbers.Next()[0], 0);
  Session session(g);
  SLUICE_ASSIGN_OR_RETURN(const Session::Callable next,
                          session.MakeCallable({}, {sum_node}));
  return Growth([&](int64_t n) -> Status {
    SLUICE_RETURN_IF_ERROR(
        numbers.Start(session, {{limit, Tensor::Scalar(n)}}));
    int64_t sum = 0;
    for (;;) {
      const auto y = next.Run();
      if (y.status().code() == StatusCode::kOutOfRange) break;
      SLUICE_RETURN_IF_ERROR(y.status());
      sum += (*y)[0].scalar<int64_t>();
    }
    if (sum != 3 * (n * (n - 1) / 2))
      return Internal("bench: expected each element once, got the sum ", sum);
    return numbers.Join();
  });
}

}  // namespace
}  // namespace sluice::bench
