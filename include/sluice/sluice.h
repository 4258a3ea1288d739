// Everything that a program needs from Sluice.
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
// graph, each with its source line, and return null outputs; Session::Run
// reports the error behind a fetch or target.
//
// The public interface is what the headers in this directory, sluice/*.h,
// include by name. The set of installed headers, the reference (docs/api.md)
// and the tests of the examples are derived from these lines.
//
// No argument, option, file, graph or feed ends the program; all of them are
// reported as errors. Two things do end it, with a message that names the line:
// taking the value of a Result that holds an error (*result), and reading the
// elements of a Tensor as another type (tensor.scalar<float>() of doubles).
// Where that depends on data, check first: result.ok(),
// tensor.TryScalar<float>().
#ifndef SLUICE_SLUICE_H_
#define SLUICE_SLUICE_H_

#include "base/status.h"                   // Status, Result
#include "checkpoint/checkpoint_reader.h"  // CheckpointReader
#include "checkpoint/state.h"              // LatestCheckpoint
#include "checkpoint/tensor_slice.h"       // TensorSlice
#include "client/autodiff/gradients.h"     // Grad, Gradients, RegisterGradient
#include "client/control/control_flow.h"   // Cond, Case, While
#include "client/control/functions.h"      // DefineFunction
#include "client/control/higher_order.h"   // MapFn, FoldL, FoldR, Scan
#include "client/control/loops.h"          // OpenMerge, CloseMerge
#include "client/control/scheduled.h"      // Scheduled
#include "client/control/structure.h"      // Types of loop variables
#include "client/control/tensor_array.h"   // TensorArray
#include "client/control/tensor_store.h"   // TensorStore
#include "client/initializers.h"   // Zeros, RandomUniform, GlorotUniform, ...
#include "client/nn/activation.h"  // Activation, Gelu
#include "client/nn/adam_optimizers.h"        // AdamOptimizer, ...
#include "client/nn/attention.h"              // MultiHeadAttention
#include "client/nn/candidate_samplers.h"     // UniformClassSampler, ...
#include "client/nn/clip_gradients.h"         // ClipByGlobalNorm, ...
#include "client/nn/collectives.h"            // AllReduce, ...
#include "client/nn/constraints.h"            // MaxNorm, ...
#include "client/nn/convolutions.h"           // Conv2D, Conv2DTranspose, ...
#include "client/nn/embedding.h"              // EmbeddingLookup, ...
#include "client/nn/gradient_accumulation.h"  // GradientAccumulator, ...
#include "client/nn/large_softmax.h"          // FullSoftmaxLoss, NceLoss, ...
#include "client/nn/layers.h"                 // Dense, Dropout, Embedding, ...
#include "client/nn/lbfgs.h"                  // Lbfgs
#include "client/nn/learning_rates.h"         // CosineDecay, WarmUp, ...
#include "client/nn/loss_scaling.h"           // LossScaling
#include "client/nn/losses.h"                 // HuberLoss, ...
#include "client/nn/metrics.h"                // Accuracy, Precision, ...
#include "client/nn/metrics_at_k.h"           // PrecisionAtK, ...
#include "client/nn/moving_averages.h"        // ExponentialMovingAverage
#include "client/nn/normalization.h"          // BatchNorm, LayerNorm
#include "client/nn/optimizer.h"              // Optimizer
#include "client/nn/optimizers.h"             // GradientDescentOptimizer, ...
#include "client/nn/pooling.h"                // MaxPooling, ...
#include "client/nn/regularizers.h"           // L2Regularizer, ...
#include "client/nn/rnn.h"                    // DynamicRnn, StaticRnn, ...
#include "client/nn/rnn_cells.h"              // LstmCell, GruCell, RnnCell, ...
#include "client/nn/threshold_metrics.h"      // Auc, PrecisionAtThresholds, ...
#include "client/operators.h"                 // x + y, x < y
#include "client/partitioned_variables.h"     // PartitionedVar, ...
#include "client/reductions.h"                // AllAxes
#include "client/variable_scope.h"            // VariableScope
#include "client/variables.h"                 // Var, GetVariable, Placeholder
#include "data/barrier.h"                     // Barrier
#include "data/coordinator.h"                 // Coordinator
#include "data/dataset.h"                     // Dataset
#include "data/dataset_iterator.h"            // DatasetIterator
#include "data/hash_table.h"                  // HashTable, MutableHashTable
#include "data/queue.h"                       // Queue
#include "data/queue_runner.h"                // QueueRunner
#include "deploy/meta_graph.h"                // ExportMetaGraph, ...
#include "deploy/quantize.h"                  // Freeze, Quantize
#include "deploy/saved_model.h"               // SavedModel
#include "deploy/saved_model_builder.h"       // SavedModelBuilder
#include "deploy/signature.h"                 // PredictSignature, ...
#include "exec/core/cancellation.h"           // Cancellation
#include "exec/core/device.h"                 // CpuDevices
#include "exec/core/trace.h"                  // TraceEvent, ChromeTrace
#include "exec/devices/emulated_device.h"     // EmulatedDevices
#include "exec/scheduling/schedule_policy.h"  // RegisterSchedulePolicy
#include "graph/attr.h"                       // AttrValue, AttrMap
#include "graph/builder.h"                    // Scopes, Constant
#include "graph/device_scope.h"           // DeviceFunctionScope, NoDeviceScope
#include "graph/graph.h"                  // Graph
#include "graph/graphdef.h"               // ImportGraphDef, ExportGraphDef
#include "graph/node.h"                   // Node, Output
#include "io/make_example.h"              // MakeExample
#include "io/npy.h"                       // ReadNpy, WriteNpy, WriteNpz, ...
#include "io/records.h"                   // RecordReader, RecordWriter
#include "io/treebank.h"                  // ReadTreebank, ParseTreebank
#include "session/session.h"              // Session
#include "session/step_stats.h"           // SerializeRunMetadata
#include "sluice/ops.h"                   // ops::MatMul and all others
#include "summary/event_writer.h"         // EventWriter
#include "tensor/dtype.h"                 // DType
#include "tensor/shape.h"                 // Shape, PartialShape
#include "tensor/tensor.h"                // Tensor
#include "train/checkpoint_difference.h"  // CompareCheckpoint
#include "train/periodic_averaging.h"     // PeriodicAveraging
#include "train/run_lock.h"               // RunLock
#include "train/saver.h"                  // Saver
#include "train/signal_stop.h"            // SignalStop
#include "train/sync_replicas.h"          // SyncReplicas
#include "train/training_hook.h"          // TrainingHook
#include "train/training_hooks.h"         // NanHook, EarlyStoppingHook, ...
#include "train/training_session.h"       // TrainingSession
#include "train/warm_start.h"             // WarmStart

#endif  // SLUICE_SLUICE_H_
