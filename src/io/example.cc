#include "io/example.h"

#include <memory>
#include <mutex>

#include "base/parallel.h"
#include "io/example_wire.h"

namespace sluice {
namespace example {

std::string ExampleName(const Tensor& serialized, const Tensor& names,
                        int64_t i) {
  std::string out = "serialized";
  if (serialized.rank() > 0) absl::StrAppend(&out, "[", i, "]");
  if (i < names.num_elements())
    absl::StrAppend(&out, " (name '", names.raw<std::string>()[i], "')");
  return out;
}

Status CheckSerialized(const Tensor& serialized, const Tensor& names) {
  if (serialized.rank() > 1)
    return InvalidArgument("serialized: expected a scalar or a vector, got ",
                           "shape ", serialized.shape().ToString());
  if (names.num_elements() != 0 && !(names.shape() == serialized.shape()))
    return InvalidArgument("names: expected none or the shape of serialized, ",
                           serialized.shape().ToString(), ", got ",
                           names.shape().ToString());
  return OkStatus();
}

}  // namespace example

namespace {

using example::ByValueType;
using example::FeatureView;
using example::ValueBuffer;

// The values of one dense feature: how many, and of which shape in the output.
struct DenseLayout {
  bool variable = false;
  int64_t row = 1;  // Elements of the known dimensions.
  bool required = false;
};

// Parses one batch. Its threads share it and write to different rows.
class ExampleParser {
 public:
  ExampleParser(const Tensor& serialized, const Tensor& names,
                const ExampleSpec& spec)
      : serialized_(serialized), names_(names), spec_(spec) {}

  Result<ExampleColumns> Parse() {
    SLUICE_RETURN_IF_ERROR(Prepare());
    const int64_t n = serialized_.num_elements();
    int64_t bytes = 0;
    for (int64_t i = 0; i < n; ++i)
      bytes +=
          static_cast<int64_t>(serialized_.raw<std::string>()[i].size()) + 64;
    constexpr int64_t kBytesForAThread = 256 << 10;
    const int64_t grain = std::max<int64_t>(
        1, kBytesForAThread /
               std::max<int64_t>(1, bytes / std::max<int64_t>(1, n)));
    ParallelFor(n, grain,
                [&](int64_t begin, int64_t end) { ParseRange(begin, end); });
    std::sort(chunks_.begin(), chunks_.end(),
              [](const auto& a, const auto& b) { return a->begin < b->begin; });
    for (const auto& c : chunks_) SLUICE_RETURN_IF_ERROR(c->status);
    return Assemble();
  }

 private:
  // The values of consecutive examples, except those of dense features of fixed
  // shape, which stand in the output already.
  struct Chunk {
    int64_t begin = 0;
    Status status;
    std::vector<ValueBuffer> values;           // By collected feature.
    std::vector<std::vector<int64_t>> counts;  // By feature and example.
  };

  bool batched() const { return serialized_.rank() > 0; }
  size_t num_sparse() const { return spec_.sparse.size(); }
  size_t num_dense() const { return spec_.dense.size(); }

  Status Prepare() {
    SLUICE_RETURN_IF_ERROR(example::CheckSerialized(serialized_, names_));
    const auto add = [this](const std::string& key) {
      return keys_.Add(key)
                 ? OkStatus()
                 : InvalidArgument("keys: expected distinct keys, got '", key,
                                   "' twice");
    };
    for (const auto& f : spec_.sparse) {
      SLUICE_RETURN_IF_ERROR(add(f.key));
      types_.push_back(f.dtype);
    }
    for (const auto& f : spec_.dense) {
      SLUICE_RETURN_IF_ERROR(add(f.key));
      types_.push_back(f.dtype);
      SLUICE_RETURN_IF_ERROR(PrepareDense(f));
    }
    for (const auto& f : spec_.ragged) {
      SLUICE_RETURN_IF_ERROR(add(f.key));
      types_.push_back(f.dtype);
    }
    return OkStatus();
  }

  Status PrepareDense(const ExampleSpec::Dense& f) {
    DenseLayout layout;
    const auto expected = [&f](const auto&... rule) {
      return InvalidArgument("dense_defaults of '", f.key, "': expected ",
                             rule..., ", got ", f.default_value.ToString());
    };
    if (f.default_value.dtype() != f.dtype)
      return expected("type ", DTypeName(f.dtype));
    Dims dims;
    if (!f.shape.rank_known())
      return InvalidArgument("dense_shapes of '", f.key,
                             "': expected a known rank, got ",
                             f.shape.ToString());
    for (int d = 0; d < f.shape.rank(); ++d) {
      if (f.shape.dim(d) >= 0) {
        dims.push_back(f.shape.dim(d));
      } else if (d == 0) {
        layout.variable = true;
      } else {
        return InvalidArgument("dense_shapes of '", f.key,
                               "': expected only the first dimension to be "
                               "unknown, got ",
                               f.shape.ToString());
      }
    }
    SLUICE_ASSIGN_OR_RETURN(const Shape row,
                            Shape::Make({dims.data(), dims.size()}));
    layout.row = row.num_elements();
    const int64_t defaults = f.default_value.num_elements();
    Tensor out;
    if (layout.variable) {
      if (defaults != 1)
        return expected("one element to fill with, for shape ",
                        f.shape.ToString());
    } else {
      layout.required = defaults == 0 && layout.row > 0;
      if (defaults > 0 && !(f.default_value.shape() == row))
        return expected("none, or shape ", row.ToString());
      if (batched()) dims.insert(dims.begin(), serialized_.num_elements());
      SLUICE_ASSIGN_OR_RETURN(const Shape shape,
                              Shape::Make({dims.data(), dims.size()}));
      SLUICE_ASSIGN_OR_RETURN(out, Tensor::Make(f.dtype, shape));
    }
    layouts_.push_back(layout);
    dense_.push_back(std::move(out));
    return OkStatus();
  }

  // The number of a feature among those that are collected, or -1.
  bool Collected(size_t feature) const {
    const size_t d = feature - num_sparse();
    return d >= num_dense() || layouts_[d].variable;
  }

  void ParseRange(int64_t begin, int64_t end) {
    auto chunk = std::make_unique<Chunk>();
    chunk->begin = begin;
    chunk->values.resize(types_.size());
    chunk->counts.resize(types_.size());
    for (size_t f = 0; f < types_.size(); ++f)
      if (Collected(f))
        chunk->counts[f].reserve(static_cast<size_t>(end - begin));
    example::KeyFinder keys = keys_;
    std::vector<std::string_view> features(types_.size());
    for (int64_t i = begin; i < end && chunk->status.ok(); ++i) {
      std::fill(features.begin(), features.end(), std::string_view());
      size_t place = 0;
      const bool ok = example::ForEachEntry(
          serialized_.raw<std::string>()[i], 1,
          [&](std::string_view key, std::string_view value) {
            const int f = keys.Find(key, place++);
            if (f >= 0) features[static_cast<size_t>(f)] = value;
          });
      if (!ok) {
        chunk->status = InvalidArgument(
            example::ExampleName(serialized_, names_, i),
            ": expected a serialised Example, got ",
            serialized_.raw<std::string>()[i].size(),
            " bytes that are none (could not parse example input)");
        break;
      }
      for (size_t f = 0; f < features.size() && chunk->status.ok(); ++f)
        chunk->status = ReadOne(i, f, features[f], chunk.get());
    }
    const std::lock_guard<std::mutex> lock(mu_);
    chunks_.push_back(std::move(chunk));
  }

  template <typename... Args>
  Status Wrong(int64_t i, size_t feature, const Args&... args) const {
    return InvalidArgument(example::ExampleName(serialized_, names_, i),
                           ": feature '", KeyOf(feature), "': ", args...);
  }
  const std::string& KeyOf(size_t feature) const {
    if (feature < num_sparse()) return spec_.sparse[feature].key;
    feature -= num_sparse();
    if (feature < num_dense()) return spec_.dense[feature].key;
    return spec_.ragged[feature - num_dense()].key;
  }

  Status ReadOne(int64_t i, size_t f, std::string_view bytes, Chunk* chunk) {
    FeatureView feature;
    if (!bytes.empty() && !example::ReadFeature(bytes, &feature))
      return Wrong(i, f, "expected a serialised Feature, got ", bytes.size(),
                   " bytes that are none");
    if (feature.kind != DType::kInvalid && feature.kind != types_[f])
      return Wrong(i, f, "expected type ", DTypeName(types_[f]), ", got ",
                   DTypeName(feature.kind), " (data types don't match)");
    return ByValueType(types_[f], [&]<typename T>(T) {
      return Collected(f) ? Collect<T>(i, f, feature, chunk)
                          : ReadDense<T>(i, f, feature);
    });
  }

  template <typename T>
  Status Collect(int64_t i, size_t f, const FeatureView& feature,
                 Chunk* chunk) {
    auto& values = chunk->values[f].of<T>();
    const size_t before = values.size();
    example::Unbounded<example::Kept<T>> sink{&values};
    if (feature.kind != DType::kInvalid &&
        !example::ReadValues<T>(feature.list, sink))
      return Wrong(i, f, "expected a list of ", DTypeName(types_[f]),
                   " values, got malformed bytes");
    const auto count = static_cast<int64_t>(values.size() - before);
    chunk->counts[f].push_back(count);
    const size_t d = f - num_sparse();
    if (d < num_dense()) {
      const int64_t row = layouts_[d].row;
      if (row == 0 ? count > 0 : count % row != 0)
        return Wrong(i, f, "expected a multiple of ", row, " ",
                     DTypeName(types_[f]), " values, got ", count);
    }
    return OkStatus();
  }

  template <typename T>
  Status ReadDense(int64_t i, size_t f, const FeatureView& feature) {
    const size_t d = f - num_sparse();
    const DenseLayout& layout = layouts_[d];
    T* const out = dense_[d].raw<T>() + i * layout.row;
    if (feature.kind == DType::kInvalid) {
      if (layout.required)
        return Wrong(i, f, "expected ", layout.row, " ", DTypeName(types_[f]),
                     " values, got none (it is required but could not be "
                     "found)");
      std::copy_n(spec_.dense[d].default_value.raw<T>(), layout.row, out);
      return OkStatus();
    }
    example::Bounded<T> sink{out, layout.row};
    if (!example::ReadValues<T>(feature.list, sink))
      return Wrong(i, f, "expected a list of ", DTypeName(types_[f]),
                   " values, got malformed bytes");
    if (sink.count != layout.row)
      return Wrong(i, f, "expected ", layout.row, " ", DTypeName(types_[f]),
                   " values for shape ", spec_.dense[d].shape.ToString(),
                   ", got ", sink.count);
    return OkStatus();
  }

  // ---- From chunks to tensors
  // ------------------------------------------------

  // The values of all chunks.
  Result<Tensor> Join(size_t f) {
    return ByValueType(types_[f], [&]<typename T>(T) -> Result<Tensor> {
      size_t total = 0;
      for (const auto& c : chunks_) total += c->values[f].of<T>().size();
      SLUICE_ASSIGN_OR_RETURN(
          Tensor out,
          Tensor::Make(types_[f], Shape({static_cast<int64_t>(total)})));
      T* to = out.raw<T>();
      for (const auto& c : chunks_)
        for (const auto& v : c->values[f].of<T>()) *to++ = T(v);
      return out;
    });
  }

  // Calls f(example, count) for each example, in order.
  template <typename F>
  void ForEachCount(size_t feature, F&& f) const {
    for (const auto& c : chunks_) {
      int64_t i = c->begin;
      for (const int64_t count : c->counts[feature]) f(i++, count);
    }
  }

  Status AssembleSparse(size_t f, ExampleColumns* out) {
    SLUICE_ASSIGN_OR_RETURN(Tensor values, Join(f));
    const int rank = batched() ? 2 : 1;
    SLUICE_ASSIGN_OR_RETURN(
        Tensor indices,
        Tensor::Make(DType::kInt64, Shape({values.num_elements(), rank})));
    int64_t* to = indices.raw<int64_t>();
    int64_t most = 0;
    ForEachCount(f, [&](int64_t i, int64_t count) {
      most = std::max(most, count);
      for (int64_t j = 0; j < count; ++j) {
        if (rank == 2) *to++ = i;
        *to++ = j;
      }
    });
    out->sparse_shapes.push_back(
        batched() ? Tensor::Vector<int64_t>({serialized_.num_elements(), most})
                  : Tensor::Vector<int64_t>({most}));
    out->sparse_values.push_back(std::move(values));
    out->sparse_indices.push_back(std::move(indices));
    return OkStatus();
  }

  Status AssembleRagged(size_t f, DType type, ExampleColumns* out) {
    SLUICE_ASSIGN_OR_RETURN(Tensor values, Join(f));
    // (A single example is one row, which needs no splits.)
    const int64_t n = batched() ? serialized_.num_elements() + 1 : 0;
    SLUICE_ASSIGN_OR_RETURN(Tensor splits, Tensor::Make(type, Shape({n})));
    if (type == DType::kInt32 && values.num_elements() > INT32_MAX)
      return InvalidArgument("ragged_split_types: expected int64 for ",
                             values.num_elements(), " values, got int32");
    int64_t end = 0;
    const auto fill = [&]<typename T>(T* to) {
      *to++ = 0;
      ForEachCount(f, [&](int64_t, int64_t count) {
        *to++ = static_cast<T>(end += count);
      });
    };
    if (n > 0) {
      if (type == DType::kInt32)
        fill(splits.raw<int32_t>());
      else
        fill(splits.raw<int64_t>());
    }
    out->ragged_values.push_back(std::move(values));
    out->ragged_splits.push_back(std::move(splits));
    return OkStatus();
  }

  // A dense feature whose first dimension is that of the longest example.
  Result<Tensor> Pad(size_t f) {
    const size_t d = f - num_sparse();
    int64_t most = 0;
    ForEachCount(f,
                 [&](int64_t, int64_t count) { most = std::max(most, count); });
    Dims dims;
    if (batched()) dims.push_back(serialized_.num_elements());
    dims.push_back(layouts_[d].row == 0 ? 0 : most / layouts_[d].row);
    for (int k = 1; k < spec_.dense[d].shape.rank(); ++k)
      dims.push_back(spec_.dense[d].shape.dim(k));
    SLUICE_ASSIGN_OR_RETURN(const Shape shape,
                            Shape::Make({dims.data(), dims.size()}));
    SLUICE_ASSIGN_OR_RETURN(Tensor out, Tensor::Make(types_[f], shape));
    ByValueType(types_[f], [&]<typename T>(T) {
      const T& fill = spec_.dense[d].default_value.raw_scalar<T>();
      T* to = out.raw<T>();
      for (const auto& c : chunks_) {
        const auto& values = c->values[f].of<T>();
        size_t at = 0;
        for (const int64_t count : c->counts[f]) {
          for (int64_t j = 0; j < count; ++j) *to++ = T(values[at++]);
          to = std::fill_n(to, most - count, fill);
        }
      }
    });
    return out;
  }

  Result<ExampleColumns> Assemble() {
    ExampleColumns out;
    for (size_t f = 0; f < num_sparse(); ++f)
      SLUICE_RETURN_IF_ERROR(AssembleSparse(f, &out));
    for (size_t d = 0; d < num_dense(); ++d) {
      if (layouts_[d].variable) {
        SLUICE_ASSIGN_OR_RETURN(dense_[d], Pad(num_sparse() + d));
      }
      out.dense_values.push_back(std::move(dense_[d]));
    }
    for (size_t r = 0; r < spec_.ragged.size(); ++r)
      SLUICE_RETURN_IF_ERROR(AssembleRagged(num_sparse() + num_dense() + r,
                                            spec_.ragged[r].splits, &out));
    return out;
  }

  const Tensor& serialized_;
  const Tensor& names_;
  const ExampleSpec& spec_;
  // Features are numbered: sparse, dense, ragged.
  example::KeyFinder keys_;
  std::vector<DType> types_;
  std::vector<DenseLayout> layouts_;  // By dense feature.
  std::vector<Tensor> dense_;         // By dense feature; invalid if variable.
  std::mutex mu_;
  std::vector<std::unique_ptr<Chunk>> chunks_;  // GUARDED_BY(mu_) in threads.
};

}  // namespace

Result<ExampleColumns> ParseExamples(const Tensor& serialized,
                                     const Tensor& names,
                                     const ExampleSpec& spec) {
  return ExampleParser(serialized, names, spec).Parse();
}

}  // namespace sluice
