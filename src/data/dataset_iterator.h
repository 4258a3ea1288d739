// The elements of a Dataset in a graph, and what makes them.
//
//   DatasetIterator input = Dataset::Range(100).Batch(10).MakeIterator();
//   const Output sum = ops::Sum(input.Next()[0], 0);
//   Session session;
//   Status status = input.Start(session);
//   while (status.ok()) {
//     const Result<Tensor> value = session.Run(sum);
//     status = value.status();
//     if (value.ok()) total += value->scalar<int64_t>();
//   }
//   if (status.code() == StatusCode::kOutOfRange) status = input.Join();
#ifndef SLUICE_DATA_DATASET_ITERATOR_H_
#define SLUICE_DATA_DATASET_ITERATOR_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "client/variables.h"
#include "data/queue.h"
#include "session/session.h"

namespace sluice {

struct PipelineLoad;  // exec/core/pipeline_stages.h

// A loop of a pipeline, which fills a queue.
struct PipelineStage {
  std::string name;
  Queue out;
  std::vector<Queue> in;              // What it takes its elements from.
  std::vector<int64_t> input_stages;  // Those of them that stages fill.
  // The loop: it ends when there are no more elements. For a stage that drops
  // elements with errors: one element.
  Node* run = nullptr;
  // For a stage of one element per run: whether there was one, and whether it
  // was the last.
  Output had_value, ended;
  Node* end_epoch = nullptr;
  // Ends `out`, normally or with an error.
  Node* close = nullptr;
  Node* fail = nullptr;
  Output error_code, error_message;  // Fed to `fail`.
  // Tells the stages before it that no more elements are wanted.
  Node* close_inputs = nullptr;
  Node* reopen = nullptr;  // Makes `out`, and what else it has, as new.
  Output stats;            // Of `out`: see the op QueueStats.
};

// The position of a pipeline (IteratorOptions::saved), in its graph.
struct SavedPosition {
  // How many elements were taken: an int64 scalar. What the last Batch has
  // stacked counts as so many elements as its size.
  Var taken;
  // Where whole epochs need not be made again: an int64 vector of how many
  // elements an epoch has (0: not known yet, -1: they differ), and of how many
  // epochs have ended.
  Var epochs;
  Node* rewind = nullptr;  // Sets both to the beginning.
  // For DatasetIterator: what runs before each start, and by how much an
  // element increases `taken`.
  Node* begin = nullptr;
  int64_t elements = 1;
};

// What a stage has done, and what holds it up: if `full`, those after it are
// slower; if `starving`, those before it.
struct StageStatus {
  std::string name;
  int64_t elements = 0;   // Made since the pipeline was first started.
  int64_t ready = 0;      // Made and not yet taken.
  int64_t capacity = 0;   // The maximum of `ready`.
  bool full = false;      // It waits for room.
  bool starving = false;  // Those after it wait for elements.
  // Since it was asked before in that state (0 the first time after a start):
  // elements made, and for which share of the time, 0 to 1, it was full and
  // starving.
  double per_second = 0;
  double full_share = 0, starving_share = 0;
  // Whether the others wait for this stage: it has elements to take, and those
  // after it starve. If none is slow, the steps that take elements are, or
  // nothing moves.
  bool slowest = false;
};

// Made by Dataset::MakeIterator. A value; copies are the same iterator. The
// last copy stops the pipeline when it is destroyed. That, or Stop, must happen
// before a session is destroyed in which it runs. Thread-safe.
class DatasetIterator {
 public:
  DatasetIterator() = default;  // Null.

  // Waits for the next element, and takes it: each step that uses these outputs
  // takes one. OutOfRange at the end; or the first error of the pipeline, once
  // the elements that were ready have been taken. FailedPrecondition if the
  // pipeline was never started there.
  std::vector<Output> Next(SourceLoc loc = CallerLoc()) const;
  // Likewise, but the end is an output: for loops over all elements.
  Queue::Maybe TryNext(SourceLoc loc = CallerLoc()) const;

  // Runs the pipeline on threads of its own, from its beginning (or from its
  // position, if that is saved), until it ends or Stop is called: a step for
  // each stage. Where it runs already in a
  // session with the same state, it is stopped first, and elements that were
  // not taken are dropped; sessions with states of their own have elements of
  // their own. (The sessions of clusters count as having one state.) No step
  // that takes an element may run meanwhile: what it takes could belong to
  // either run, and a saved position would not say which. `feeds`
  // are those that the functions of the dataset need. In a session of this
  // process, kernels of the pipeline that take long run on `threads` threads;
  // 0: one for each core. (In a cluster, tasks use their own.)
  Status Start(Session& session, const Feeds& feeds = {}, int threads = 0);
  // Cancels what runs, in all sessions or in those with the state of one, and
  // waits for its end. Steps that wait for an element end with Cancelled.
  void Stop();
  void Stop(Session& session);
  // Whether the pipeline was started there and has not ended.
  bool Running(Session& session) const;
  // Waits until the pipeline has ended wherever it runs, and returns its first
  // error there. (A start forgets what has ended before, in other sessions
  // too.)
  Status Join();

  // Stops a pipeline whose position is saved in that session, if it runs there,
  // and sets the position to the beginning. FailedPrecondition for others. No
  // step may take an element before the next start: elements that were ready
  // stay so until then.
  Status Rewind(Session& session);
  // Null variables and nodes if the position is not saved.
  SavedPosition position() const;

  // The stages from the first to the last, as they are now.
  Result<std::vector<StageStatus>> Stages(Session& session) const;
  // "map 1204 at 310/s (64/64 full) > batch 18 at 4.8/s (2/2 full) > slowest:
  // the steps that take elements"; or ", slowest" behind a stage. Of a pipeline
  // that cannot be asked: why. The rates are those of Stages, which they share
  // the time of the last question with.
  std::string StatusLine(Session& session) const;
  // How many elements IgnoreErrors has dropped.
  int64_t ignored_errors() const;
  // Whether both are copies of one iterator.
  bool operator==(const DatasetIterator&) const = default;

  // For Dataset: stages from the first to the last.
  DatasetIterator(Graph& graph, std::vector<PipelineStage> stages,
                  SavedPosition position = {});

 private:
  class Run;
  class Runner;
  // With the pipeline's load, which says what is slow.
  Result<std::vector<StageStatus>> Ask(Session& session,
                                       PipelineLoad* load) const;
  Queue Last(SourceLoc loc) const;
  std::vector<Output> Counted(std::vector<Output> taken,
                              const Operand& elements, SourceLoc loc) const;

  std::shared_ptr<Runner> runner_;
};

}  // namespace sluice

#endif  // SLUICE_DATA_DATASET_ITERATOR_H_
