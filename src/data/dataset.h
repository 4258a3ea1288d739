// Input pipelines: what to read, and what to do with it on its way to training.
//
//   DatasetIterator images =
//       Dataset::FromFiles("train-*.tfrecord")
//           .Interleave([](Output file) { return Dataset::TfRecords(file); })
//           .Map(Decode)
//           .Shuffle(10'000)
//           .Repeat()
//           .Batch(64)
//           .Prefetch(2)
//           .MakeIterator();
//   const std::vector<Output> batch = images.Next();
//
// A dataset is a description. MakeIterator compiles it to loops and queues of
// the ambient graph (docs/design/034-pipelines.md): what lies between two
// queues is one loop, which runs as a step of its own, beside the steps that
// train. So pipelines are traced, placed and distributed as everything else is.
//
// An element is a list of tensors. Functions of elements take its tensors as
// arguments of type Output, or all of them as a Dataset::Element, and return an
// output or a structure of outputs (client/control/structure.h). They are
// called once, while the graph is built.
#ifndef SLUICE_DATA_DATASET_H_
#define SLUICE_DATA_DATASET_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "client/control/structure.h"
#include "client/op_builder.h"
#include "data/dataset_iterator.h"
#include "graph/builder.h"

namespace sluice {

class Dataset;

namespace internal {

class DatasetNode;

using ElementFn =
    std::function<std::vector<Output>(const std::vector<Output>&)>;
using ScanFn =
    std::function<std::pair<std::vector<Output>, std::vector<Output>>(
        const std::vector<Output>&, const std::vector<Output>&)>;

// `element` as the `count` arguments of a function; failed outputs if it has
// another number of tensors, which is recorded.
std::vector<Output> Arguments(const std::vector<Output>& element, size_t count,
                              SourceLoc loc);
std::vector<Output> AsOutputs(const std::vector<Operand>& operands);

template <typename Fn>
decltype(auto) CallOnElement(Fn& fn, const std::vector<Output>& x,
                             SourceLoc loc) {
  if constexpr (std::is_invocable_v<Fn&, Output>) {
    return Call(fn, Arguments(x, 1, loc)[0]);
  } else if constexpr (std::is_invocable_v<Fn&, Output, Output>) {
    const auto a = Arguments(x, 2, loc);
    return Call(fn, a[0], a[1]);
  } else if constexpr (std::is_invocable_v<Fn&, Output, Output, Output>) {
    const auto a = Arguments(x, 3, loc);
    return Call(fn, a[0], a[1], a[2]);
  } else if constexpr (std::is_invocable_v<Fn&, Output, Output, Output,
                                           Output>) {
    const auto a = Arguments(x, 4, loc);
    return Call(fn, a[0], a[1], a[2], a[3]);
  } else {
    return Call(fn, x);
  }
}

template <typename Fn>
ElementFn ElementFunction(Fn fn, SourceLoc loc) {
  return [fn = std::move(fn), loc](const std::vector<Output>& x) mutable {
    return AsOutputs(Flattened(CallOnElement(fn, x, loc), loc));
  };
}

}  // namespace internal

struct DatasetMapOptions {
  // How many elements may be in the function at once (or more, up to the number
  // for another Map of the same stage). They leave in their order. 1: the
  // function runs for one after the other.
  int parallel = 16;
};

struct RecordFileOptions {
  std::string compression = "";  // "", "ZLIB" or "GZIP".
  // A file ends at its first corrupt record, instead of failing the pipeline.
  bool ignore_errors = false;
};

struct FixedLengthOptions {
  int64_t header_bytes = 0, footer_bytes = 0;
  std::string compression = "";  // "", "ZLIB" or "GZIP".
};

struct BatchOptions {
  // Drops the elements that are left at the end, if fewer than a batch. Batches
  // then have a static size.
  bool drop_remainder = false;
  // Fills elements of different shapes up to the largest of the batch, with
  // zeros or empty strings, at the end of each dimension. Else they are an
  // error.
  bool padded = false;
};

struct IteratorOptions {
  // The position is a variable of the graph, "<name>/position", beside
  // "<name>/epochs", which savers save and initialisers set to the
  // beginning. A pipeline that starts goes on from there, with the elements
  // that follow, exactly: so a training run that goes on from a checkpoint sees
  // the data of one that was never stopped.
  //
  // What was taken before is not kept, but made again and dropped, except for
  // whole epochs of a Repeat that is followed by nothing but Map, Batch and
  // Prefetch: Repeat last, not before a Shuffle, if there are many epochs.
  //
  // Elements must be the same in each run. So each Shuffle needs a seed;
  // functions depend on their element alone, and do not draw random numbers
  // from a state (Stateless operations, with a number of Enumerate, do not);
  // FromQueue is not possible; and Interleave takes elements in turn. Files
  // must be as they were.
  bool saved = false;
};

// Immutable; cheap to copy.
class Dataset {
 public:
  using Element = std::vector<Output>;

  // ---- Sources

  // 0, 1, ..., limit - 1: int64 scalars.
  static Dataset Range(const Operand& limit, SourceLoc loc = CallerLoc());
  // The rows of the tensors, which have the same first dimension: element i has
  // row i of each.
  static Dataset FromTensors(const Operands& tensors,
                             SourceLoc loc = CallerLoc());
  // The names of the files that match the pattern (or one of a vector of
  // patterns), sorted: strings. They are looked up when the pipeline starts.
  static Dataset FromFiles(const Operand& patterns,
                           SourceLoc loc = CallerLoc());
  // The records of a TFRecord file: strings.
  static Dataset TfRecords(const Operand& file,
                           const RecordFileOptions& options = {},
                           SourceLoc loc = CallerLoc());
  // The lines of a file, without their ends: strings.
  static Dataset TextLines(const Operand& file, int64_t skip_header_lines = 0,
                           SourceLoc loc = CallerLoc());
  // The records of a file of records of the same size, after a header and up to
  // a footer: strings. InvalidArgument if it has no whole number of them.
  static Dataset FixedLengthRecords(const Operand& file, int64_t record_bytes,
                                    const FixedLengthOptions& options = {},
                                    SourceLoc loc = CallerLoc());
  // What others enqueue, until they close the queue.
  static Dataset FromQueue(const Queue& queue, SourceLoc loc = CallerLoc());

  // ---- Elements

  template <typename Fn>
  Dataset Map(Fn fn, const DatasetMapOptions& options = {},
              SourceLoc loc = CallerLoc()) const {
    return MapWith(internal::ElementFunction(std::move(fn), loc), options, loc);
  }
  // Keeps the elements for which `fn` is true: a boolean scalar.
  template <typename Fn>
  Dataset Filter(Fn fn, SourceLoc loc = CallerLoc()) const {
    return FilterWith(internal::ElementFunction(std::move(fn), loc), loc);
  }
  // A state that goes from element to element, starting from `initial`:
  // fn(state, element), both of type Element, returns the next state and what
  // takes the element's place.
  Dataset Scan(const Operands& initial, const internal::ScanFn& fn,
               SourceLoc loc = CallerLoc()) const;
  // The elements of fn(element), a Dataset, in the place of each element. These
  // datasets have no stages with queues of their own (Shuffle, Batch, Prefetch,
  // Interleave, IgnoreErrors).
  template <typename Fn>
  Dataset FlatMap(Fn fn, SourceLoc loc = CallerLoc()) const {
    return FlatMapWith(
        [fn = std::move(fn), loc](const Element& x) mutable -> Dataset {
          return internal::CallOnElement(fn, x, loc);
        },
        0, loc);
  }
  // As FlatMap, but takes elements of `cycle` such datasets at a time, in the
  // order in which they are ready: for reading files in parallel. If the
  // position is saved, in turn: of datasets 0 to cycle - 1, and of each
  // cycle'th after each of these.
  template <typename Fn>
  Dataset Interleave(Fn fn, int cycle = 4, SourceLoc loc = CallerLoc()) const {
    return FlatMapWith(
        [fn = std::move(fn), loc](const Element& x) mutable -> Dataset {
          return internal::CallOnElement(fn, x, loc);
        },
        cycle, loc);
  }
  // Before each element its number: an int64 scalar, from 0.
  Dataset Enumerate(SourceLoc loc = CallerLoc()) const;
  // Drops the elements for which the Maps and Filters right before this fail,
  // such as images that cannot be decoded. DatasetIterator counts them. (These
  // elements are not processed in parallel.)
  Dataset IgnoreErrors(SourceLoc loc = CallerLoc()) const;

  // ---- Sequences

  // The whole dataset `count` times; -1: forever. What comes before it starts
  // again: a Shuffle gives another order. (For Take and Skip, -1 is 0.)
  Dataset Repeat(int64_t count = -1, SourceLoc loc = CallerLoc()) const;
  Dataset Take(int64_t count, SourceLoc loc = CallerLoc()) const;
  // The elements before the first for which `fn` is false: a boolean scalar.
  template <typename Fn>
  Dataset TakeWhile(Fn fn, SourceLoc loc = CallerLoc()) const {
    return TakeWhileWith(internal::ElementFunction(std::move(fn), loc), loc);
  }
  Dataset Skip(int64_t count, SourceLoc loc = CallerLoc()) const;
  // The elements of this, then those of `next`, of the same types.
  Dataset Concatenate(const Dataset& next, SourceLoc loc = CallerLoc()) const;
  // Elements made of one of each; as many as the shorter one has.
  static Dataset Zip(const Dataset& a, const Dataset& b,
                     SourceLoc loc = CallerLoc());
  // Draws each element from the next `buffer` ones (with 1, the order stays).
  // `seed` 0: another order every time, and an eighth and 16 more elements may
  // be there to draw from. Else each start gives the same order, which is
  // another one in each epoch.
  Dataset Shuffle(int64_t buffer, int64_t seed = 0,
                  SourceLoc loc = CallerLoc()) const;
  // Stacks `size` elements along a new first dimension.
  Dataset Batch(int64_t size, const BatchOptions& options = {},
                SourceLoc loc = CallerLoc()) const;
  // Batches of elements of similar length, padded: elements with
  // boundaries[i - 1] <= length < boundaries[i] are batched together, by
  // batch_sizes[i], of which there is one more than boundaries. `length`
  // returns an integer scalar.
  template <typename Fn>
  Dataset BucketByLength(Fn length, std::vector<int64_t> boundaries,
                         std::vector<int64_t> batch_sizes,
                         bool drop_remainder = false,
                         SourceLoc loc = CallerLoc()) const {
    return BucketWith(internal::ElementFunction(std::move(length), loc),
                      std::move(boundaries), std::move(batch_sizes),
                      drop_remainder, loc);
  }
  // Keeps up to `count` elements ready: what comes before and what comes after
  // runs concurrently.
  Dataset Prefetch(int64_t count, SourceLoc loc = CallerLoc()) const;

  // Compiles the pipeline into the ambient graph. Errors are recorded in the
  // graph.
  DatasetIterator MakeIterator(const std::string& name = "pipeline",
                               const IteratorOptions& options = {},
                               SourceLoc loc = CallerLoc()) const;

  explicit Dataset(std::shared_ptr<const internal::DatasetNode> node)
      : node_(std::move(node)) {}
  const internal::DatasetNode* node() const { return node_.get(); }

 private:
  Dataset MapWith(internal::ElementFn fn, const DatasetMapOptions& options,
                  SourceLoc loc) const;
  Dataset FilterWith(internal::ElementFn fn, SourceLoc loc) const;
  Dataset TakeWhileWith(internal::ElementFn fn, SourceLoc loc) const;
  Dataset FlatMapWith(std::function<Dataset(const Element&)> fn, int cycle,
                      SourceLoc loc) const;
  Dataset BucketWith(internal::ElementFn length,
                     std::vector<int64_t> boundaries,
                     std::vector<int64_t> batch_sizes, bool drop_remainder,
                     SourceLoc loc) const;

  std::shared_ptr<const internal::DatasetNode> node_;
};

}  // namespace sluice

#endif  // SLUICE_DATA_DATASET_H_
