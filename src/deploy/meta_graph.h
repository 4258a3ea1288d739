// Meta graphs: a graph with what is known about it, as TensorFlow stores it
// (MetaGraphDef).
//
//   Saver saver;
//   MetaGraph about;
//   about.saver = SaverInfo::Of(saver);
//   about.collections["losses"].nodes = {loss.name()};
//   Result<std::string> bytes = ExportMetaGraph(CurrentGraph(), about);
//
//   Graph copy;
//   Result<MetaGraph> read = ImportMetaGraph(*bytes, copy);
#ifndef SLUICE_DEPLOY_META_GRAPH_H_
#define SLUICE_DEPLOY_META_GRAPH_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "deploy/signature.h"
#include "graph/node.h"
#include "graph/tensor_proto.h"
#include "train/saver.h"

namespace sluice {

// The items of a collection, all of one kind.
struct Collection {
  std::vector<std::string> nodes = {};  // "x:0", or "train" for a node.
  std::vector<std::string> bytes = {};  // Serialised messages, or texts.
  std::vector<int64_t> ints = {};
  std::vector<float> floats = {};
};

// The nodes of a saver, by name (SaverDef).
struct SaverInfo {
  std::string filename_tensor, save_tensor, restore_op;
  int max_to_keep = 5;
  bool sharded = false;
  float keep_every_n_hours = 10000;
  int version = 2;  // Of the files.
  static SaverInfo Of(const Saver& saver);
};

// A file that the graph reads, in the folder of assets, and the tensor that
// holds its path.
struct AssetInfo {
  std::string tensor;    // "vocabulary/Const:0"
  std::string filename;  // "words.txt"
};

// What a meta graph says beside the graph.
struct MetaGraph {
  std::vector<std::string> tags = {};
  std::map<std::string, Signature> signatures = {};
  std::map<std::string, Collection> collections = {};
  std::optional<SaverInfo> saver = std::nullopt;
  std::vector<AssetInfo> assets = {};
  std::string version = {};  // Of the program that wrote it; when it is read.
  bool stripped_default_attrs = false;
  // The ops that it uses and that this program lacks; when it is read.
  std::vector<std::string> unknown_ops = {};
};

struct ExportMetaGraphOptions {
  bool clear_devices = false;
  // Attributes that have their default values are left out, so that programs
  // which are older than an attribute can read the graph.
  bool strip_default_attrs = false;
};

struct ImportMetaGraphOptions {
  std::string prefix = "";  // Names become "prefix/name".
  bool clear_devices = false;
  TensorProtoLimits tensor_limits = {};
};

// Returns a serialised MetaGraphDef of the graph with all its nodes and
// functions; what is in `about`; the graph's collections of variables
// ("variables", "trainable_variables", ...) and other values; and the contexts
// of its loops and conditionals, with which TensorFlow can build gradients
// through them. `about.collections` replaces those of the graph of the same
// names. NotFound if a signature, a saver or an asset names nothing in the
// graph; InvalidArgument if a collection has items of several kinds.
Result<std::string> ExportMetaGraph(Graph& g, const MetaGraph& about = {},
                                    const ExportMetaGraphOptions& options = {});

// Adds the nodes to a graph, its collections of variables and nodes to those of
// the graph, and restores what the contexts say about loops. Returns the rest.
// Errors are those of ImportGraphDef, and InvalidArgument for a variable that
// is said to be a part of another which does not fit.
Result<MetaGraph> ImportMetaGraph(std::string_view bytes, Graph& g,
                                  const ImportMetaGraphOptions& options = {});
// Without the nodes.
Result<MetaGraph> ReadMetaGraph(std::string_view bytes);

// A file, binary or text, as serialised bytes. InvalidArgument for a file of
// another kind.
Result<std::string> ReadMetaGraphFile(const std::string& path);
// The same as text.
Result<std::string> PrintTextMetaGraph(std::string_view bytes);

}  // namespace sluice

#endif  // SLUICE_DEPLOY_META_GRAPH_H_
