#include "tools/sluice/graph_file.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "graph/graphdef.h"
#include "io/file.h"
#include "io/image.h"
#include "tools/sluice/cli.h"

namespace sluice::cli {
namespace {

namespace fs = std::filesystem;

// True if there are no control characters except white space: text in UTF-8 or
// an ASCII-based encoding.
bool LooksLikeText(std::string_view bytes) {
  return !bytes.empty() && std::all_of(bytes.begin(), bytes.end(), [](char c) {
    const auto u = static_cast<unsigned char>(c);
    return (u >= 0x20 && u != 0x7f) || (u >= '\t' && u <= '\r');
  });
}

bool IsBlank(std::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(),
                     [](unsigned char c) { return absl::ascii_isspace(c); });
}

// True if a text begins like a GraphDef, with a comment or one of GraphDef's
// fields, so that a parse error is worth reporting.
bool BeginsLikeGraphDef(std::string_view text) {
  for (absl::string_view line :
       absl::StrSplit(absl::string_view(text.data(), text.size()), '\n')) {
    line = absl::StripLeadingAsciiWhitespace(line);
    if (line.empty() || line[0] == '#') continue;
    for (const absl::string_view field :
         {"node", "versions", "version", "library"})
      if (absl::ConsumePrefix(&line, field)) {
        line = absl::StripLeadingAsciiWhitespace(line);
        return line.empty() || line[0] == '{' || line[0] == ':' ||
               line[0] == '<';
      }
    return false;
  }
  return false;
}

// The first non-empty line, to help recognize a file.
std::string FirstLine(std::string_view text) {
  for (absl::string_view line :
       absl::StrSplit(absl::string_view(text.data(), text.size()), '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (line.empty()) continue;
    size_t end = std::min<size_t>(line.size(), 40);
    // (Not within a character.)
    while (end < line.size() && end > 0 &&
           (static_cast<unsigned char>(line[end]) & 0xc0) == 0x80)
      --end;
    return absl::StrCat("'", line.substr(0, end),
                        end < line.size() ? "...'" : "'");
  }
  return "''";
}

// The fields of a protocol buffer, and where it becomes invalid.
struct Fields {
  // Bit masks of the wire types that occur in fields 1 to 15.
  uint8_t wire_types[16] = {};
  int nodes = 0;           // Complete fields 1.
  uint64_t last = 0;       // The number of the last field.
  bool cut = false;        // The last field is truncated.
  bool malformed = false;  // The rest is not a field.

  bool Only(int field, int wire_type) const {
    return wire_types[field] == 1 << wire_type;
  }
};

bool Varint(std::string_view* in, uint64_t* value) {
  *value = 0;
  for (int shift = 0; shift < 64 && !in->empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(in->front());
    in->remove_prefix(1);
    *value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

Fields ScanFields(std::string_view in) {
  Fields f;
  while (!in.empty()) {
    uint64_t tag = 0, length = 0;
    if (!Varint(&in, &tag)) {
      (in.empty() ? f.cut : f.malformed) = true;
      return f;
    }
    const uint64_t field = tag >> 3, type = tag & 7;
    if (field == 0 || field > 15 || (type != 0 && type != 2)) {
      f.malformed = true;  // (GraphDef and related messages have no others.)
      return f;
    }
    f.last = field;
    if (!Varint(&in, &length)) {
      (in.empty() ? f.cut : f.malformed) = true;
      return f;
    }
    f.wire_types[field] |= static_cast<uint8_t>(1 << type);
    if (type == 2) {
      if (length > in.size()) {
        f.cut = true;
        return f;
      }
      in.remove_prefix(static_cast<size_t>(length));
      f.nodes += field == 1;
    }
  }
  return f;
}

// A node begins with its name (field 1), which is text.
bool BeginsWithNode(std::string_view bytes) {
  uint64_t tag = 0, length = 0, name_tag = 0, name = 0;
  return Varint(&bytes, &tag) && tag == (1 << 3 | 2) &&
         Varint(&bytes, &length) && Varint(&bytes, &name_tag) &&
         name_tag == (1 << 3 | 2) && Varint(&bytes, &name) && name > 0 &&
         name <= length &&
         LooksLikeText(bytes.substr(
             0, static_cast<size_t>(std::min<uint64_t>(name, 64))));
}

// Names a message that resembles a GraphDef but is not one; else "". (Field 1
// is a GraphDef's nodes, a SavedModel's version and a MetaGraphDef's facts; 2
// is a GraphDef's functions, a SavedModel's MetaGraphDefs and a MetaGraphDef's
// graph.)
std::string KinOfGraphDef(std::string_view bytes) {
  const Fields f = ScanFields(bytes);
  const bool node = BeginsWithNode(bytes);
  if (f.cut && node)
    return absl::StrCat(
        "a truncated one: ", bytes.size(), " bytes, which end within ",
        f.last == 1 ? absl::StrCat("node ", f.nodes + 1, " (counted from 1)")
                    : absl::StrCat("field ", f.last, ", after ",
                                   Counted(f.nodes, "node")));
  if (f.cut || f.malformed || !f.Only(2, 2)) return "";
  if (f.Only(1, 0))
    return "a SavedModel (TensorFlow writes a single graph with "
           "tf.io.write_graph)";
  if (f.nodes == 1 && !node) return "a MetaGraphDef (as .meta files hold)";
  return "";
}

Status NoGraphDef(const std::string& path, const std::string& what) {
  return InvalidArgument(path, ": expected a GraphDef, binary or text, got ",
                         what);
}

}  // namespace

bool IsTextFile(const std::string& path) {
  return path.ends_with(".pbtxt") || path.ends_with(".txt");
}

std::string WhyNoGraphFile(const std::string& path) {
  std::error_code error;
  const fs::path p(path);
  if (!fs::exists(p, error))
    return absl::StrCat("expected a file with a GraphDef, got '", path,
                        "', which does not exist");
  if (!fs::is_directory(p, error)) return "";
  std::string what = "a folder";
  for (const char* model : {"saved_model.pb", "saved_model.pbtxt"})
    if (fs::exists(p / model, error))
      what =
          "the folder of a SavedModel (TensorFlow writes a single graph with "
          "tf.io.write_graph)";
  if (fs::exists(p / "meta.json", error) && fs::exists(p / "graph.pb", error))
    what = absl::StrCat("the folder of a recorded case (its graph is ",
                        (p / "graph.pb").string(), ")");
  return absl::StrCat("expected a file with a GraphDef, got '", path, "', ",
                      what);
}

std::string DescribeNoGraphDef(std::string_view bytes) {
  if (bytes.empty()) return "an empty file";
  if (IsBlank(bytes)) return "a file of white space";
  if (bytes.starts_with("\x93NUMPY")) return "a .npy array";
  if (bytes.starts_with("PK\3\4")) return "a zip archive (as .npz and .keras)";
  if (bytes.starts_with("\x1f\x8b")) return "a gzip file: unpack it first";
  if (bytes.starts_with("\x89HDF")) return "an HDF5 file";
  if (bytes.starts_with("\x7f"
                        "ELF"))
    return "a program (ELF)";
  if (bytes.size() >= 8 && bytes.substr(4, 4) == "TFL3")
    return "a TensorFlow Lite model";
  if (const std::string_view image = ImageFormat(bytes); !image.empty())
    return absl::StrCat("an image (", std::string(image), ")");
  if (LooksLikeText(bytes))
    return absl::StrCat("a text file of another kind, which begins ",
                        FirstLine(bytes));
  if (std::string kin = KinOfGraphDef(bytes); !kin.empty()) return kin;
  return absl::StrCat(bytes.size(), " bytes of another format");
}

Result<std::string> ReadGraphDefFile(const std::string& path) {
  if (const std::string why = WhyNoGraphFile(path); !why.empty())
    return InvalidArgument(why);
  SLUICE_ASSIGN_OR_RETURN(std::string bytes, ReadFile(path));
  if (IsBlank(bytes)) return NoGraphDef(path, DescribeNoGraphDef(bytes));
  const bool text = LooksLikeText(bytes);
  if (!text) {
    // (Another message may parse as an unusual GraphDef.)
    if (std::string kin = KinOfGraphDef(bytes); !kin.empty())
      return NoGraphDef(path, kin);
    if (!IsTextFile(path)) return bytes;
  }
  Result<std::string> binary = ParseTextGraphDef(bytes);
  if (binary.ok()) return binary;
  if (!text) return bytes;  // A binary file with a text file's name.
  if (BeginsLikeGraphDef(bytes)) return Annotate(binary.status(), path);
  return NoGraphDef(path, DescribeNoGraphDef(bytes));
}

Status ImportGraphDefFile(const std::string& path, Graph& g) {
  SLUICE_ASSIGN_OR_RETURN(const std::string bytes, ReadGraphDefFile(path));
  const int before = g.num_nodes();
  const Status s = ImportGraphDef(bytes, g);
  if (s.ok() && g.num_nodes() == before)
    return InvalidArgument(path,
                           ": expected a GraphDef with nodes, got one without");
  // Bytes that do not begin with a node are not a GraphDef, or one without
  // nodes.
  if (!s.ok() && g.num_nodes() == 0 && !BeginsWithNode(bytes))
    return NoGraphDef(path, DescribeNoGraphDef(bytes));
  return Annotate(s, path);
}

}  // namespace sluice::cli
