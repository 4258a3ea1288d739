// TF_Status and TF_Buffer.
#include <cstdlib>
#include <cstring>

#include "capi/handles.h"

namespace sluice::capi {

void SetStatus(TF_Status* status, const Status& s) {
  if (status == nullptr) return;
  status->code = static_cast<TF_Code>(s.raw_code());
  if (s.ok())
    status->message.clear();
  else
    status->message.assign(s.message().data(), s.message().size());
}

Status FromC(const TF_Status& status) {
  return {static_cast<StatusCode>(status.code), status.message};
}

namespace {

void FreeBytes(void* data, size_t /*length*/) { std::free(data); }

}  // namespace

Status Fill(TF_Buffer* buffer, std::string_view bytes) {
  SLUICE_RETURN_IF_ERROR(Given(buffer, "buffer"));
  if (buffer->data != nullptr)
    return InvalidArgument("buffer: expected an empty one, got ",
                           buffer->length, " bytes");
  void* data = std::malloc(bytes.size() + 1);
  if (data == nullptr)
    return ResourceExhausted("buffer: expected memory for ", bytes.size(),
                             " bytes, got none");
  if (!bytes.empty()) std::memcpy(data, bytes.data(), bytes.size());
  static_cast<char*>(data)[bytes.size()] = 0;
  buffer->data = data;
  buffer->length = bytes.size();
  buffer->data_deallocator = FreeBytes;
  return OkStatus();
}

std::string_view Bytes(const TF_Buffer* buffer) {
  if (buffer == nullptr || buffer->data == nullptr) return {};
  return {static_cast<const char*>(buffer->data), buffer->length};
}

}  // namespace sluice::capi

using namespace sluice;        // NOLINT
using namespace sluice::capi;  // NOLINT

extern "C" {

TF_Status* TF_NewStatus(void) { return new TF_Status; }
void TF_DeleteStatus(TF_Status* s) { delete s; }

void TF_SetStatus(TF_Status* s, TF_Code code, const char* msg) {
  if (s == nullptr) return;
  s->code = code;
  s->message = code == TF_OK ? "" : View(msg);
}

void TF_SetStatusFromIOError(TF_Status* s, int error_code,
                             const char* context) {
  SetStatus(s, absl::ErrnoToStatus(error_code, View(context)));
}

TF_Code TF_GetCode(const TF_Status* s) { return s->code; }
const char* TF_Message(const TF_Status* s) { return s->message.c_str(); }

TF_Buffer* TF_NewBuffer(void) { return new TF_Buffer{nullptr, 0, nullptr}; }

TF_Buffer* TF_NewBufferFromString(const void* proto, size_t proto_len) {
  TF_Buffer* buffer = TF_NewBuffer();
  const std::string_view bytes(static_cast<const char*>(proto),
                               proto == nullptr ? 0 : proto_len);
  if (Fill(buffer, bytes).ok()) return buffer;
  delete buffer;
  return nullptr;
}

void TF_DeleteBuffer(TF_Buffer* buffer) {
  if (buffer == nullptr) return;
  if (buffer->data_deallocator != nullptr)
    buffer->data_deallocator(const_cast<void*>(buffer->data), buffer->length);
  delete buffer;
}

TF_Buffer TF_GetBuffer(TF_Buffer* buffer) { return *buffer; }

}  // extern "C"
