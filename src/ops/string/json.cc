// Records written as JSON in protobuf's mapping.
#include <google/protobuf/util/json_util.h>
#include <google/protobuf/util/type_resolver_util.h>

#include <memory>
#include <string>

#include "exec/core/kernel.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "io/proto/example.pb.h"

namespace sluice {
namespace {

constexpr char kTypePrefix[] = "type.googleapis.com";

class DecodeJsonExampleKernel {
 public:
  explicit DecodeJsonExampleKernel(const Node&)
      : types_(google::protobuf::util::NewTypeResolverForDescriptorPool(
            kTypePrefix, google::protobuf::DescriptorPool::generated_pool())),
        url_(std::string(kTypePrefix) + "/" +
             proto::Example::descriptor()->full_name()) {}

  Status Run(KernelContext& ctx) const {
    const Tensor& in = ctx.input(0);
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DType::kString, in.shape()));
    for (int64_t i = 0; i < in.num_elements(); ++i) {
      // (In the order of the text, as in TensorFlow.)
      const auto s = google::protobuf::util::JsonToBinaryString(
          types_.get(), url_, in.raw<std::string>()[i],
          &ctx.output(0).raw<std::string>()[i]);
      if (!s.ok())
        return InvalidArgument("json_examples: expected an Example as JSON, ",
                               "got a string, element ", i,
                               ", for which: ", std::string(s.message()));
    }
    return OkStatus();
  }

 private:
  const std::unique_ptr<google::protobuf::util::TypeResolver> types_;
  const std::string url_;
};

SLUICE_OP(DecodeJSONExample)
    .Input("json_examples: string")
    .Output("binary_examples: string")
    .Family("encoding")
    .Shape(UnchangedShape)
    .Kernel(CpuState<DecodeJsonExampleKernel>())
    .NoGradient("strings have no derivative")
    .Doc("Converts Examples from JSON to their serialised form.");

}  // namespace
}  // namespace sluice
