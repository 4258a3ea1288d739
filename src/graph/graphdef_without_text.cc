// In the place of graphdef_text.cc in builds with protobuf's lite runtime
// (SLUICE_MINIMAL).
#include "graph/graphdef_messages.h"

namespace sluice {
namespace {

Status NoText(const char* what) {
  return Unimplemented(
      what,
      " text: expected a build with protobuf's text format, got one without "
      "(SLUICE_MINIMAL)");
}

}  // namespace

Status ParseTextMessage(std::string_view, const char* what,
                        google::protobuf::MessageLite*) {
  return NoText(what);
}

Result<std::string> PrintTextMessage(
    const google::protobuf::MessageLite& message) {
  return NoText(message.GetTypeName().c_str());
}

Result<std::string> ParseTextGraphDef(std::string_view) {
  return NoText("GraphDef");
}

Result<std::string> PrintTextGraphDef(std::string_view) {
  return NoText("GraphDef");
}

}  // namespace sluice
