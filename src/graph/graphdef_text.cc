// GraphDef and other messages as text.
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/text_format.h"
#include "graph/graphdef_messages.h"

namespace sluice {

namespace pb = google::protobuf;

namespace {

// Keeps the first error and its position.
class FirstError : public pb::io::ErrorCollector {
 public:
  void AddError(int line, pb::io::ColumnNumber column,
                const std::string& message) override {
    if (message_.empty())
      message_ = absl::StrCat("line ", line + 1, ", column ", column + 1, ": ",
                              message);
  }
  void AddWarning(int, pb::io::ColumnNumber, const std::string&) override {}
  const std::string& message() const { return message_; }

 private:
  std::string message_;
};

}  // namespace

Status ParseTextMessage(std::string_view text, const char* what,
                        pb::MessageLite* m) {
  FirstError error;
  pb::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  parser.SetRecursionLimit(kMaxProtoDepth);
  if (text.size() > INT32_MAX)
    return InvalidArgument(what, " text: expected at most 2 GiB, got ",
                           text.size(), " bytes");
  pb::io::ArrayInputStream in(text.data(), static_cast<int>(text.size()));
  if (!parser.Parse(&in, pb::internal::DownCast<pb::Message*>(m)))
    return InvalidArgument(
        what,
        " text: ", error.message().empty() ? "malformed" : error.message());
  return OkStatus();
}

Result<std::string> PrintTextMessage(const pb::MessageLite& message) {
  std::string text;
  if (!pb::TextFormat::PrintToString(
          *pb::internal::DownCast<const pb::Message*>(&message), &text))
    return Internal(message.GetTypeName(), ": printing it as text failed");
  return text;
}

Result<std::string> ParseTextGraphDef(std::string_view text) {
  proto::GraphDef def;
  SLUICE_RETURN_IF_ERROR(ParseTextMessage(text, "GraphDef", &def));
  return SerializeProto(def);
}

Result<std::string> PrintTextGraphDef(std::string_view bytes) {
  proto::GraphDef def;
  SLUICE_RETURN_IF_ERROR(ParseGraphDef(bytes, &def));
  return PrintTextMessage(def);
}

}  // namespace sluice
