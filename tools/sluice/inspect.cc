// sluice inspect: what is in a checkpoint, a saved model or an event file, and
// what differs between two; here for checkpoints.
#include "tools/sluice/inspect.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <system_error>
#include <type_traits>
#include <vector>

#include "absl/strings/str_format.h"
#include "sluice/sluice.h"
#include "tools/sluice/cli.h"

namespace sluice::cli {
namespace {

// Of the elements of a tensor that are finite, and how many are not.
struct Statistics {
  double least = INFINITY, most = -INFINITY, mean = 0;
  double squares = 0;  // The sum of the squared differences from the mean.
  int64_t finite = 0, nans = 0, infinities = 0;

  // Welford's method ("Note on a method for calculating corrected sums of
  // squares and products", 1962), which is exact enough for a mean that is
  // large compared to the deviation.
  void Add(double x) {
    if (std::isnan(x)) {
      ++nans;
    } else if (std::isinf(x)) {
      ++infinities;
    } else {
      ++finite;
      least = std::min(least, x);
      most = std::max(most, x);
      const double before = x - mean;
      mean += before / static_cast<double>(finite);
      squares += before * (x - mean);
    }
  }
  double deviation() const {
    return std::sqrt(squares / static_cast<double>(finite));
  }
};

template <typename T>
double AsNumber(const T& x) {
  if constexpr (std::is_same_v<T, half> || std::is_same_v<T, bfloat16>)
    return static_cast<double>(static_cast<float>(x));
  else
    return static_cast<double>(x);
}

// How far apart two numbers are: of integers exactly, though the numbers might
// not fit in a double.
template <typename T>
double ElementDistance(const T& a, const T& b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<double>(static_cast<uint64_t>(std::max(a, b)) -
                               static_cast<uint64_t>(std::min(a, b)));
  else
    return std::abs(AsNumber(a) - AsNumber(b));
}

template <typename T>
T Load(const char* bytes) {
  T x;
  std::memcpy(static_cast<void*>(&x), bytes, sizeof(T));
  return x;
}

// Calls each(x) with some number x of the type of the elements; of complex
// numbers, of their parts. Does nothing for types that are no numbers.
template <typename Fn>
void WithNumberType(DType dtype, const Fn& each) {
  switch (dtype) {
    case DType::kFloat:
    case DType::kComplex64:
      return each(float{});
    case DType::kDouble:
    case DType::kComplex128:
      return each(double{});
    case DType::kHalf:
      return each(half{});
    case DType::kBfloat16:
      return each(bfloat16{});
    case DType::kInt8:
    case DType::kQint8:
      return each(int8_t{});
    case DType::kUint8:
    case DType::kQuint8:
    case DType::kBool:
      return each(uint8_t{});
    case DType::kInt16:
    case DType::kQint16:
      return each(int16_t{});
    case DType::kUint16:
    case DType::kQuint16:
      return each(uint16_t{});
    case DType::kInt32:
    case DType::kQint32:
      return each(int32_t{});
    case DType::kUint32:
      return each(uint32_t{});
    case DType::kInt64:
      return each(int64_t{});
    case DType::kUint64:
      return each(uint64_t{});
    default:
      return;
  }
}

std::string TypeAndShape(const SavedTensor& t) {
  return DTypeName(t.dtype) + t.shape.ToString();
}

// The line of a tensor. Reads all of it, a piece at a time.
Result<std::string> Described(const CheckpointReader& reader,
                              const std::string& name,
                              const SavedTensor& tensor) {
  std::string out;
  if (tensor.slices.size() > 1)
    out = absl::StrCat(
        Counted(static_cast<int64_t>(tensor.slices.size()), "part"), "  ");
  if (tensor.dtype == DType::kString) {
    SLUICE_ASSIGN_OR_RETURN(const Tensor t, reader.Read(name));
    int64_t bytes = 0;
    for (const std::string& s : t.flat<std::string>())
      bytes += static_cast<int64_t>(s.size());
    return absl::StrCat(out, Counted(bytes, "byte"), " of strings");
  }
  Statistics all;
  SLUICE_RETURN_IF_ERROR(reader.ForEachPiece(name, [&](std::string_view bytes) {
    WithNumberType(tensor.dtype, [&]<typename T>(T) {
      for (; bytes.size() >= sizeof(T); bytes.remove_prefix(sizeof(T)))
        all.Add(AsNumber(Load<T>(bytes.data())));
    });
    return OkStatus();
  }));
  if (all.finite > 0)
    absl::StrAppendFormat(&out, "min %g  max %g  mean %g  dev %g", all.least,
                          all.most, all.mean, all.deviation());
  if (all.nans > 0) absl::StrAppendFormat(&out, "  NaN %d", all.nans);
  if (all.infinities > 0)
    absl::StrAppendFormat(&out, "  infinite %d", all.infinities);
  return out;
}

}  // namespace

int InspectCheckpoint(const std::string& path) {
  const Result<CheckpointReader> reader = CheckpointReader::Open(path);
  if (!reader.ok()) return Fail(kRunFailed, reader.status());
  // Variables of a checkpoint of objects have names beside their keys.
  const auto full_names = reader->FullNames();
  if (!full_names.ok()) return Fail(kRunFailed, full_names.status());
  std::map<std::string, std::string> name_of;
  for (const auto& [name, key] : *full_names) name_of[key] = name;
  const auto shown = [&](const std::string& key) -> const std::string& {
    const auto it = name_of.find(key);
    return it == name_of.end() ? key : it->second;
  };
  size_t width = 4, type_width = 4;
  int64_t elements = 0;
  for (const auto& [name, tensor] : reader->tensors()) {
    width = std::max(width, shown(name).size());
    type_width = std::max(type_width, TypeAndShape(tensor).size());
    elements += tensor.shape.num_elements();
  }
  int code = 0;
  for (const auto& [name, tensor] : reader->tensors()) {
    const Result<std::string> text = Described(*reader, name, tensor);
    std::string line =
        absl::StrFormat("%-*s  %-*s  %s", static_cast<int>(width), shown(name),
                        static_cast<int>(type_width), TypeAndShape(tensor),
                        text.ok() ? *text : std::string());
    if (&shown(name) != &name) absl::StrAppend(&line, "  at ", name);
    line.resize(line.find_last_not_of(' ') + 1);
    std::printf("%s\n", line.c_str());
    // (The others may be whole.)
    if (!text.ok()) code = Fail(kRunFailed, text.status());
  }
  std::printf(
      "%s, %s, version %d\n",
      Counted(static_cast<int64_t>(reader->tensors().size()), "tensor").c_str(),
      Counted(elements, "element").c_str(), reader->version());
  return code;
}

namespace {

// What differs in the elements of a tensor of the same type and shape; "" if
// nothing does.
Result<std::string> Differing(const CheckpointReader& a,
                              const CheckpointReader& b,
                              const std::string& name) {
  SLUICE_ASSIGN_OR_RETURN(const Tensor x, a.Read(name));
  SLUICE_ASSIGN_OR_RETURN(const Tensor y, b.Read(name));
  if (x.Identical(y)) return std::string();
  int64_t differ = 0;
  double largest = 0;
  if (x.dtype() == DType::kString) {
    for (int64_t i = 0; i < x.num_elements(); ++i)
      differ += x.data<std::string>()[i] != y.data<std::string>()[i] ? 1 : 0;
    return Counted(differ, "string") + " differ";
  }
  const size_t size = DTypeSize(x.dtype());
  WithNumberType(x.dtype(), [&]<typename T>(T) {
    const char *p = x.raw<char>(), *q = y.raw<char>();
    for (int64_t i = 0; i < x.num_elements(); ++i, p += size, q += size) {
      if (std::memcmp(p, q, size) == 0) continue;
      ++differ;
      for (size_t part = 0; part < size; part += sizeof(T)) {
        const double d = ElementDistance(Load<T>(p + part), Load<T>(q + part));
        if (std::isfinite(d)) largest = std::max(largest, d);
      }
    }
  });
  return absl::StrFormat("%d of %d differ, by up to %g", differ,
                         x.num_elements(), largest);
}

}  // namespace

int CompareCheckpoints(const std::string& first, const std::string& second) {
  const Result<CheckpointReader> a = CheckpointReader::Open(first);
  if (!a.ok()) return Fail(kRunFailed, a.status());
  const Result<CheckpointReader> b = CheckpointReader::Open(second);
  if (!b.ok()) return Fail(kRunFailed, b.status());
  int64_t same = 0, other = 0;
  for (const auto& [name, tensor] : a->tensors()) {
    const auto it = b->tensors().find(name);
    std::string line;
    if (it == b->tensors().end()) {
      line = "only in " + first;
    } else if (it->second.dtype != tensor.dtype ||
               !(it->second.shape == tensor.shape)) {
      line = TypeAndShape(tensor) + " and " + TypeAndShape(it->second);
    } else {
      const Result<std::string> text = Differing(*a, *b, name);
      if (!text.ok()) return Fail(kRunFailed, text.status());
      line = *text;
    }
    ++(line.empty() ? same : other);
    if (!line.empty()) std::printf("%s: %s\n", name.c_str(), line.c_str());
  }
  for (const auto& [name, tensor] : b->tensors())
    if (!a->Has(name)) {
      std::printf("%s: only in %s\n", name.c_str(), second.c_str());
      ++other;
    }
  std::printf("%s the same, %lld not\n", Counted(same, "tensor").c_str(),
              static_cast<long long>(other));
  return 0;
}

namespace {

// A folder stands for its latest checkpoint, unless a checkpoint has the same
// path.
Result<std::string> CheckpointAt(const std::string& path) {
  const Result<std::string> latest = LatestCheckpoint(path);
  std::error_code ignored;
  if (latest.ok() ||
      (std::filesystem::is_directory(path, ignored) && !CheckpointExists(path)))
    return latest;
  // "model.index" and its data files stand for "model".
  for (const char* const ending : {".index", ".data-"}) {
    const size_t at = path.rfind(ending);
    if (at != path.npos && CheckpointExists(path.substr(0, at)))
      return path.substr(0, at);
  }
  return path;
}

}  // namespace

void AddInspect(CLI::App& app, std::function<int()>* run) {
  struct Options {
    std::string first, second;
  };
  auto o = std::make_shared<Options>();
  CLI::App* sub = app.add_subcommand(
      "inspect",
      "List what is in a checkpoint, a saved model or event files; or compare "
      "two checkpoints or saved models");
  sub->add_option("PATH", o->first,
                  "Path of a checkpoint, a saved model, an event file, or a "
                  "folder (its latest checkpoint, or its event files)")
      ->required();
  sub->add_option("OTHER", o->second, "List what differs from this one");
  sub->callback([o, run] {
    *run = [o] {
      const bool model = IsSavedModel(o->first);
      if (!o->second.empty() && model != IsSavedModel(o->second)) {
        const std::string& other = model ? o->second : o->first;
        const Result<std::string> at = CheckpointAt(other);
        if (!at.ok()) return Fail(kRunFailed, at.status());
        if (!CheckpointExists(*at))
          return Fail(kRunFailed,
                      NotFound("inspect: expected a saved model or a "
                               "checkpoint at '",
                               other, "', got neither"));
        return Fail(kUsage,
                    absl::StrCat("inspect: expected two checkpoints or two "
                                 "saved models, got one of each"));
      }
      if (model)
        return o->second.empty() ? InspectSavedModel(o->first)
                                 : CompareSavedModels(o->first, o->second);
      const Result<std::string> first = CheckpointAt(o->first);
      // (A file is one of events by its name, even if it holds too little to
      // tell.)
      std::error_code ignored;
      if (HasEvents(o->first) &&
          (!first.ok() || !CheckpointExists(*first) ||
           std::filesystem::is_regular_file(o->first, ignored)))
        return o->second.empty()
                   ? InspectEvents(o->first)
                   : Fail(kUsage,
                          "inspect: expected two checkpoints or two saved "
                          "models, got event files");
      if (!first.ok()) return Fail(kRunFailed, first.status());
      if (o->second.empty()) return InspectCheckpoint(*first);
      const Result<std::string> second = CheckpointAt(o->second);
      if (!second.ok()) return Fail(kRunFailed, second.status());
      return CompareCheckpoints(*first, *second);
    };
  });
}

}  // namespace sluice::cli
