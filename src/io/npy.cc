#include "io/npy.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

#include "io/file.h"

static_assert(std::endian::native == std::endian::little);

namespace sluice {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

// The element type of an array, from its "descr".
struct Descr {
  char order;       // '<', '>', '|' or '='.
  char kind;        // 'f', 'i', ...
  size_t size = 0;  // Bytes per element (characters of U).
};

struct Header {
  Descr descr;
  bool fortran_order = false;
  Dims dims;
  size_t data_offset = 0;
};

Status Bad(std::string_view what) {
  return InvalidArgument("npy: expected ", std::string(what));
}

// Parses the Python literal of the header: {'descr': '<f4', 'fortran_order':
// False, 'shape': (2, 3), }.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : rest_(text) {}

  Result<Header> Parse() {
    Header h;
    if (!Take('{')) return Bad("a header that is a Python dictionary");
    bool descr = false, order = false, shape = false;
    while (!Take('}')) {
      SLUICE_ASSIGN_OR_RETURN(const std::string key, String());
      if (!Take(':')) return Bad("':' after a key of the header");
      if (key == "descr" && !descr) {
        SLUICE_ASSIGN_OR_RETURN(h.descr, ReadDescr());
        descr = true;
      } else if (key == "fortran_order" && !order) {
        SLUICE_ASSIGN_OR_RETURN(h.fortran_order, Bool());
        order = true;
      } else if (key == "shape" && !shape) {
        SLUICE_ASSIGN_OR_RETURN(h.dims, Tuple());
        shape = true;
      } else {
        return Bad("the keys descr, fortran_order and shape once each");
      }
      if (!Take(',') && !Peek('}'))
        return Bad("',' between keys of the header");
    }
    if (!descr || !order || !shape)
      return Bad("the keys descr, fortran_order and shape in the header");
    SkipSpace();
    if (!rest_.empty()) return Bad("nothing after the header's dictionary");
    return h;
  }

 private:
  void SkipSpace() {
    const size_t n = rest_.find_first_not_of(" \t\r\n");
    rest_.remove_prefix(n == std::string_view::npos ? rest_.size() : n);
  }
  bool Peek(char c) {
    SkipSpace();
    return !rest_.empty() && rest_[0] == c;
  }
  bool Take(char c) {
    if (!Peek(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  Result<std::string> String() {
    SkipSpace();
    if (rest_.empty() || (rest_[0] != '\'' && rest_[0] != '"'))
      return Bad("a quoted string in the header (a record type is none)");
    const size_t end = rest_.find(rest_[0], 1);
    if (end == std::string_view::npos) return Bad("a closing quote");
    std::string s(rest_.substr(1, end - 1));
    rest_.remove_prefix(end + 1);
    return s;
  }
  Result<bool> Bool() {
    SkipSpace();
    for (const bool value : {false, true}) {
      const std::string_view word = value ? "True" : "False";
      if (!rest_.starts_with(word)) continue;
      rest_.remove_prefix(word.size());
      return value;
    }
    return Bad("True or False for fortran_order");
  }
  Result<int64_t> Int() {
    SkipSpace();
    int64_t v = 0;
    size_t digits = 0;
    while (digits < rest_.size() && rest_[digits] >= '0' &&
           rest_[digits] <= '9') {
      if (__builtin_mul_overflow(v, 10, &v) ||
          __builtin_add_overflow(v, rest_[digits] - '0', &v))
        return Bad("a number that fits in an int64");
      ++digits;
    }
    if (digits == 0) return Bad("a number of at least 0");
    rest_.remove_prefix(digits);
    if (!rest_.empty() && rest_[0] == 'L') rest_.remove_prefix(1);  // Python 2.
    return v;
  }
  Result<Dims> Tuple() {
    if (!Take('(')) return Bad("a tuple as the shape");
    Dims dims;
    while (!Take(')')) {
      SLUICE_ASSIGN_OR_RETURN(const int64_t d, Int());
      dims.push_back(d);
      if (!Take(',') && !Peek(')')) return Bad("',' between dimensions");
    }
    return dims;
  }
  Result<Descr> ReadDescr() {
    SLUICE_ASSIGN_OR_RETURN(const std::string text, String());
    HeaderParser digits(
        std::string_view(text).substr(std::min<size_t>(text.size(), 2)));
    const Result<int64_t> size = digits.Int();
    if (text.size() < 3 ||
        std::string_view("<>|=").find(text[0]) == std::string_view::npos ||
        !size.ok() || !digits.rest_.empty())
      return Unimplemented("npy: expected a type such as '<f4', got '", text,
                           "'");
    return Descr{text[0], text[1], static_cast<size_t>(*size)};
  }

  std::string_view rest_;
};

std::optional<DType> PlainType(const Descr& d) {
  struct Entry {
    char kind;
    size_t size;
    DType dtype;
  };
  static constexpr Entry kEntries[] = {
      {'b', 1, DType::kBool},      {'i', 1, DType::kInt8},
      {'i', 2, DType::kInt16},     {'i', 4, DType::kInt32},
      {'i', 8, DType::kInt64},     {'u', 1, DType::kUint8},
      {'u', 2, DType::kUint16},    {'u', 4, DType::kUint32},
      {'u', 8, DType::kUint64},    {'f', 2, DType::kHalf},
      {'f', 4, DType::kFloat},     {'f', 8, DType::kDouble},
      {'c', 8, DType::kComplex64}, {'c', 16, DType::kComplex128},
      {'V', 2, DType::kBfloat16},
  };
  for (const Entry& e : kEntries)
    if (e.kind == d.kind && e.size == d.size) return e.dtype;
  return std::nullopt;
}

// The descr of a type's elements; null if NumPy has no such type.
const char* DescrOf(DType t) {
  switch (t) {
    case DType::kBool:
      return "|b1";
    case DType::kInt8:
      return "|i1";
    case DType::kInt16:
      return "<i2";
    case DType::kInt32:
      return "<i4";
    case DType::kInt64:
      return "<i8";
    case DType::kUint8:
      return "|u1";
    case DType::kUint16:
      return "<u2";
    case DType::kUint32:
      return "<u4";
    case DType::kUint64:
      return "<u8";
    case DType::kHalf:
      return "<f2";
    case DType::kFloat:
      return "<f4";
    case DType::kDouble:
      return "<f8";
    case DType::kComplex64:
      return "<c8";
    case DType::kComplex128:
      return "<c16";
    case DType::kBfloat16:
      return "<V2";
    default:
      return nullptr;
  }
}

Result<Header> ReadHeader(std::string_view bytes) {
  if (!bytes.starts_with(kMagic) || bytes.size() < 10)
    return Bad("a file that begins with \\x93NUMPY and a version");
  const int version = static_cast<unsigned char>(bytes[6]);
  if (version < 1 || version > 3)
    return InvalidArgument("npy: expected version 1, 2 or 3, got ", version);
  const size_t prefix = version == 1 ? 10 : 12;
  if (bytes.size() < prefix) return Bad("the length of the header");
  size_t length = 0;
  for (size_t i = prefix; i > 8; --i)
    length = length << 8 | static_cast<unsigned char>(bytes[i - 1]);
  if (length > bytes.size() - prefix)
    return InvalidArgument("npy: expected a header of ", length, " bytes, got ",
                           bytes.size() - prefix);
  SLUICE_ASSIGN_OR_RETURN(Header h,
                          HeaderParser(bytes.substr(prefix, length)).Parse());
  h.data_offset = prefix + length;
  return h;
}

// Calls fn(position in C order, position in the file) for each element in C
// order.
template <typename Fn>
void ForEachElement(const Shape& shape, bool fortran, const Fn& fn) {
  const int64_t n = shape.num_elements();
  if (!fortran || shape.rank() < 2) {
    for (int64_t i = 0; i < n; ++i) fn(i, i);
    return;
  }
  int64_t index[kMaxRank] = {}, strides[kMaxRank];
  int64_t stride = 1;
  for (int d = 0; d < shape.rank(); ++d) {
    strides[d] = stride;
    stride *= shape.dim(d);
  }
  int64_t at = 0;
  for (int64_t i = 0; i < n; ++i) {
    fn(i, at);
    for (int d = shape.rank() - 1; d >= 0; --d) {
      at += strides[d];
      if (++index[d] < shape.dim(d)) break;
      at -= strides[d] * shape.dim(d);
      index[d] = 0;
    }
  }
}

void AppendUtf8(uint32_t c, std::string* out) {
  auto byte = [out](uint32_t b) { out->push_back(static_cast<char>(b)); };
  if (c < 0x80) {
    byte(c);
  } else if (c < 0x800) {
    byte(0xc0 | c >> 6);
    byte(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    byte(0xe0 | c >> 12);
    byte(0x80 | (c >> 6 & 0x3f));
    byte(0x80 | (c & 0x3f));
  } else {
    byte(0xf0 | c >> 18);
    byte(0x80 | (c >> 12 & 0x3f));
    byte(0x80 | (c >> 6 & 0x3f));
    byte(0x80 | (c & 0x3f));
  }
}

Result<std::string> DecodeUnicode(std::string_view bytes, bool big_endian) {
  std::string out;
  size_t end = bytes.size();
  while (end >= 4 &&
         bytes.substr(end - 4, 4) == std::string_view("\0\0\0\0", 4))
    end -= 4;
  for (size_t i = 0; i < end; i += 4) {
    uint32_t c;
    std::memcpy(&c, bytes.data() + i, 4);
    if (big_endian) c = __builtin_bswap32(c);
    if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
      return InvalidArgument("npy: expected Unicode code points, got ", c);
    AppendUtf8(c, &out);
  }
  return out;
}

Result<Tensor> ReadStrings(const Header& h, const Shape& shape,
                           std::string_view data) {
  const bool unicode = h.descr.kind == 'U';
  const size_t size = h.descr.size * (unicode ? 4 : 1);
  SLUICE_ASSIGN_OR_RETURN(Tensor t, Tensor::Make(DType::kString, shape));
  Status status;
  ForEachElement(shape, h.fortran_order, [&](int64_t to, int64_t from) {
    std::string_view s = data.substr(static_cast<size_t>(from) * size, size);
    std::string& out = t.raw<std::string>()[to];
    if (unicode) {
      Result<std::string> decoded = DecodeUnicode(s, h.descr.order == '>');
      if (decoded.ok())
        out = *std::move(decoded);
      else if (status.ok())
        status = decoded.status();
    } else {
      while (!s.empty() && s.back() == '\0') s.remove_suffix(1);
      out = s;
    }
  });
  if (!status.ok()) return status;
  return t;
}

Result<Tensor> ReadPlain(DType dtype, const Header& h, const Shape& shape,
                         std::string_view data) {
  SLUICE_ASSIGN_OR_RETURN(Tensor t, Tensor::Make(dtype, shape));
  const size_t size = h.descr.size;
  auto* out = static_cast<char*>(t.raw());
  if (h.fortran_order && shape.rank() > 1) {
    ForEachElement(shape, true, [&](int64_t to, int64_t from) {
      std::memcpy(out + static_cast<size_t>(to) * size,
                  data.data() + static_cast<size_t>(from) * size, size);
    });
  } else if (!data.empty()) {
    std::memcpy(out, data.data(), data.size());
  }
  if (h.descr.order == '>' && size > 1) {
    const size_t part = IsComplex(dtype) ? size / 2 : size;
    for (size_t i = 0; i < data.size(); i += part)
      std::reverse(out + i, out + i + part);
  }
  if (dtype == DType::kBool)  // Bytes other than 0 and 1 are undefined as bool.
    for (size_t i = 0; i < data.size(); ++i) out[i] = out[i] != 0;
  return t;
}

}  // namespace

Result<Tensor> ParseNpy(std::string_view bytes) {
  SLUICE_ASSIGN_OR_RETURN(const Header h, ReadHeader(bytes));
  SLUICE_ASSIGN_OR_RETURN(const Shape shape,
                          Shape::Make({h.dims.data(), h.dims.size()}));
  const Descr& d = h.descr;
  const std::optional<DType> dtype = PlainType(d);
  const bool string = d.kind == 'S' || d.kind == 'U';
  if (!dtype && !string)
    return Unimplemented(
        "npy: expected a bool, integer, float, complex or "
        "string type, got '",
        std::string({d.order, d.kind}), d.size, "'");
  if (d.size > (size_t{1} << 31))
    return InvalidArgument("npy: expected elements of at most 2 GiB, got ",
                           d.size, " bytes");
  const auto size = static_cast<int64_t>(d.size) * (d.kind == 'U' ? 4 : 1);
  const std::string_view data = bytes.substr(h.data_offset);
  const int64_t want = MultiplyOrNegative(shape.num_elements(), size);
  if (want != static_cast<int64_t>(data.size()))
    return InvalidArgument("npy: expected ", want, " bytes of data for shape ",
                           shape.ToString(), ", got ", data.size());
  // Empty strings take no bytes, so the file size does not limit their number.
  if (string && size == 0 && shape.num_elements() > (1 << 20))
    return InvalidArgument("npy: expected at most 2^20 empty strings, got ",
                           shape.num_elements());
  return string ? ReadStrings(h, shape, data)
                : ReadPlain(*dtype, h, shape, data);
}

Result<std::string> SerializeNpy(const Tensor& tensor) {
  std::string descr, data;
  if (tensor.dtype() == DType::kString) {
    size_t longest = 1;
    for (const std::string& s : tensor.raw_flat<std::string>()) {
      if (!s.empty() && s.back() == '\0')
        return InvalidArgument(
            "npy: expected strings that do not end in NUL, "
            "which numpy drops, got one");
      longest = std::max(longest, s.size());
    }
    descr = absl::StrCat("|S", longest);
    for (const std::string& s : tensor.raw_flat<std::string>())
      data.append(s).append(longest - s.size(), '\0');
  } else if (const char* d = DescrOf(tensor.dtype())) {
    descr = d;
    data.assign(static_cast<const char*>(tensor.raw()), tensor.bytes());
  } else {
    return InvalidArgument("npy: expected a type that numpy has, got ",
                           DTypeName(tensor.dtype()));
  }
  std::string header = absl::StrCat("{'descr': '", descr,
                                    "', 'fortran_order': False, 'shape': (");
  for (int i = 0; i < tensor.rank(); ++i)
    absl::StrAppend(&header, tensor.dim(i),
                    tensor.rank() == 1      ? ","
                    : i + 1 < tensor.rank() ? ", "
                                            : "");
  absl::StrAppend(&header, "), }");
  // Data begins at a multiple of 64.
  header.append(63 - (10 + header.size()) % 64, ' ').append("\n");
  std::string out(kMagic);
  out.append({'\1', '\0', static_cast<char>(header.size() & 0xff),
              static_cast<char>(header.size() >> 8)});
  return out.append(header).append(data);
}

Result<Tensor> ReadNpy(const std::string& path) {
  SLUICE_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
  Result<Tensor> t = ParseNpy(bytes);
  if (!t.ok())
    return Annotate(t.status(), absl::StrCat("reading '", path, "'"));
  return t;
}

Status WriteNpy(const std::string& path, const Tensor& tensor) {
  SLUICE_ASSIGN_OR_RETURN(const std::string bytes, SerializeNpy(tensor));
  return WriteFile(path, bytes);
}

}  // namespace sluice
