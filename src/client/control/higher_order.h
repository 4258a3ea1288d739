// Loops over the rows of tensors: map, fold, scan.
//
//   Output squares = MapFn([](Output x) { return x * x; }, xs);
//   Output sum = FoldL([](Output total, Output x) { return total + x; }, xs,
//                      0.0f);
//   Output sums = Scan([](Output total, Output x) { return total + x; }, xs);
//
// Each unpacks its elements along their first dimension into TensorArrays and
// runs a While over them. `elems` is an output or a structure of outputs
// (client/control/structure.h) with equal first dimensions; the callable is
// called once, with a structure of the same kind whose parts stand for one row
// each.
#ifndef SLUICE_CLIENT_CONTROL_HIGHER_ORDER_H_
#define SLUICE_CLIENT_CONTROL_HIGHER_ORDER_H_

#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "client/control/structure.h"
#include "graph/builder.h"

namespace sluice {

struct MapOptions {
  // As for While.
  int parallel_iterations = 32;
  bool back_prop = true;
  bool swap_memory = false;
  bool batch = false;
  // MapFn: the result types; empty: the types that the callable returns.
  std::vector<DType> dtypes = {};
  // MapFn and Scan: all rows of a result have the same shape.
  bool infer_shape = true;
  // Scan: from the last row to the first.
  bool reverse = false;
  std::string name = "";  // "map", "foldl", "foldr" or "scan".
};

namespace internal {

using RowFn = std::function<std::vector<Operand>(const std::vector<Output>&)>;
using StepFn = std::function<std::vector<Operand>(
    const std::vector<Output>& state, const std::vector<Output>& row)>;
std::vector<Output> BuildMap(const std::vector<Operand>& elems, const RowFn& fn,
                             const MapOptions& options, SourceLoc loc);
enum class Fold : uint8_t { kLeft, kRight, kScan };
// A null `init` means that the first row is the initial value.
std::vector<Output> BuildFold(Fold kind, const std::vector<Operand>& elems,
                              const std::vector<Operand>* init,
                              const StepFn& fn, const MapOptions& options,
                              SourceLoc loc);

template <typename Fn, typename Elems, typename Init>
StructureOf<Init> FoldFrom(Fold kind, Fn& fn, const Elems& elems,
                           const Init* init, const Init& like,
                           const MapOptions& options, SourceLoc loc) {
  std::vector<Operand> begin;
  if (init != nullptr) begin = Flattened(*init, loc);
  return Unflattened(
      like, BuildFold(
                kind, Flattened(elems, loc), init == nullptr ? nullptr : &begin,
                [&](const std::vector<Output>& state,
                    const std::vector<Output>& row) {
                  const auto next = Call(fn, Unflattened(like, state),
                                         Unflattened(elems, row));
                  return Flattened(next, loc);
                },
                options, loc));
}

}  // namespace internal

// fn(row) for every row, packed along a new first dimension: one output, or
// each output of the structure that fn returns. fn receives the parts of a
// tuple, array or pair as separate arguments. (After an error: null outputs
// that have the error, or an empty list.)
template <typename Fn, typename Elems>
auto MapFn(Fn&& fn, const Elems& elems, const MapOptions& options = {},
           SourceLoc loc = CallerLoc()) {
  using Row = StructureOf<Elems>;
  using R = std::decay_t<decltype(CallWith(fn, std::declval<const Row&>()))>;
  std::optional<R> like;
  const std::vector<Output> results = internal::BuildMap(
      Flattened(elems, loc),
      [&](const std::vector<Output>& row) {
        const Row now = Unflattened(elems, row);
        like.emplace(CallWith(fn, now));
        return Flattened(*like, loc);
      },
      options, loc);
  return like.has_value() ? Unflattened(*like, results)
                          : internal::FailureAs<StructureOf<R>>();
}

// fn(... fn(fn(init, row 0), row 1) ..., last row). Without `init` the first
// row is the initial value (there must be one).
template <typename Fn, typename Elems, typename Init>
requires(!std::same_as<Init, MapOptions>) StructureOf<Init> FoldL(
    Fn&& fn, const Elems& elems, const Init& init,
    const MapOptions& options = {}, SourceLoc loc = CallerLoc()) {
  return internal::FoldFrom(internal::Fold::kLeft, fn, elems, &init, init,
                            options, loc);
}
template <typename Fn, typename Elems>
StructureOf<Elems> FoldL(Fn&& fn, const Elems& elems,
                         const MapOptions& options = {},
                         SourceLoc loc = CallerLoc()) {
  return internal::FoldFrom<Fn, Elems, Elems>(internal::Fold::kLeft, fn, elems,
                                              nullptr, elems, options, loc);
}

// The same from the last row to the first.
template <typename Fn, typename Elems, typename Init>
requires(!std::same_as<Init, MapOptions>) StructureOf<Init> FoldR(
    Fn&& fn, const Elems& elems, const Init& init,
    const MapOptions& options = {}, SourceLoc loc = CallerLoc()) {
  return internal::FoldFrom(internal::Fold::kRight, fn, elems, &init, init,
                            options, loc);
}
template <typename Fn, typename Elems>
StructureOf<Elems> FoldR(Fn&& fn, const Elems& elems,
                         const MapOptions& options = {},
                         SourceLoc loc = CallerLoc()) {
  return internal::FoldFrom<Fn, Elems, Elems>(internal::Fold::kRight, fn, elems,
                                              nullptr, elems, options, loc);
}

// All intermediate values of FoldL (from the last row to the first if
// `reverse`), packed along a new first dimension: row i is the value after row
// i of the elements. Without `init` the first row is the initial value and the
// first row of the result.
template <typename Fn, typename Elems, typename Init>
requires(!std::same_as<Init, MapOptions>) StructureOf<Init> Scan(
    Fn&& fn, const Elems& elems, const Init& init,
    const MapOptions& options = {}, SourceLoc loc = CallerLoc()) {
  return internal::FoldFrom(internal::Fold::kScan, fn, elems, &init, init,
                            options, loc);
}
template <typename Fn, typename Elems>
StructureOf<Elems> Scan(Fn&& fn, const Elems& elems,
                        const MapOptions& options = {},
                        SourceLoc loc = CallerLoc()) {
  return internal::FoldFrom<Fn, Elems, Elems>(internal::Fold::kScan, fn, elems,
                                              nullptr, elems, options, loc);
}

}  // namespace sluice

#endif  // SLUICE_CLIENT_CONTROL_HIGHER_ORDER_H_
