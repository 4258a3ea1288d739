#include "client/control/higher_order.h"

#include <algorithm>

#include "client/control/control_flow.h"
#include "client/control/tensor_array.h"
#include "client/operators.h"
#include "client/types_and_shapes.h"
#include "graph/control_flow.h"
#include "graph/device_scope.h"
#include "graph/exact_line.h"
#include "graph/graph.h"

namespace sluice::internal {
namespace {

using Lock = std::lock_guard<std::recursive_mutex>;

std::string NameOf(const MapOptions& options, const char* preset) {
  return options.name.empty() ? preset : options.name;
}

// Rows that a loop reads: its elements, unpacked.
struct Rows {
  std::vector<TensorArray> arrays;
  Output count;        // An int32 scalar.
  int64_t known = -1;  // The count, if it is known before a step.

  std::vector<Output> At(const Output& i, SourceLoc loc) const {
    std::vector<Output> row;
    for (const TensorArray& a : arrays) row.push_back(a.Read(i, loc));
    return row;
  }
};

// "3 of 'x' (shape [3,2])", for messages.
std::string DescribeLength(const Output& v) {
  return absl::StrCat(v.shape().dim(0), " of '", v.node->name(), "' (shape ",
                      v.shape().ToString(), ")");
}

// The value v, after a check in each step that its length is `count`, that of
// `counted`.
Output OfLength(const Output& v, const Output& counted, const Output& count,
                SourceLoc loc) {
  const Output length = DimOf(v, 0, loc);
  const std::string expected =
      absl::StrCat("elements: expected one length (first dimension) in ",
                   counted.node->name(), " and ", v.node->name(), ", got");
  Node* check = nullptr;
  {
    const NoDeviceScope on_host;  // (Other devices have no Assert.)
    check = BuildNode("Assert",
                      {Build("Equal", {length, count}, {}, "", loc),
                       Constant(Tensor::Scalar(expected)), count, length},
                      {}, "", loc);
  }
  const ControlDependencies checked({check});
  return Build("Identity", {v}, {}, "", loc);
}

// False if an error was recorded.
bool Unpack(const std::vector<Operand>& elems, const std::string& what,
            SourceLoc loc, Rows* rows) {
  const auto fail = [&](const Status& s) {
    BuildError(s, loc);
    return false;
  };
  if (elems.empty())
    return fail(
        InvalidArgument(what, ": expected at least one tensor of elements"));
  std::vector<Output> values;
  size_t with_length = 0;  // The value that rows->known is the length of.
  for (const Operand& e : elems) {
    const Output v = e.Get();
    if (!v.valid()) {
      CurrentGraph().PropagateFailure(
          v, WithLine(InvalidArgument(what, ": expected elements, got none"),
                      loc));
      return false;
    }
    const PartialShape& shape = v.shape();
    if (shape.rank() == 0)
      return fail(InvalidArgument(
          what, ": expected elements of at least one dimension, got shape []"));
    if (shape.rank_known() && shape.dim(0) >= 0) {
      if (rows->known >= 0 && rows->known != shape.dim(0))
        return fail(InvalidArgument(
            what, ": expected elements of one length (first dimension), got ",
            DescribeLength(values[with_length]), " and ", DescribeLength(v)));
      if (rows->known < 0) with_length = values.size();
      rows->known = shape.dim(0);
    }
    values.push_back(v);
  }
  rows->count =
      rows->known >= 0
          ? ScalarOf(DType::kInt32, static_cast<double>(rows->known), loc)
          : DimOf(values[0], 0, loc);
  if (!rows->count.valid()) return false;
  const Output& counted = values[with_length];
  for (Output& v : values) {
    if (!v.SameAs(counted) && KnownDim(v, 0) < 0)
      v = OfLength(v, counted, rows->count, loc);
    if (!v.valid()) return false;
    rows->arrays.push_back(
        TensorArray(v.dtype(), rows->count, {}, loc).Unstack(v, loc));
    if (!rows->arrays.back()) return false;
  }
  return true;
}

// The result, whose first dimension is known if the count is.
Output Packed(const TensorArray& array, const Rows& rows, SourceLoc loc) {
  const Output packed = array.Stack(loc);
  if (!packed.valid() || rows.known < 0 || packed.shape().rank() < 1)
    return packed;
  PartialShape shape = packed.shape();
  shape.set_dim(0, rows.known);
  return Shaped(packed, shape, loc);
}

WhileOptions LoopOptions(const MapOptions& options) {
  WhileOptions w;
  w.parallel_iterations = options.parallel_iterations;
  w.back_prop = options.back_prop;
  w.swap_memory = options.swap_memory;
  w.batch = options.batch;
  return w;
}

// The results of a callable as outputs; numbers take the types of `like`.
bool Values(const std::vector<Operand>& from, const std::vector<DType>& types,
            const std::string& what, SourceLoc loc, std::vector<Output>* to) {
  for (size_t i = 0; i < from.size(); ++i) {
    const Operand& x = from[i];
    const DType want = i < types.size() ? types[i] : NaturalType(x);
    const Output v = x.Get(x.weak ? want : DType::kInvalid);
    if (!v.valid()) {
      CurrentGraph().PropagateFailure(
          v, WithLine(InvalidArgument(what, ": expected an output as value ", i,
                                      ", got none"),
                      loc));
      return false;
    }
    if (i < types.size() && RemoveRef(v.dtype()) != types[i]) {
      BuildError(
          InvalidArgument(what, ": expected ", DTypeName(types[i]),
                          " as value ", i, ", got ", DTypeName(v.dtype()),
                          " of shape ", v.shape().ToString()),
          loc);
      return false;
    }
    to->push_back(v);
  }
  return true;
}

// One call of BuildMap. The result arrays are created once the callable has
// determined their types; they then become loop variables.
class MapBuilder {
 public:
  MapBuilder(const MapOptions& options, SourceLoc loc)
      : options_(options),
        loc_(loc),
        outside_(CurrentLine()),
        at_(loc),
        scope_(NameOf(options, "map")),
        what_(absl::StrCat("map '", scope_.prefix(), "'")) {}

  bool Run(const std::vector<Operand>& elems, const RowFn& fn,
           std::vector<Output>* results) {
    if (!Unpack(elems, what_, loc_, &rows_)) return false;
    std::vector<TensorArray> arrays;
    WhileOptions loop = LoopOptions(options_);
    const std::vector<Output> out = BuildWhile(
        {Operand(ScalarOf(DType::kInt32, 0, loc_))},
        [&](const std::vector<Output>& v) {
          return std::vector<Operand>{Operand(v[0] < Operand(rows_.count))};
        },
        [&](const std::vector<Output>& v) {
          if (!Body(v[0], fn, &arrays))
            return std::vector<Operand>{CurrentGraph().Failure()};
          return std::vector<Operand>{Operand(v[0] + 1)};
        },
        loop, loc_);
    if (!out[0].valid()) return false;
    for (const TensorArray& a : arrays)
      results->push_back(Packed(a, rows_, loc_));
    return true;
  }

 private:
  // Sets the arrays to their values after the loop.
  bool Body(const Output& i, const RowFn& fn,
            std::vector<TensorArray>* arrays) {
    WhileContext* loop = CurrentContext()->AsWhile();
    std::vector<Output> values;
    const std::vector<Output> row = rows_.At(i, loc_);
    std::vector<Operand> returned;
    {
      const ExactLine callers(outside_);
      returned = fn(row);
    }
    if (!Values(returned, options_.dtypes, what_, loc_, &values)) return false;
    if (!options_.dtypes.empty() && options_.dtypes.size() != values.size()) {
      BuildError(
          InvalidArgument(what_, ": expected ", options_.dtypes.size(),
                          " values as there are dtypes, got ", values.size()),
          loc_);
      return false;
    }
    for (const Output& value : values) {
      TensorArray array;
      {
        const ContextScope outside(loop->outer(), loop->in_outer_condition());
        array = TensorArray(value.dtype(), rows_.count,
                            {.infer_shape = options_.infer_shape}, loc_);
      }
      const int index = loop->OpenVariable(
          array.flow(), absl::StrCat("result ", arrays->size()), std::nullopt,
          {}, loc_);
      if (index < 0) return false;
      const auto at = [&](Output flow) {
        const Output* next = &flow;
        return array.Unflatten(next);
      };
      const LoopVariable v = loop->variables()[static_cast<size_t>(index)];
      const TensorArray written = at(v.body_value).Write(i, value, loc_);
      if (!written || !loop->CloseVariable(index, written.flow(), loc_))
        return false;
      arrays->push_back(at(Output(v.exit)));
    }
    return true;
  }

  const MapOptions& options_;
  const SourceLoc loc_, outside_;
  const AtLine at_;
  const NameScope scope_;
  const std::string what_;
  Rows rows_;
};

// One call of BuildFold.
class FoldBuilder {
 public:
  FoldBuilder(Fold kind, const MapOptions& options, SourceLoc loc)
      : kind_(kind),
        backwards_(kind == Fold::kRight ||
                   (kind == Fold::kScan && options.reverse)),
        options_(options),
        loc_(loc),
        outside_(CurrentLine()),
        at_(loc),
        scope_(NameOf(options, kind == Fold::kScan    ? "scan"
                               : kind == Fold::kRight ? "foldr"
                                                      : "foldl")),
        what_(absl::StrCat(kind == Fold::kScan ? "scan '" : "fold '",
                           scope_.prefix(), "'")) {}

  bool Run(const std::vector<Operand>& elems, const std::vector<Operand>* init,
           const StepFn& fn, std::vector<Output>* results) {
    if (!Unpack(elems, what_, loc_, &rows_)) return false;
    const Output zero = ScalarOf(DType::kInt32, 0, loc_);
    const Output last =
        rows_.known >= 0 ? ScalarOf(DType::kInt32,
                                    static_cast<double>(rows_.known - 1), loc_)
                         : rows_.count - 1;
    Output first = backwards_ ? last : zero;
    std::vector<Output> state;
    if (init != nullptr) {
      if (!Values(*init, {}, what_, loc_, &state)) return false;
    } else {
      state = rows_.At(first, loc_);
      for (const Output& s : state)
        if (!s.valid()) return false;
    }
    std::vector<TensorArray> arrays;
    for (size_t i = 0; kind_ == Fold::kScan && i < state.size(); ++i) {
      TensorArrayOptions options;
      options.infer_shape = options_.infer_shape;
      if (options_.infer_shape) options.element_shape = state[i].shape();
      TensorArray a(state[i].dtype(), rows_.count, options, loc_);
      if (init == nullptr) a = a.Write(first, state[i], loc_);
      if (!a) return false;
      arrays.push_back(a);
    }
    if (init == nullptr) first = backwards_ ? first - 1 : first + 1;
    return Loop(first, state, arrays, fn, results);
  }

 private:
  bool Loop(const Output& first, const std::vector<Output>& state,
            const std::vector<TensorArray>& arrays, const StepFn& fn,
            std::vector<Output>* results) {
    const size_t n = state.size();
    std::vector<DType> types;
    for (const Output& s : state) types.push_back(RemoveRef(s.dtype()));
    std::vector<Operand> begin = {first};
    for (const Output& s : state) begin.emplace_back(s);
    for (const TensorArray& a : arrays) begin.emplace_back(a.flow());
    const std::vector<Output> end = BuildWhile(
        begin,
        [&](const std::vector<Output>& v) {
          return std::vector<Operand>{
              Operand(backwards_ ? v[0] >= 0 : v[0] < Operand(rows_.count))};
        },
        [&](const std::vector<Output>& v) {
          const std::vector<Output> now(v.begin() + 1,
                                        v.begin() + 1 + static_cast<long>(n));
          std::vector<Output> values;
          if (!Step(fn, now, rows_.At(v[0], loc_), types, &values))
            return std::vector<Operand>(v.size(),
                                        Operand(CurrentGraph().Failure()));
          std::vector<Operand> out = {backwards_ ? v[0] - 1 : v[0] + 1};
          for (const Output& value : values) out.emplace_back(value);
          for (size_t i = 0; i < arrays.size(); ++i) {
            const Output* flow = &v[1 + n + i];
            out.emplace_back(
                arrays[i].Unflatten(flow).Write(v[0], values[i], loc_).flow());
          }
          return out;
        },
        LoopOptions(options_), loc_);
    for (const Output& o : end)
      if (!o.valid()) return false;
    for (size_t i = 0; i < n; ++i) {
      const Output* flow = kind_ == Fold::kScan ? &end[1 + n + i] : nullptr;
      results->push_back(flow == nullptr
                             ? end[1 + i]
                             : Packed(arrays[i].Unflatten(flow), rows_, loc_));
    }
    return true;
  }

  // The next values of the state; false if an error was recorded.
  bool Step(const StepFn& fn, const std::vector<Output>& now,
            const std::vector<Output>& row, const std::vector<DType>& types,
            std::vector<Output>* values) const {
    std::vector<Operand> next;
    {
      const ExactLine callers(outside_);
      next = fn(now, row);
    }
    const auto fail = [this](const Status& s) {
      BuildError(s, loc_);
      return false;
    };
    if (next.size() != now.size())
      return fail(InvalidArgument(what_, ": expected ", now.size(),
                                  " values from the callable, as it begins "
                                  "with, got ",
                                  next.size()));
    if (!Values(next, types, what_, loc_, values)) return false;
    for (size_t i = 0; i < now.size(); ++i)
      if (!(*values)[i].shape().CompatibleWith(now[i].shape()))
        return fail(InvalidArgument(
            what_, ": expected shape ", now[i].shape().ToString(), " as value ",
            i, ", as it begins with, got ", (*values)[i].shape().ToString()));
    return true;
  }

  const Fold kind_;
  const bool backwards_;
  const MapOptions& options_;
  const SourceLoc loc_, outside_;
  const AtLine at_;
  const NameScope scope_;
  const std::string what_;
  Rows rows_;
};

}  // namespace

std::vector<Output> BuildMap(const std::vector<Operand>& elems, const RowFn& fn,
                             const MapOptions& options, SourceLoc loc) {
  const Lock lock(CurrentGraph().mutex());
  std::vector<Output> results;
  size_t n = 0;
  const RowFn counted = [&](const std::vector<Output>& row) {
    std::vector<Operand> values = fn(row);
    n = values.size();
    return values;
  };
  if (!MapBuilder(options, loc).Run(elems, counted, &results))
    results.assign(n, CurrentGraph().Failure());
  return results;
}

std::vector<Output> BuildFold(Fold kind, const std::vector<Operand>& elems,
                              const std::vector<Operand>* init,
                              const StepFn& fn, const MapOptions& options,
                              SourceLoc loc) {
  const Lock lock(CurrentGraph().mutex());
  std::vector<Output> results;
  if (!FoldBuilder(kind, options, loc).Run(elems, init, fn, &results))
    results.assign((init == nullptr ? elems : *init).size(),
                   CurrentGraph().Failure());
  return results;
}

}  // namespace sluice::internal
