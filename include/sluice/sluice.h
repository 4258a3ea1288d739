// All of Sluice that a program needs.
//
//   #include "sluice/sluice.h"
//   using namespace sluice;
//
//   Output x = Placeholder<float>({-1, 784});
//   Var w(RandomUniform({784, 10}), "w");
//   Output y = ops::MatMul(x, w) + 1;
//
// A thread builds into its ambient graph (WithGraph); names, devices and
// control dependencies come from scopes (NameScope, DeviceScope,
// ControlDependencies). Builders do not return errors: they record them in the
// graph, with the line that made each, and return null outputs; Session::Run
// reports the error behind what it is asked for.
//
// What a program may use is what the headers beside this one, sluice/*.h,
// include by name: the installed set, the reference (docs/api.md) and the tests
// of the examples follow from these lines.
//
// No argument, option, file, graph or feed ends the program: all are errors.
// What does is to take a value out of a Result that holds an error (*result),
// or elements out of a Tensor as another type (tensor.scalar<float>() of
// doubles): it says so, with the line. Where that depends on data, ask first:
// result.ok(), tensor.TryScalar<float>().
#ifndef SLUICE_SLUICE_H_
#define SLUICE_SLUICE_H_

#include "base/status.h"             // Status, Result
#include "client/control_flow.h"     // Cond, Case, While
#include "client/functions.h"        // DefineFunction
#include "client/gradients.h"        // Grad, Gradients, RegisterGradient
#include "client/higher_order.h"     // MapFn, FoldL, FoldR, Scan
#include "client/initializers.h"     // Zeros, RandomUniform, GlorotUniform, ...
#include "client/loops.h"            // OpenMerge, CloseMerge
#include "client/operators.h"        // x + y, x < y
#include "client/optimizers.h"       // GradientDescentOptimizer, ...
#include "client/rnn.h"              // DynamicRnn, StaticRnn, ...
#include "client/rnn_cells.h"        // LstmCell, GruCell, RnnCell, ...
#include "client/sampled_softmax.h"  // SampledSoftmaxLoss
#include "client/structure.h"        // What a loop variable may be
#include "client/tensor_array.h"     // TensorArray
#include "client/variables.h"        // Var, GetVariable, Placeholder
#include "exec/cancellation.h"       // Cancellation
#include "exec/device.h"             // CpuDevices
#include "exec/emulated_device.h"    // EmulatedDevices
#include "exec/trace.h"              // TraceEvent, ChromeTrace
#include "graph/attr.h"              // AttrValue, AttrMap
#include "graph/builder.h"           // Scopes, Constant
#include "graph/device_scope.h"      // DeviceFunctionScope, NoDeviceScope
#include "graph/graph.h"             // Graph, Node, Output
#include "graph/graphdef.h"          // ImportGraphDef, ExportGraphDef
#include "io/npy.h"                  // ReadNpy, WriteNpy, WriteNpz, ...
#include "session/quantize.h"        // Freeze, Quantize
#include "session/session.h"         // Session
#include "sluice/ops.h"              // ops::MatMul and all others
#include "tensor/dtype.h"            // DType
#include "tensor/shape.h"            // Shape, PartialShape
#include "tensor/tensor.h"           // Tensor

#endif  // SLUICE_SLUICE_H_
