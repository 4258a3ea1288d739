// Everything that a new op needs: declaration, shapes, kernels and gradient.
//
//   #include "sluice/op.h"
//   SLUICE_OP(Mirror)
//       .Input("x: float")
//       .Output("y: float")
//       .Shape(UnchangedShape)
//       .Kernel(Cpu(RunMirror))
//       .Grad(MirrorGrad)
//       .Doc("The elements in reverse order.");
//
// Ops are declared in static initialisers: in the library, in your program or
// in a shared library that it loads. Your own ops are built by name,
// Build("Mirror", {x}).
#ifndef SLUICE_OP_H_
#define SLUICE_OP_H_

#include "exec/core/kernel.h"       // KernelContext, Cpu, CpuFor, CpuState
#include "exec/core/resources.h"    // ResourceManager, Variable
#include "graph/builder.h"          // Build, in gradients
#include "graph/grad.h"             // GradContext
#include "graph/op_def.h"           // SLUICE_OP
#include "graph/op_library.h"       // LoadOpLibrary
#include "graph/op_traits.h"        // OpKind, OpFacts
#include "graph/shape_context.h"    // ShapeContext, UnchangedShape, ...
#include "ops/common/grad_nodes.h"  // grad::Mul, grad::SumToShape, ...

#endif  // SLUICE_OP_H_
