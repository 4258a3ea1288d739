// Contexts and handles of tensors: what bindings of graph mode use of
// TensorFlow's eager mode.
#include <string>

#include "capi/handles.h"
#include "graph/device_name.h"
#include "tensorflow/c/eager/c_api.h"

struct TFE_ContextOptions {
  TF_SessionOptions options;
};
// A session of an empty graph, which has the devices.
struct TFE_Context {
  TF_Graph* graph;
  TF_Session* session;
};
struct TFE_TensorHandle {
  TF_Tensor tensor;
  std::string device;
};

using namespace sluice;        // NOLINT
using namespace sluice::capi;  // NOLINT

namespace {

constexpr char kFirstCpu[] = "/job:localhost/replica:0/task:0/device:CPU:0";

// The full name of the context's device that this names.
Result<std::string> FindDevice(TFE_Context* ctx, const char* name) {
  SLUICE_RETURN_IF_ERROR(Given(ctx, "context"));
  SLUICE_RETURN_IF_ERROR(Given(name, "name of a device"));
  SLUICE_ASSIGN_OR_RETURN(const DeviceName wanted, DeviceName::Parse(name));
  TF_Status status;
  TF_DeviceList* const list = TFE_ContextListDevices(ctx, &status);
  SLUICE_RETURN_IF_ERROR(FromC(status));
  std::string found;
  for (int i = 0; found.empty() && i < TF_DeviceListCount(list); ++i) {
    const std::string full = TF_DeviceListName(list, i, &status);
    const Result<DeviceName> device = DeviceName::Parse(full);
    if (device.ok() && wanted.Matches(*device)) found = full;
  }
  TF_DeleteDeviceList(list);
  if (found.empty())
    return InvalidArgument("device: expected one of the context, got '", name,
                           "'");
  return found;
}

}  // namespace

extern "C" {

TFE_ContextOptions* TFE_NewContextOptions(void) {
  return new TFE_ContextOptions;
}
void TFE_ContextOptionsSetConfig(TFE_ContextOptions* options, const void* proto,
                                 size_t proto_len, TF_Status* status) {
  TF_SetConfig(options == nullptr ? nullptr : &options->options, proto,
               proto_len, status);
}
void TFE_ContextOptionsSetAsync(TFE_ContextOptions* /*options*/,
                                unsigned char /*enable*/) {}
void TFE_ContextOptionsSetDevicePlacementPolicy(
    TFE_ContextOptions* /*options*/,
    TFE_ContextDevicePlacementPolicy /*policy*/) {}
void TFE_DeleteContextOptions(TFE_ContextOptions* options) { delete options; }

TFE_Context* TFE_NewContext(const TFE_ContextOptions* opts, TF_Status* status) {
  TF_Graph* const graph = TF_NewGraph();
  TF_Session* const session =
      TF_NewSession(graph, opts == nullptr ? nullptr : &opts->options, status);
  if (session != nullptr) return new TFE_Context{graph, session};
  TF_DeleteGraph(graph);
  return nullptr;
}

void TFE_DeleteContext(TFE_Context* ctx) {
  if (ctx == nullptr) return;
  TF_DeleteSession(ctx->session, nullptr);
  TF_DeleteGraph(ctx->graph);
  delete ctx;
}

TF_DeviceList* TFE_ContextListDevices(TFE_Context* ctx, TF_Status* status) {
  return TF_SessionListDevices(ctx == nullptr ? nullptr : ctx->session, status);
}

TFE_TensorHandle* TFE_NewTensorHandle(const TF_Tensor* t, TF_Status* status) {
  TFE_TensorHandle* made = nullptr;
  Report(status, "handle", [&]() -> Status {
    // (Strings, too, must not change with the caller's.)
    SLUICE_ASSIGN_OR_RETURN(Tensor value, ToTensor(t));
    SLUICE_ASSIGN_OR_RETURN(TF_Tensor* const copy, NewTensor(std::move(value)));
    made = new TFE_TensorHandle{std::move(*copy), kFirstCpu};
    TF_DeleteTensor(copy);
    return OkStatus();
  });
  return made;
}

void TFE_DeleteTensorHandle(TFE_TensorHandle* h) { delete h; }

TF_DataType TFE_TensorHandleDataType(TFE_TensorHandle* h) {
  return h == nullptr ? TF_DataType{} : TF_TensorType(&h->tensor);
}

int TFE_TensorHandleNumDims(TFE_TensorHandle* h, TF_Status* status) {
  return Report(status, "handle", [h] { return Given(h, "handle"); })
             ? TF_NumDims(&h->tensor)
             : -1;
}

int64_t TFE_TensorHandleNumElements(TFE_TensorHandle* h, TF_Status* status) {
  return Report(status, "handle", [h] { return Given(h, "handle"); })
             ? TF_TensorElementCount(&h->tensor)
             : -1;
}

int64_t TFE_TensorHandleDim(TFE_TensorHandle* h, int dim_index,
                            TF_Status* status) {
  int64_t size = -1;
  Report(status, "handle", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(Given(h, "handle"));
    if (dim_index < 0 || dim_index >= TF_NumDims(&h->tensor))
      return InvalidArgument("dimension: expected one of ",
                             TF_NumDims(&h->tensor), ", got ", dim_index);
    size = TF_Dim(&h->tensor, dim_index);
    return OkStatus();
  });
  return size;
}

const char* TFE_TensorHandleDeviceName(TFE_TensorHandle* h, TF_Status* status) {
  return Report(status, "handle", [h] { return Given(h, "handle"); })
             ? h->device.c_str()
             : nullptr;
}

const char* TFE_TensorHandleBackingDeviceName(TFE_TensorHandle* h,
                                              TF_Status* status) {
  return TFE_TensorHandleDeviceName(h, status);
}

TFE_TensorHandle* TFE_TensorHandleCopyToDevice(TFE_TensorHandle* h,
                                               TFE_Context* ctx,
                                               const char* device_name,
                                               TF_Status* status) {
  TFE_TensorHandle* made = nullptr;
  Report(status, "handle", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(Given(h, "handle"));
    SLUICE_ASSIGN_OR_RETURN(std::string device, FindDevice(ctx, device_name));
    if (device.find("device:CPU:") == device.npos)
      return InvalidArgument("handle: expected a CPU as the device, got ",
                             device);
    made = new TFE_TensorHandle{h->tensor, std::move(device)};
    return OkStatus();
  });
  return made;
}

TF_Tensor* TFE_TensorHandleResolve(TFE_TensorHandle* h, TF_Status* status) {
  TF_Tensor* made = nullptr;
  Report(status, "handle", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(Given(h, "handle"));
    made = new TF_Tensor(h->tensor);
    return OkStatus();
  });
  return made;
}

}  // extern "C"
