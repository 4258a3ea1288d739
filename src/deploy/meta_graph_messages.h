// Conversions between the messages of meta graphs and what they stand for. It
// includes the generated messages, so only files that may use protobuf include
// it (tools/check_layers.py).
#ifndef SLUICE_DEPLOY_META_GRAPH_MESSAGES_H_
#define SLUICE_DEPLOY_META_GRAPH_MESSAGES_H_

#include "deploy/meta_graph.h"
#include "graph/graphdef_messages.h"
#include "graph/proto/meta_graph.pb.h"

namespace sluice {

// Keys of collections.
inline constexpr char kAssetsKey[] = "saved_model_assets";
inline constexpr char kMainOpKey[] = "saved_model_main_op";
inline constexpr char kLegacyInitOpKey[] = "legacy_init_op";
inline constexpr char kTableInitializers[] = "table_initializer";

Result<MetaGraph> MetaGraphFromProto(const proto::MetaGraphDef& def,
                                     TensorProtoLimits limits = {});
Status ExportMetaGraph(Graph& g, const MetaGraph& about,
                       const ExportMetaGraphOptions& options,
                       proto::MetaGraphDef* def);
// Takes the nodes out of `def`.
Result<MetaGraph> ImportMetaGraph(proto::MetaGraphDef* def, Graph& g,
                                  const ImportMetaGraphOptions& options);
void AssetsToProto(const std::vector<AssetInfo>& assets,
                   proto::MetaGraphDef* def);

}  // namespace sluice

#endif  // SLUICE_DEPLOY_META_GRAPH_MESSAGES_H_
