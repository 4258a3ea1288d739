#include "tools/sluice/feed_value.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "io/file.h"
#include "io/image.h"
#include "io/npy.h"

namespace sluice::cli {
namespace {

using Json = nlohmann::json;

// Quotes text for a one-line message.
std::string InQuotes(const std::string& text) {
  return absl::StrCat(
      "'", text.size() <= 60 ? text : text.substr(0, 57) + "...", "'");
}

// ---- Numbers ----------------------------------------------------------------

// Holds every value of every real type without rounding.
struct Number {
  enum Kind { kInt, kUint, kReal } kind = kInt;
  int64_t i = 0;
  uint64_t u = 0;  // Above int64's range.
  double real = 0;
};

Number Int(int64_t v) { return {.kind = Number::kInt, .i = v}; }
Number Uint(uint64_t v) {
  return v <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max())
             ? Int(static_cast<int64_t>(v))
             : Number{.kind = Number::kUint, .u = v};
}
Number Real(double v) { return {.kind = Number::kReal, .real = v}; }

double AsDouble(const Number& n) {
  switch (n.kind) {
    case Number::kInt:
      return static_cast<double>(n.i);
    case Number::kUint:
      return static_cast<double>(n.u);
    default:
      return n.real;
  }
}

template <typename T>
bool StoreInteger(const Number& n, void* out) {
  T value;
  if (n.kind == Number::kReal) {
    // 2^digits is the first value beyond the type, and a double.
    const double end = std::ldexp(1.0, std::numeric_limits<T>::digits);
    const double begin = std::is_signed_v<T> ? -end : 0;
    if (!(n.real >= begin && n.real < end) || n.real != std::trunc(n.real))
      return false;
    value = static_cast<T>(n.real);
  } else if (n.kind == Number::kInt ? !std::in_range<T>(n.i)
                                    : !std::in_range<T>(n.u)) {
    return false;
  } else {
    value = n.kind == Number::kInt ? static_cast<T>(n.i) : static_cast<T>(n.u);
  }
  *static_cast<T*>(out) = value;
  return true;
}

// Infinite only if the number is.
template <typename T>
bool StoreReal(double v, void* out) {
  T value;
  if constexpr (std::is_same_v<T, double>) {
    value = v;
  } else {
    const auto narrow = static_cast<float>(v);
    value = static_cast<T>(narrow);
    if (std::isinf(static_cast<float>(value)) && !std::isinf(v)) return false;
  }
  *static_cast<T*>(out) = value;
  return true;
}

// Stores an element of the type at `out`; false if it does not fit.
bool Store(const Number& n, DType to, void* out) {
  switch (to) {
    case DType::kInt8:
    case DType::kQint8:
      return StoreInteger<int8_t>(n, out);
    case DType::kInt16:
    case DType::kQint16:
      return StoreInteger<int16_t>(n, out);
    case DType::kInt32:
    case DType::kQint32:
      return StoreInteger<int32_t>(n, out);
    case DType::kInt64:
      return StoreInteger<int64_t>(n, out);
    case DType::kUint8:
    case DType::kQuint8:
      return StoreInteger<uint8_t>(n, out);
    case DType::kUint16:
    case DType::kQuint16:
      return StoreInteger<uint16_t>(n, out);
    case DType::kUint32:
      return StoreInteger<uint32_t>(n, out);
    case DType::kUint64:
      return StoreInteger<uint64_t>(n, out);
    case DType::kHalf:
      return StoreReal<half>(AsDouble(n), out);
    case DType::kBfloat16:
      return StoreReal<bfloat16>(AsDouble(n), out);
    case DType::kFloat:
      return StoreReal<float>(AsDouble(n), out);
    case DType::kDouble:
      return StoreReal<double>(AsDouble(n), out);
    default:
      return false;
  }
}

bool StoreComplex(double re, double im, DType to, void* out) {
  const DType part = to == DType::kComplex64 ? DType::kFloat : DType::kDouble;
  return Store(Real(re), part, out) &&
         Store(Real(im), part, static_cast<char*>(out) + DTypeSize(part));
}

std::optional<Number> ParseNumber(absl::string_view text) {
  int64_t i;
  uint64_t u;
  double real;
  if (absl::SimpleAtoi(text, &i)) return Int(i);
  if (absl::SimpleAtoi(text, &u)) return Uint(u);
  // (A finite number that overflows a double becomes infinite.)
  if (!absl::SimpleAtod(text, &real) ||
      (std::isinf(real) &&
       text.find_first_of("0123456789") != absl::string_view::npos))
    return std::nullopt;
  return Real(real);
}

// "1", "2j", "1+2j", "1e3-2.5e-1j", and "(1,2)", as tensors are printed.
bool ParseComplex(absl::string_view text, double* re, double* im) {
  *re = *im = 0;
  if (const size_t comma = text.find(','); comma != absl::string_view::npos &&
                                           text.front() == '(' &&
                                           text.back() == ')') {
    const auto real = ParseNumber(text.substr(1, comma - 1));
    const auto imaginary =
        ParseNumber(text.substr(comma + 1, text.size() - comma - 2));
    if (!real || !imaginary) return false;
    *re = AsDouble(*real);
    *im = AsDouble(*imaginary);
    return true;
  }
  if (!absl::EndsWithIgnoreCase(text, "j")) {
    const auto n = ParseNumber(text);
    if (n) *re = AsDouble(*n);
    return n.has_value();
  }
  text.remove_suffix(1);
  size_t split = text.size();
  while (--split > 0 && split < text.size())
    if ((text[split] == '+' || text[split] == '-') &&
        absl::ascii_tolower(static_cast<unsigned char>(text[split - 1])) != 'e')
      break;
  if (split >= text.size()) split = 0;
  const auto imaginary = ParseNumber(text.substr(split));
  const auto real = split == 0 ? Int(0) : ParseNumber(text.substr(0, split));
  if (!imaginary || !real) return false;
  *re = AsDouble(*real);
  *im = AsDouble(*imaginary);
  return true;
}

// ---- Literals ---------------------------------------------------------------

// The key of a value written without quotes.
constexpr char kBare[] = "bare";

// Parses lists and strings as JSON, and any other text between their delimiters
// as an object with that text, because JSON has no nan, True or 1+2j, and would
// round exact numbers.
std::optional<Json> ParseLists(const std::string& text) {
  std::string json, bare;
  const auto flush = [&] {
    if (!bare.empty())
      json += Json{{kBare, bare}}.dump(-1, ' ', false,
                                       Json::error_handler_t::replace);
    bare.clear();
  };
  bool in_parentheses = false;  // (Of a complex number; they do not nest.)
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    in_parentheses = c == '(' || (in_parentheses && c != ')');
    if (in_parentheses) {
      bare += c;
    } else if (c == '"') {
      flush();
      const size_t begin = i++;
      while (i < text.size() && text[i] != '"') i += text[i] == '\\' ? 2 : 1;
      json += text.substr(begin, i + 1 - begin);
    } else if (c == '[' || c == ']' || c == ',' ||
               absl::ascii_isspace(static_cast<unsigned char>(c))) {
      flush();
      json += c;
    } else {
      bare += c;
    }
  }
  flush();
  Json parsed = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (parsed.is_discarded()) return std::nullopt;
  return parsed;
}

// Fills a tensor from the lists of one literal.
class Literal {
 public:
  Literal(DType dtype, const Json& value) : dtype_(dtype), value_(value) {}

  // Errors begin with "expected ..., got ...".
  Result<Tensor> Read() {
    Dims dims;
    for (const Json* at = &value_; at->is_array(); at = &(*at)[0]) {
      dims.push_back(static_cast<int64_t>(at->size()));
      if (dims.size() > kMaxRank)
        return InvalidArgument("expected lists nested at most ", kMaxRank,
                               " deep, got deeper ones");
      if (at->empty()) break;
    }
    SLUICE_ASSIGN_OR_RETURN(const Shape shape,
                            Shape::Make({dims.data(), dims.size()}));
    SLUICE_ASSIGN_OR_RETURN(tensor_, Tensor::Make(dtype_, shape));
    SLUICE_RETURN_IF_ERROR(Fill(value_, 0, ""));
    return std::move(tensor_);
  }

 private:
  Status Fill(const Json& at, int depth, const std::string& place) {
    const std::string where = place.empty() ? "" : " at " + place;
    if (depth == tensor_.rank()) {
      if (at.is_array())
        return InvalidArgument(
            "expected a value as elsewhere in the list, "
            "got a list",
            where);
      return Element(at, where);
    }
    if (!at.is_array())
      return InvalidArgument("expected a list as elsewhere at this depth, got ",
                             Shown(at), where);
    if (static_cast<int64_t>(at.size()) != tensor_.dim(depth))
      return InvalidArgument("expected lists of one length, got ",
                             tensor_.dim(depth), " and ", at.size(),
                             " elements", where);
    for (size_t i = 0; i < at.size(); ++i)
      SLUICE_RETURN_IF_ERROR(
          Fill(at[i], depth + 1, absl::StrCat(place, "[", i, "]")));
    return OkStatus();
  }

  static std::string Shown(const Json& at) {
    return InQuotes(at.is_object() ? at[kBare].get<std::string>() : at.dump());
  }

  Status Element(const Json& at, const std::string& where) {
    const int64_t i = next_++;
    if (dtype_ == DType::kString) {
      tensor_.data<std::string>()[i] =
          at.is_string() ? at.get<std::string>() : at[kBare].get<std::string>();
      return OkStatus();
    }
    const std::string text = at.is_object() ? at[kBare].get<std::string>() : "";
    void* const out = static_cast<char*>(tensor_.raw()) +
                      static_cast<size_t>(i) * DTypeSize(dtype_);
    bool good = false;
    if (dtype_ == DType::kBool) {
      const std::string word = absl::AsciiStrToLower(text);
      good = word == "true" || word == "false";
      *static_cast<bool*>(out) = word == "true";
    } else if (IsComplex(dtype_)) {
      double re, im;
      good = ParseComplex(text, &re, &im) && StoreComplex(re, im, dtype_, out);
    } else if (const auto n = ParseNumber(text)) {
      good = Store(*n, dtype_, out);
    }
    if (good) return OkStatus();
    return InvalidArgument("expected ",
                           dtype_ == DType::kBool
                               ? "true or false"
                               : "a value of " + DTypeName(dtype_),
                           ", got ", Shown(at), where);
  }

  const DType dtype_;
  const Json& value_;
  Tensor tensor_;
  int64_t next_ = 0;
};

Result<Tensor> ReadLiteral(DType dtype, const std::string& text) {
  // A string needs no quotes if it cannot be mistaken for a list.
  if (dtype == DType::kString && !text.starts_with('[') &&
      !text.starts_with('"'))
    return Tensor::Scalar<std::string>(text);
  const auto value = ParseLists(text);
  if (!value)
    return InvalidArgument(
        "expected a value, lists of values ([[1, 2], [3, 4]]) or a file "
        "(.npy, an image, or @FILE), got ",
        InQuotes(text));
  return Literal(dtype, *value).Read();
}

// ---- Files ------------------------------------------------------------------

// Element `i` of a tensor of real numbers.
std::optional<Number> NumberAt(const Tensor& t, int64_t i) {
  switch (t.dtype()) {
    case DType::kInt8:
      return Int(t.data<int8_t>()[i]);
    case DType::kInt16:
      return Int(t.data<int16_t>()[i]);
    case DType::kInt32:
      return Int(t.data<int32_t>()[i]);
    case DType::kInt64:
      return Int(t.data<int64_t>()[i]);
    case DType::kUint8:
      return Int(t.data<uint8_t>()[i]);
    case DType::kUint16:
      return Int(t.data<uint16_t>()[i]);
    case DType::kUint32:
      return Int(t.data<uint32_t>()[i]);
    case DType::kUint64:
      return Uint(t.data<uint64_t>()[i]);
    case DType::kHalf:
      return Real(static_cast<float>(t.data<half>()[i]));
    case DType::kBfloat16:
      return Real(static_cast<float>(t.data<bfloat16>()[i]));
    case DType::kFloat:
      return Real(static_cast<double>(t.data<float>()[i]));
    case DType::kDouble:
      return Real(t.data<double>()[i]);
    default:
      return std::nullopt;
  }
}

std::string TextOfElement(const Tensor& t, int64_t i) {
  const Result<Tensor> flat = t.Reshaped(Shape({t.num_elements()}));
  return flat.ok() ? flat->Rows(i, i + 1).Summarize(1) : "";
}

Result<Tensor> Convert(const Tensor& t, DType to) {
  if (t.dtype() == to) return t;
  if (IsQuantized(to) && IsInteger(t.dtype()) &&
      DTypeSize(to) == DTypeSize(t.dtype()))
    return t.BitcastTo(to);
  const bool numbers = IsInteger(t.dtype()) || IsFloating(t.dtype());
  const bool possible = IsComplex(to)
                            ? numbers || IsComplex(t.dtype())
                            : numbers && (IsInteger(to) || IsFloating(to));
  if (!possible)
    return InvalidArgument("expected values of ", DTypeName(to), ", got ",
                           DTypeName(t.dtype()), t.shape().ToString());
  SLUICE_ASSIGN_OR_RETURN(Tensor out, Tensor::Make(to, t.shape()));
  auto* at = static_cast<char*>(out.raw());
  for (int64_t i = 0; i < t.num_elements(); ++i, at += DTypeSize(to)) {
    bool good;
    if (t.dtype() == DType::kComplex64)
      good = StoreComplex(t.data<complex64>()[i].real(),
                          t.data<complex64>()[i].imag(), to, at);
    else if (t.dtype() == DType::kComplex128)
      good = StoreComplex(t.data<complex128>()[i].real(),
                          t.data<complex128>()[i].imag(), to, at);
    else if (IsComplex(to))
      good = StoreComplex(AsDouble(*NumberAt(t, i)), 0, to, at);
    else
      good = Store(*NumberAt(t, i), to, at);
    if (!good)
      return InvalidArgument("expected values of ", DTypeName(to), ", got ",
                             TextOfElement(t, i), " (", DTypeName(t.dtype()),
                             ", element ", i, ")");
  }
  return out;
}

// Grey for [height, width], a batch of one image for rank 4, and as many
// channels as the last dimension.
Result<Tensor> ImageForShape(const std::string& bytes,
                             const PartialShape& shape) {
  const int rank = shape.rank();
  if (shape.rank_known() && (rank < 2 || rank > 4))
    return InvalidArgument(
        "expected an edge of [height, width], [height, width, channels] or "
        "[batch, height, width, channels] for an image, got one of ",
        shape.ToString());
  ImageOptions options;
  if (rank == 2) options.channels = 1;
  if (rank >= 3 && shape.dim(rank - 1) >= 0) {
    const int64_t channels = shape.dim(rank - 1);
    if (channels < 1 || channels > 4)
      return InvalidArgument(
          "expected an edge whose last dimension is 1 to 4 channels for an "
          "image, got one of ",
          shape.ToString());
    options.channels = static_cast<int>(channels);
  }
  SLUICE_ASSIGN_OR_RETURN(const Tensor image, DecodeImage(bytes, options));
  if (rank == 2) return image.Reshaped(Shape({image.dim(0), image.dim(1)}));
  if (rank == 4)
    return image.Reshaped(Shape({1, image.dim(0), image.dim(1), image.dim(2)}));
  return image;
}

Result<Tensor> ReadImageFeed(const Output& to, const std::string& bytes,
                             const FeedOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(const Tensor image, ImageForShape(bytes, to.shape()));
  const DType dtype = RemoveRef(to.dtype());
  if (!options.image_range) return Convert(image, dtype);
  if (!IsFloating(dtype))
    return InvalidArgument(
        "expected a floating edge for --image-range, got one of ",
        DTypeName(dtype));
  const auto [low, high] = *options.image_range;
  SLUICE_ASSIGN_OR_RETURN(Tensor scaled,
                          Tensor::Make(DType::kDouble, image.shape()));
  for (int64_t i = 0; i < image.num_elements(); ++i)
    scaled.data<double>()[i] =
        low + (high - low) * image.data<uint8_t>()[i] / 255;
  return Convert(scaled, dtype);
}

Result<Tensor> ReadFileFeed(const Output& to, const std::string& path,
                            const FeedOptions& options) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    return InvalidArgument("expected a file, got the folder ", InQuotes(path));
  SLUICE_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
  const DType dtype = RemoveRef(to.dtype());
  const auto read = [&]() -> Result<Tensor> {
    if (bytes.starts_with("\x93NUMPY")) {
      SLUICE_ASSIGN_OR_RETURN(const Tensor t, ParseNpy(bytes));
      return Convert(t, dtype);
    }
    if (dtype == DType::kString) return Tensor::Scalar<std::string>(bytes);
    if (!ImageFormat(bytes).empty()) return ReadImageFeed(to, bytes, options);
    if (bytes.starts_with("PK\3\4"))
      return InvalidArgument(
          "expected one array (.npy) or an image, got an archive (.npz holds "
          "several arrays)");
    return InvalidArgument(
        "expected a .npy file, a PNG, JPEG, GIF or BMP, got ",
        bytes.empty() ? "an empty file"
                      : absl::StrCat(bytes.size(), " bytes of another format"));
  };
  Result<Tensor> t = read();
  if (!t.ok()) return Annotate(t.status(), absl::StrCat("'", path, "'"));
  return t;
}

// The name of the file; nullopt for a literal.
std::optional<std::string> FileOf(const std::string& text) {
  if (text.starts_with('@')) return text.substr(1);
  if (text.starts_with('[') || text.starts_with('"')) return std::nullopt;
  for (const char* ending : {".npy", ".npz", ".png", ".jpg", ".jpeg", ".gif",
                             ".bmp", ".webp", ".tif", ".tiff"})
    if (absl::EndsWithIgnoreCase(text, ending)) return text;
  return std::nullopt;
}

Status CheckShape(const Output& to, const Tensor& t,
                  const FeedOptions& options) {
  PartialShape want = to.shape();
  // (Scalars are shared by all examples.)
  if (options.examples && t.rank() == 0) return OkStatus();
  if (options.examples && want.rank() > 0) want.set_dim(0, -1);
  if (want.CompatibleWith(t.shape())) return OkStatus();
  return InvalidArgument("expected shape ", want.ToString(), ", got ",
                         t.shape().ToString());
}

}  // namespace

Result<Tensor> ReadFeedValue(const Output& to, const std::string& text,
                             const FeedOptions& options) {
  const DType dtype = RemoveRef(to.dtype());
  const auto read = [&]() -> Result<Tensor> {
    if (dtype == DType::kResource || dtype == DType::kVariant)
      return InvalidArgument(
          "expected an edge of numbers, booleans or "
          "strings, got one of ",
          DTypeName(dtype));
    const std::optional<std::string> file = FileOf(text);
    Result<Tensor> t =
        file ? ReadFileFeed(to, *file, options) : ReadLiteral(dtype, text);
    if (!t.ok()) {
      std::error_code ignored;
      if (!file && std::filesystem::exists(text, ignored))
        return Status(t.status().code(),
                      absl::StrCat(t.status().message(),
                                   "; the file of that name is @", text));
      return t;
    }
    SLUICE_RETURN_IF_ERROR(CheckShape(to, *t, options));
    return t;
  };
  Result<Tensor> t = read();
  if (t.ok()) return t;
  return Status(
      t.status().code(),
      absl::StrCat("--feed ", to.name(), " (", DTypeName(dtype),
                   to.shape().rank_known() ? to.shape().ToString() : "",
                   "): ", t.status().message(), "; ", to.node->Describe()));
}

}  // namespace sluice::cli
