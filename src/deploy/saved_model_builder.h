// Writes saved models.
//
//   SavedModelBuilder builder("export/1");
//   Result<Signature> predict = PredictSignature({{"x", x}}, {{"y", y}});
//   Status status = builder.AddMetaGraphAndVariables(
//       session, {.tags = {kServeTag}, .signatures = {{kDefaultSignature,
//                                                      *predict}}});
//   if (status.ok()) status = builder.Save().status();
#ifndef SLUICE_DEPLOY_SAVED_MODEL_BUILDER_H_
#define SLUICE_DEPLOY_SAVED_MODEL_BUILDER_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "deploy/saved_model.h"

namespace sluice {

// What is to be saved of a graph.
struct SavedMetaGraph {
  std::vector<std::string> tags = {};
  std::map<std::string, Signature> signatures = {};
  // Constant string scalars: the paths of files that the graph reads. The files
  // are copied into the model.
  std::vector<Output> assets = {};
  // What fills tables, and whatever else is to be run after the variables are
  // restored; null for nothing.
  Node* initializer = nullptr;
  std::map<std::string, Collection> collections = {};
  // What saves the variables. Null: a saver of all global variables of the
  // graph, whose nodes are added to it.
  Saver* saver = nullptr;
  ExportMetaGraphOptions options = {};
};

// One folder of a saved model. It is written aside, flushed to disk, and gets
// its name in Save: whatever happens before, there is nothing at that path. An
// empty folder that is a link or a mount point stays, and is written into, the
// file with the meta graphs last: before that there is no model in it. Not
// thread-safe.
class SavedModelBuilder {
 public:
  // All functions fail with AlreadyExists if the folder exists and is not
  // empty: models are not overwritten.
  explicit SavedModelBuilder(std::string folder);
  // Removes what was written, if Save was not called.
  ~SavedModelBuilder();
  SavedModelBuilder(const SavedModelBuilder&) = delete;

  // Adds the session's graph, and saves its variables. To be called first, and
  // once: FailedPrecondition otherwise. NotFound for an asset that does not
  // exist; errors of ExportMetaGraph. After an error it can be called again.
  Status AddMetaGraphAndVariables(Session& session, const SavedMetaGraph& what);
  // Adds another graph, or the same for other tags, which shares the variables.
  // AlreadyExists if there is one with the same tags.
  Status AddMetaGraph(Graph& graph, const SavedMetaGraph& what);
  // Writes the model, as text if asked for, and returns the path of the file
  // with the meta graphs. More can be added and saved after that.
  Result<std::string> Save(bool text = false);

  // The parts, for graphs that are exported elsewhere: where to save variables
  // (by a saver that writes no state file), a file to copy, whose name among
  // the assets is returned, and a serialised MetaGraphDef.
  Result<std::string> VariablesPath();
  Result<std::string> AddAsset(const std::string& path);
  Status AddMetaGraphDef(std::string_view bytes);

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace sluice

#endif  // SLUICE_DEPLOY_SAVED_MODEL_BUILDER_H_
