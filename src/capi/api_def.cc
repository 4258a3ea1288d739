// API definitions: what bindings call ops and say of them.
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <map>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "capi/handles.h"
#include "graph/graphdef_messages.h"
#include "graph/proto/api_def.pb.h"
#include "graph/proto/meta_graph.pb.h"

// The definitions by op. One thread at a time.
struct TF_ApiDefMap {
  std::map<std::string, sluice::proto::ApiDef, std::less<>> ops;
};

using namespace sluice;        // NOLINT
using namespace sluice::capi;  // NOLINT

namespace {

using proto::ApiDef;

// The definition of an op of which nothing else is said.
ApiDef DefaultOf(const proto::OpDef& op) {
  ApiDef d;
  d.set_graph_op_name(op.name());
  d.set_visibility(ApiDef::VISIBLE);
  d.add_endpoint()->set_name(op.name());
  const auto describe = [](const auto& from, auto* to) {
    to->set_name(from.name());
    to->set_rename_to(from.name());
    to->set_description(from.description());
  };
  for (const auto& in : op.input_arg()) {
    describe(in, d.add_in_arg());
    d.add_arg_order(in.name());
  }
  for (const auto& out : op.output_arg()) describe(out, d.add_out_arg());
  for (const auto& attr : op.attr()) {
    describe(attr, d.add_attr());
    if (attr.has_default_value())
      *d.mutable_attr(d.attr_size() - 1)->mutable_default_value() =
          attr.default_value();
  }
  d.set_summary(op.summary());
  d.set_description(op.description());
  return d;
}

// TensorFlow's text format has multi-line strings, from "<<END" to a line that
// starts with END. Makes them quoted strings.
std::string WithoutMultilines(std::string_view text) {
  std::string out;
  const std::vector<std::string> lines =
      absl::StrSplit(absl::string_view(text.data(), text.size()), '\n');
  for (size_t i = 0; i < lines.size(); ++i) {
    const absl::string_view line = lines[i];
    const size_t colon = line.find(':');
    absl::string_view end =
        colon == line.npos
            ? ""
            : absl::StripLeadingAsciiWhitespace(line.substr(colon + 1));
    if (!absl::ConsumePrefix(&end, "<<") || end.empty()) {
      absl::StrAppend(&out, line, i + 1 < lines.size() ? "\n" : "");
      continue;
    }
    std::vector<std::string> value;
    absl::string_view rest;
    for (++i; i < lines.size(); ++i) {
      rest = lines[i];
      if (absl::ConsumePrefix(&rest, end)) break;
      value.push_back(lines[i]);
    }
    absl::StrAppend(&out, line.substr(0, colon + 1), " \"",
                    absl::CEscape(absl::StrJoin(value, "\n")), "\"",
                    i < lines.size() ? rest : "", "\n");
  }
  return out;
}

// Keeps the first error of a text.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    if (text.empty())
      text = absl::StrCat("line ", line + 1, ", column ", column + 1, ": ",
                          message);
  }
  std::string text;
};

Result<proto::ApiDefs> ParseApiDefs(std::string_view text) {
  constexpr size_t kMaxText = 64 << 20;
  if (text.size() > kMaxText)
    return InvalidArgument("ApiDefs: expected at most ", kMaxText,
                           " bytes, got ", text.size());
  proto::ApiDefs defs;
  google::protobuf::TextFormat::Parser parser;
  FirstError error;
  parser.RecordErrorsTo(&error);
  constexpr int kMaxDepth = 100;
  parser.SetRecursionLimit(kMaxDepth);
  if (!parser.ParseFromString(WithoutMultilines(text), &defs))
    return InvalidArgument(
        "ApiDefs: expected the text of a message, got an "
        "error in ",
        error.text);
  return defs;
}

Status NotDefined(const char* what, const std::string& name, const ApiDef& of) {
  return FailedPrecondition("ApiDefs: expected ", what, " of ",
                            of.graph_op_name(), ", got '", name, "'");
}

// Overwrites what the new definitions name.
template <typename List>
Status MergeList(const char* what, const List& from, List* to,
                 const ApiDef& of) {
  for (const auto& change : from) {
    const auto it = std::find_if(
        to->begin(), to->end(),
        [&change](const auto& old) { return old.name() == change.name(); });
    if (it == to->end()) return NotDefined(what, change.name(), of);
    it->MergeFrom(change);
  }
  return OkStatus();
}

Status MergeApiDef(const ApiDef& from, ApiDef* to) {
  ApiDef made = *to;
  if (from.visibility() != ApiDef::DEFAULT_VISIBILITY)
    made.set_visibility(from.visibility());
  if (from.endpoint_size() > 0) *made.mutable_endpoint() = from.endpoint();
  SLUICE_RETURN_IF_ERROR(
      MergeList("an input", from.in_arg(), made.mutable_in_arg(), *to));
  SLUICE_RETURN_IF_ERROR(
      MergeList("an output", from.out_arg(), made.mutable_out_arg(), *to));
  SLUICE_RETURN_IF_ERROR(
      MergeList("an attribute", from.attr(), made.mutable_attr(), *to));
  if (from.arg_order_size() > 0) {
    if (from.arg_order_size() != to->arg_order_size() ||
        !std::is_permutation(from.arg_order().begin(), from.arg_order().end(),
                             to->arg_order().begin()))
      return NotDefined("an order of the inputs",
                        absl::StrJoin(from.arg_order(), ", "), *to);
    *made.mutable_arg_order() = from.arg_order();
  }
  if (!from.summary().empty()) made.set_summary(from.summary());
  std::string text =
      from.description().empty() ? to->description() : from.description();
  if (!from.description_prefix().empty())
    text = absl::StrCat(from.description_prefix(), "\n", text);
  if (!from.description_suffix().empty())
    text = absl::StrCat(text, "\n", from.description_suffix());
  made.set_description(text);
  if (!from.deprecation_message().empty()) {
    made.set_deprecation_message(from.deprecation_message());
    made.set_deprecation_version(from.deprecation_version());
  }
  *to = std::move(made);
  return OkStatus();
}

void Rename(const std::string& from, const std::string& to, ApiDef* d) {
  if (from == to) return;
  const std::string quoted = absl::StrCat("`", from, "`");
  const std::string by = absl::StrCat("`", to, "`");
  const auto in = [&](std::string* text) {
    for (size_t at = text->find(quoted); at != text->npos;
         at = text->find(quoted, at + by.size()))
      text->replace(at, quoted.size(), by);
  };
  for (auto& arg : *d->mutable_in_arg()) in(arg.mutable_description());
  for (auto& arg : *d->mutable_out_arg()) in(arg.mutable_description());
  for (auto& attr : *d->mutable_attr()) in(attr.mutable_description());
  in(d->mutable_summary());
  in(d->mutable_description());
}

// The texts then use the names that bindings use.
void RenameInTexts(ApiDef* d) {
  const ApiDef names = *d;
  if (names.endpoint_size() > 0)
    Rename(names.graph_op_name(), names.endpoint(0).name(), d);
  for (const auto& arg : names.in_arg()) Rename(arg.name(), arg.rename_to(), d);
  for (const auto& arg : names.out_arg())
    Rename(arg.name(), arg.rename_to(), d);
  for (const auto& attr : names.attr())
    Rename(attr.name(), attr.rename_to(), d);
}

}  // namespace

extern "C" {

TF_ApiDefMap* TF_NewApiDefMap(TF_Buffer* op_list_buffer, TF_Status* status) {
  auto map = std::make_unique<TF_ApiDefMap>();
  const bool ok = Report(status, "API definitions", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(Given(op_list_buffer, "OpList"));
    proto::OpList list;
    SLUICE_RETURN_IF_ERROR(
        ParseMessage(Bytes(op_list_buffer), "OpList", &list));
    for (const proto::OpDef& op : list.op())
      map->ops.insert_or_assign(op.name(), DefaultOf(op));
    return OkStatus();
  });
  return ok ? map.release() : nullptr;
}

void TF_DeleteApiDefMap(TF_ApiDefMap* apimap) { delete apimap; }

void TF_ApiDefMapPut(TF_ApiDefMap* api_def_map, const char* text,
                     size_t text_len, TF_Status* status) {
  Report(status, "API definitions", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(Given(api_def_map, "map"));
    if (text_len > 0) SLUICE_RETURN_IF_ERROR(Given(text, "text"));
    SLUICE_ASSIGN_OR_RETURN(const proto::ApiDefs defs,
                            ParseApiDefs({text, text_len}));
    for (const ApiDef& d : defs.op())
      if (const auto it = api_def_map->ops.find(d.graph_op_name());
          it != api_def_map->ops.end())
        SLUICE_RETURN_IF_ERROR(MergeApiDef(d, &it->second));
    return OkStatus();
  });
}

TF_Buffer* TF_ApiDefMapGet(TF_ApiDefMap* api_def_map, const char* name,
                           size_t name_len, TF_Status* status) {
  TF_Buffer* made = nullptr;
  Report(status, "API definitions", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(Given(api_def_map, "map"));
    if (name_len > 0) SLUICE_RETURN_IF_ERROR(Given(name, "name"));
    const auto it = api_def_map->ops.find(std::string_view(name, name_len));
    if (it == api_def_map->ops.end()) return OkStatus();
    ApiDef d = it->second;
    RenameInTexts(&d);
    SLUICE_ASSIGN_OR_RETURN(const std::string bytes, SerializeProto(d));
    made = TF_NewBufferFromString(bytes.data(), bytes.size());
    return OkStatus();
  });
  return made;
}

}  // extern "C"
