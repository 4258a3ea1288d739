// SequenceExamples: lists of frames, each with any number of values.
#include "io/example.h"
#include "io/example_wire.h"

namespace sluice {
namespace {

using example::ByValueType;
using example::FeatureView;
using example::ValueBuffer;

// The frames of one feature list of all examples.
struct Frames {
  ValueBuffer values;
  std::vector<int64_t> counts;   // Values, by frame of all examples.
  std::vector<int64_t> lengths;  // Frames, by example.
};

class SequenceParser {
 public:
  SequenceParser(const Tensor& serialized, const Tensor& names,
                 const SequenceSpec& spec)
      : serialized_(serialized), names_(names), spec_(spec) {}

  Result<SequenceColumns> Parse() {
    SLUICE_RETURN_IF_ERROR(example::CheckSerialized(serialized_, names_));
    const auto add = [this](const std::string& key, DType type) {
      types_.push_back(type);
      return keys_.Add(key)
                 ? OkStatus()
                 : InvalidArgument("keys: expected distinct keys, got '", key,
                                   "' twice");
    };
    for (const auto& f : spec_.sparse)
      SLUICE_RETURN_IF_ERROR(add(f.key, f.dtype));
    for (const auto& f : spec_.dense)
      SLUICE_RETURN_IF_ERROR(add(f.key, f.dtype));
    frames_.resize(types_.size());
    for (int64_t i = 0; i < serialized_.num_elements(); ++i)
      SLUICE_RETURN_IF_ERROR(ReadExample(i));
    SequenceColumns out;
    for (size_t f = 0; f < types_.size(); ++f)
      SLUICE_RETURN_IF_ERROR(f < spec_.sparse.size() ? AssembleSparse(f, &out)
                                                     : AssembleDense(f, &out));
    return out;
  }

 private:
  bool batched() const { return serialized_.rank() > 0; }

  template <typename... Args>
  Status Wrong(int64_t i, size_t f, const Args&... args) const {
    const size_t dense = f - spec_.sparse.size();
    return InvalidArgument(
        example::ExampleName(serialized_, names_, i), ": feature list '",
        f < spec_.sparse.size() ? spec_.sparse[f].key : spec_.dense[dense].key,
        "': ", args...);
  }

  Status ReadExample(int64_t i) {
    const std::string& bytes = serialized_.raw<std::string>()[i];
    std::vector<std::string_view> lists(types_.size());
    std::vector<bool> found(types_.size(), false);
    size_t place = 0;
    const bool ok = example::ForEachEntry(
        bytes, 2, [&](std::string_view key, std::string_view value) {
          const int f = keys_.Find(key, place++);
          if (f < 0) return;
          lists[static_cast<size_t>(f)] = value;
          found[static_cast<size_t>(f)] = true;
        });
    if (!ok)
      return InvalidArgument(example::ExampleName(serialized_, names_, i),
                             ": expected a serialised SequenceExample, got ",
                             bytes.size(), " bytes that are none");
    for (size_t f = 0; f < types_.size(); ++f) {
      const size_t dense = f - spec_.sparse.size();
      if (dense < spec_.dense.size() && !found[f] &&
          !spec_.dense[dense].may_be_missing)
        return Wrong(i, f,
                     "expected a list, got none (it is required but could not "
                     "be found; feature_list_dense_missing_assumed_empty names "
                     "those that may be missing)");
      SLUICE_RETURN_IF_ERROR(ReadList(i, f, lists[f]));
    }
    return OkStatus();
  }

  Status ReadList(int64_t i, size_t f, std::string_view bytes) {
    int64_t length = 0;
    FieldReader r(bytes);
    WireTag tag;
    while (r.ReadTag(&tag)) {
      if (!tag.Is(1, WireType::kBytes)) {
        if (!r.Skip(tag)) return Malformed(i, f);
        continue;
      }
      std::string_view frame;
      FeatureView feature;
      if (!r.ReadBytes(&frame) || !example::ReadFeature(frame, &feature))
        return Malformed(i, f);
      SLUICE_RETURN_IF_ERROR(ReadFrame(i, f, length++, feature));
    }
    if (!r.done()) return Malformed(i, f);
    frames_[f].lengths.push_back(length);
    return OkStatus();
  }

  Status Malformed(int64_t i, size_t f) const {
    return Wrong(i, f, "expected a serialised FeatureList, got malformed ",
                 "bytes");
  }

  Status ReadFrame(int64_t i, size_t f, int64_t frame,
                   const FeatureView& feature) {
    if (feature.kind != DType::kInvalid && feature.kind != types_[f])
      return Wrong(i, f, "frame ", frame, ": expected type ",
                   DTypeName(types_[f]), ", got ", DTypeName(feature.kind));
    int64_t count = 0;
    const bool ok = ByValueType(types_[f], [&]<typename T>(T) {
      auto& values = frames_[f].values.of<T>();
      const size_t before = values.size();
      example::Unbounded<example::Kept<T>> sink{&values};
      if (feature.kind != DType::kInvalid &&
          !example::ReadValues<T>(feature.list, sink))
        return false;
      count = static_cast<int64_t>(values.size() - before);
      return true;
    });
    if (!ok) return Malformed(i, f);
    frames_[f].counts.push_back(count);
    const size_t dense = f - spec_.sparse.size();
    if (dense < spec_.dense.size() &&
        count != spec_.dense[dense].shape.num_elements())
      return Wrong(i, f, "frame ", frame, ": expected ",
                   spec_.dense[dense].shape.num_elements(), " ",
                   DTypeName(types_[f]), " values for shape ",
                   spec_.dense[dense].shape.ToString(), ", got ", count);
    return OkStatus();
  }

  // Calls f(example, frame, values) for each frame, in order.
  template <typename F>
  static void ForEachFrame(const Frames& frames, F&& f) {
    size_t at = 0;
    for (size_t i = 0; i < frames.lengths.size(); ++i)
      for (int64_t t = 0; t < frames.lengths[i]; ++t)
        f(static_cast<int64_t>(i), t, frames.counts[at++]);
  }

  static int64_t Longest(const Frames& frames) {
    return frames.lengths.empty() ? 0
                                  : *std::max_element(frames.lengths.begin(),
                                                      frames.lengths.end());
  }

  Status AssembleSparse(size_t f, SequenceColumns* out) {
    Frames& frames = frames_[f];
    Tensor values;
    SLUICE_RETURN_IF_ERROR(ByValueType(types_[f], [&]<typename T>(T) -> Status {
      const auto& from = frames.values.of<T>();
      SLUICE_ASSIGN_OR_RETURN(
          values,
          Tensor::Make(types_[f], Shape({static_cast<int64_t>(from.size())})));
      std::copy(from.begin(), from.end(), values.raw<T>());
      return OkStatus();
    }));
    const int rank = batched() ? 3 : 2;
    SLUICE_ASSIGN_OR_RETURN(
        Tensor indices,
        Tensor::Make(DType::kInt64, Shape({values.num_elements(), rank})));
    int64_t* to = indices.raw<int64_t>();
    int64_t most = 0;
    ForEachFrame(frames, [&](int64_t i, int64_t t, int64_t count) {
      most = std::max(most, count);
      for (int64_t j = 0; j < count; ++j) {
        if (rank == 3) *to++ = i;
        *to++ = t;
        *to++ = j;
      }
    });
    const int64_t longest = Longest(frames);
    out->sparse_shapes.push_back(
        batched() ? Tensor::Vector<int64_t>(
                        {serialized_.num_elements(), longest, most})
                  : Tensor::Vector<int64_t>({longest, most}));
    out->sparse_values.push_back(std::move(values));
    out->sparse_indices.push_back(std::move(indices));
    return OkStatus();
  }

  Status AssembleDense(size_t f, SequenceColumns* out) {
    Frames& frames = frames_[f];
    const Shape& frame = spec_.dense[f - spec_.sparse.size()].shape;
    const int64_t longest = Longest(frames);
    Dims dims;
    if (batched()) dims.push_back(serialized_.num_elements());
    dims.push_back(longest);
    dims.insert(dims.end(), frame.dims().begin(), frame.dims().end());
    SLUICE_ASSIGN_OR_RETURN(const Shape shape,
                            Shape::Make({dims.data(), dims.size()}));
    SLUICE_ASSIGN_OR_RETURN(Tensor values, Tensor::Zeros(types_[f], shape));
    ByValueType(types_[f], [&]<typename T>(T) {
      auto from = frames.values.of<T>().begin();
      T* to = values.raw<T>();
      for (const int64_t length : frames.lengths) {
        const int64_t n = length * frame.num_elements();
        std::copy_n(from, n, to);
        from += n;
        to += longest * frame.num_elements();
      }
    });
    out->dense_values.push_back(std::move(values));
    SLUICE_ASSIGN_OR_RETURN(Tensor lengths,
                            Tensor::MakeVector<int64_t>(frames.lengths));
    if (!batched()) {
      SLUICE_ASSIGN_OR_RETURN(lengths, lengths.Reshaped(Shape()));
    }
    out->dense_lengths.push_back(std::move(lengths));
    return OkStatus();
  }

  const Tensor& serialized_;
  const Tensor& names_;
  const SequenceSpec& spec_;
  example::KeyFinder keys_;     // Sparse features, then dense ones.
  std::vector<DType> types_;    // By feature.
  std::vector<Frames> frames_;  // By feature.
};

}  // namespace

Result<SequenceColumns> ParseSequences(const Tensor& serialized,
                                       const Tensor& names,
                                       const SequenceSpec& spec) {
  return SequenceParser(serialized, names, spec).Parse();
}

}  // namespace sluice
