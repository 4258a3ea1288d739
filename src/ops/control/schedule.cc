// Run-time placement: the decision before a scheduled body, and its end. (The
// demultiplexer between them is a tree of Switches, which client/control/
// scheduled.h builds.)
#include "exec/scheduling/scheduler.h"
#include "graph/builder.h"
#include "graph/grad.h"
#include "graph/hidden_attributes.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"

namespace sluice {
namespace {

Status ScheduleShape(ShapeContext& c) {
  for (int i = 0; i < c.num_inputs(); ++i)
    SLUICE_RETURN_IF_ERROR(c.WithRank(i, 1).status());
  c.set_output(0, PartialShape::Scalar());
  c.set_output(1, PartialShape::Scalar());
  return OkStatus();
}

Status MakeSchedule(const Node& node, Kernel* k) {
  SLUICE_ASSIGN_OR_RETURN(std::shared_ptr<ScheduledBody> body,
                          ScheduledBody::Make(node));
  if (body->devices.empty())
    return InvalidArgument(
        "devices: expected at least one candidate, got none");
  k->state = std::move(body);
  k->run = RunSchedule;
  return OkStatus();
}

SLUICE_OP(Schedule)
    .Input("shapes: N * int32")
    .Output("device: int32")
    .Output("ticket: int64")
    .Attr("N: int >= 0")
    .Attr("devices: list(string) >= 1")
    .Attr("body: string")
    .Attr("policy: string = 'cost'")
    .Attr("element_bytes: list(int) = []")
    .Attr("parameters: list(string) = []")
    .Attr("parameter_bytes: int = 0")
    .Attr("limited: bool = true")
    .Attr("ns_per_row: float = 0")
    .Attr("bytes_per_s: float = 12000000000")
    .Stateful(kDiffersEachTime)
    .HostOnly()
    .Family("control_flow")
    .Shape(ScheduleShape)
    .Kernel(MakeSchedule)
    .NoGradient("its outputs are a choice")
    .Sample({{.shape = {2}, .values = {3, 4}}},
            {{"devices",
              AttrValue::Strings({"/device:CPU:0", "/device:CPU:1"})},
             {"body", "body"},
             {"element_bytes", AttrValue::Ints({4})}})
    .Doc(
        "Chooses the device on which a scheduled body runs, by the shapes of "
        "the body's inputs, the load of the devices and the parameters that "
        "they hold.");

Status DoneShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(0));
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, c.input(i + 1));
  return OkStatus();
}

Status DoneGrad(GradContext& c) {
  for (size_t i = 0; i < c.dy.size(); ++i) c.grads[i + 1] = c.dy[i];
  return OkStatus();
}

Status MakeScheduleDone(const Node& node, Kernel* k) {
  auto results = std::make_shared<ScheduledResults>();
  results->have_rows = node.BoolAttr(kResultsHaveRowsAttr);
  k->state = std::move(results);
  k->run = RunScheduleDone;
  return OkStatus();
}

SLUICE_OP(ScheduleDone)
    .Input("ticket: int64")
    .Input("values: T")
    .Output("results: T")
    .Attr("T: list(type) >= 1")
    .Stateful(kDiffersEachTime)
    .HostOnly()
    .Family("control_flow")
    .Shape(DoneShape)
    .Kernel(MakeScheduleDone)
    .Grad(DoneGrad)
    .Doc("Returns the results of a scheduled body, which is done then.");

}  // namespace
}  // namespace sluice
