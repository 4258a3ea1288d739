// sluice freeze: turns a saved model or a checkpoint into one graph with
// constants.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/pending_file.h"
#include "deploy/quantize.h"
#include "deploy/saved_model.h"
#include "graph/graphdef.h"
#include "tools/sluice/cli.h"

namespace sluice::cli {
namespace {

struct FreezeFlags {
  std::string model, out, signature = kDefaultSignature;
  std::vector<std::string> tags = {kServeTag}, feeds, fetches;
};

int Write(const FreezeFlags& o, Session& session,
          const std::vector<Output>& feeds,
          const std::vector<Output>& fetches) {
  const auto all = [&]() -> Status {
    SLUICE_ASSIGN_OR_RETURN(const InferenceGraph frozen,
                            Freeze(session, feeds, fetches));
    SLUICE_ASSIGN_OR_RETURN(const std::string bytes,
                            ExportGraphDef(*frozen.graph, IsTextFile(o.out)));
    SLUICE_RETURN_IF_ERROR(ReplaceFile(o.out, bytes));
    for (const Output& f : frozen.feeds)
      std::printf("feed   %s  %s%s\n", f.name().c_str(),
                  DTypeName(f.dtype()).c_str(), f.shape().ToString().c_str());
    for (const Output& f : frozen.fetches)
      std::printf("fetch  %s  %s%s\n", f.name().c_str(),
                  DTypeName(f.dtype()).c_str(), f.shape().ToString().c_str());
    std::printf("bytes  %lld of constants\n",
                static_cast<long long>(frozen.constant_bytes()));
    return OkStatus();
  };
  const Status s = all();
  return s.ok() ? 0 : Fail(kRunFailed, s);
}

// The edges that options name, or else those of the signature.
int WriteNamed(const FreezeFlags& o, Session& session,
               std::vector<Output> feeds, std::vector<Output> fetches) {
  if (!o.feeds.empty()) {
    const auto named = FindEdges(session.graph(), o.feeds, "--feed");
    if (!named.ok()) return Fail(kUsage, named.status());
    feeds = *named;
  }
  if (!o.fetches.empty()) {
    const auto named = FindEdges(session.graph(), o.fetches, "--fetch");
    if (!named.ok()) return Fail(kUsage, named.status());
    fetches = *named;
  }
  return Write(o, session, feeds, fetches);
}

int FreezeSavedModel(const FreezeFlags& o) {
  const Result<SavedModel> model = SavedModel::Load(o.model, o.tags);
  if (!model.ok()) return Fail(kRunFailed, model.status());
  std::vector<Output> feeds, fetches;
  if (o.feeds.empty() || o.fetches.empty()) {
    const auto inputs = model->Inputs(o.signature);
    const auto outputs = model->Outputs(o.signature);
    if (!inputs.ok()) return Fail(kUsage, inputs.status());
    if (!outputs.ok()) return Fail(kUsage, outputs.status());
    for (const auto& [key, edge] : *inputs) feeds.push_back(edge);
    for (const auto& [key, edge] : *outputs) fetches.push_back(edge);
  }
  return WriteNamed(o, model->session(), feeds, fetches);
}

int FreezeCheckpoint(const FreezeFlags& o) {
  if (o.fetches.empty())
    return Fail(kUsage, "--fetch: expected an edge to compute, got none");
  Graph g;
  Session session(g);
  const auto restore = [&]() -> Status {
    SLUICE_ASSIGN_OR_RETURN(const std::string bytes,
                            ReadMetaGraphFile(o.model + ".meta"));
    SLUICE_ASSIGN_OR_RETURN(const MetaGraph about, ImportMetaGraph(bytes, g));
    if (!about.saver)
      return InvalidArgument("file '", o.model,
                             ".meta': expected a meta graph with a saver, got "
                             "one without");
    return session
        .RunByName({{about.saver->filename_tensor, Tensor::Scalar(o.model)}},
                   {}, {about.saver->restore_op})
        .status();
  };
  if (const Status s = restore(); !s.ok()) return Fail(kRunFailed, s);
  return WriteNamed(o, session, {}, {});
}

}  // namespace

void AddFreeze(CLI::App& app, std::function<int()>* run) {
  auto o = std::make_shared<FreezeFlags>();
  CLI::App* sub = app.add_subcommand(
      "freeze", "Turn a saved model or a checkpoint into a graph of constants");
  sub->footer(
      "Example: sluice freeze export/1 model.pb\n"
      "A checkpoint needs its meta graph beside it (CHECKPOINT.meta), and "
      "--fetch.");
  sub->add_option("MODEL", o->model, "A saved model, or a checkpoint")
      ->required();
  sub->add_option("OUT", o->out, "Output file; text if *.pbtxt")->required();
  sub->add_option("--tags", o->tags, "Tags of the meta graph (serve)")
      ->delimiter(',');
  sub->add_option("--signature", o->signature,
                  "Whose inputs and outputs are kept (serving_default)");
  sub->add_option("--feed", o->feeds, "Edge that will be fed")
      ->take_all()
      ->allow_extra_args(false);
  sub->add_option("--fetch", o->fetches, "Edge that the new graph computes")
      ->take_all()
      ->allow_extra_args(false);
  sub->callback([o, run] {
    *run = [o] {
      return IsSavedModel(o->model) ? FreezeSavedModel(*o)
                                    : FreezeCheckpoint(*o);
    };
  });
}

}  // namespace sluice::cli
