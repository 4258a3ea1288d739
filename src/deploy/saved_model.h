// Saved models: folders with a graph, its signatures, variables and files, as
// TensorFlow writes and reads them.
//
//   Result<SavedModel> model = SavedModel::Load("export/1");
//   if (!model.ok()) return model.status();
//   for (const auto& [name, signature] : model->signatures())
//     std::cout << name << ": " << signature.method << "\n";
//   auto out = model->Run({{"images", images}});
//   // out->at("scores")
#ifndef SLUICE_DEPLOY_SAVED_MODEL_H_
#define SLUICE_DEPLOY_SAVED_MODEL_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "deploy/meta_graph.h"
#include "session/session.h"

namespace sluice {

// Tags that TensorFlow's programs use.
inline constexpr char kServeTag[] = "serve";
inline constexpr char kTrainTag[] = "train";
inline constexpr char kEvalTag[] = "eval";
inline constexpr char kGpuTag[] = "gpu";
inline constexpr char kTpuTag[] = "tpu";

// Whether the folder has a saved_model.pb or a saved_model.pbtxt.
bool IsSavedModel(const std::string& folder);

// What the folder's meta graphs say. NotFound if it has none of these files,
// DataLoss if the file is malformed.
Result<std::vector<MetaGraph>> ReadSavedModel(const std::string& folder);

// The meta graph with exactly these tags, serialised. NotFound, with the tags
// that there are, if there is none.
Result<std::string> FindMetaGraph(const std::string& folder,
                                  const std::vector<std::string>& tags);

// The path of its variables, a checkpoint.
std::string SavedVariablesPath(const std::string& folder);

struct LoadSavedModelOptions {
  std::string prefix = "";  // Names of nodes become "prefix/name".
  bool clear_devices = false;
};

// Adds the meta graph with exactly these tags to the session's graph, restores
// the variables and runs its initialiser, which fills tables. Models that
// TensorFlow 2 saved (tf.Module, Keras) are loaded by their signatures as well.
// Returns what the meta graph says; names in it are without the prefix. Errors:
// as FindMetaGraph; NotFound for variables or assets that are missing, or with
// the names of ops that this program lacks, if loading or a signature needs
// them; DataLoss for a corrupt file. Other nodes of ops that this program lacks
// are left out, with what depends on them.
Result<MetaGraph> LoadSavedModel(Session& session, const std::string& folder,
                                 const std::vector<std::string>& tags,
                                 const LoadSavedModelOptions& options = {});

// A loaded model with its graph and session, to be called by its signatures.
// Thread-safe; movable, but not while it runs.
class SavedModel {
 public:
  static Result<SavedModel> Load(
      const std::string& folder,
      const std::vector<std::string>& tags = {kServeTag},
      const SessionOptions& options = {});
  ~SavedModel();
  SavedModel(SavedModel&&) noexcept;
  SavedModel& operator=(SavedModel&&) noexcept;

  const std::map<std::string, Signature>& signatures() const;
  const MetaGraph& about() const;
  Graph& graph() const;
  Session& session() const;

  // Computes the outputs of a signature from its inputs. A sparse value "x" is
  // given and returned as three: "x/values", "x/indices" and "x/dense_shape"; a
  // ragged one as "x/values", "x/row_splits_0" (the outermost) and so on
  // (TensorInfo::Parts).
  // NotFound, with the names that there are, for an unknown signature.
  // InvalidArgument for an input that is missing, unknown, or of another type
  // or shape.
  Result<std::map<std::string, Tensor>> Run(
      const std::map<std::string, Tensor>& inputs,
      const std::string& signature = kDefaultSignature) const;

  // The edges of a signature's values, by their names as in Run; for Freeze and
  // MakeCallable.
  Result<std::map<std::string, Output>> Inputs(
      const std::string& signature = kDefaultSignature) const;
  Result<std::map<std::string, Output>> Outputs(
      const std::string& signature = kDefaultSignature) const;

 private:
  class Impl;
  explicit SavedModel(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice

#endif  // SLUICE_DEPLOY_SAVED_MODEL_H_
