// Steps that are fed and fetched in stages.
#include <algorithm>
#include <map>
#include <numeric>

#include "exec/core/on_cancel.h"
#include "session/session_state.h"

namespace sluice {

struct Session::PartialRun::Stage {
  std::shared_ptr<Compiled> compiled;
  std::shared_ptr<Step> execution;            // Null if it runs elsewhere;
  std::unique_ptr<BackendPartialRun> remote;  // then this is set.
  RunOptions options;
  std::vector<uint8_t> fed, fetched;
  // For a step that runs elsewhere, which returns each fetch once: live fetches
  // that arrived together with a dead one and, without a value, the dead ones.
  std::map<uint32_t, std::optional<Tensor>> kept;
  Status failed;

  // The error for a fetch that needs some of the feeds `among` that have not
  // been fed; OK otherwise.
  Status Missing(uint32_t fetch, const std::vector<size_t>& among) const {
    const StepSignature& sig = compiled->signature;
    std::string names;
    for (const size_t f : among)
      if (fed[f] == 0)
        absl::StrAppend(&names, names.empty() ? "'" : ", '",
                        sig.feeds[f].name(), "'");
    if (names.empty()) return OkStatus();
    return InvalidArgument("partial run: expected '", sig.fetches[fetch].name(),
                           "' to depend only on edges that have been fed, "
                           "got feeds missing among ",
                           names);
  }
  Result<std::vector<Tensor>> RunElsewhere(const std::vector<uint32_t>& args,
                                           const std::vector<Tensor>& values,
                                           const std::vector<uint32_t>& wanted,
                                           const RunOptions& options);
};

Result<std::unique_ptr<Session::PartialRun>> Session::StartPartialRun(
    const std::vector<Output>& feeds, const std::vector<Output>& fetches,
    const std::vector<Node*>& targets) {
  SLUICE_RETURN_IF_ERROR(state_->CheckReady());
  SLUICE_ASSIGN_OR_RETURN(
      std::shared_ptr<Compiled> c,
      state_->Cached({feeds, fetches, targets}, Purpose::kStaged));
  std::unique_ptr<PartialRun> run(new PartialRun);
  run->state_ = state_;
  run->stage_ = std::make_unique<PartialRun::Stage>();
  PartialRun::Stage& stage = *run->stage_;
  stage.compiled = c;
  stage.fed.resize(feeds.size());
  stage.fetched.resize(fetches.size());
  if (state_->backend != nullptr) {
    SLUICE_ASSIGN_OR_RETURN(stage.remote,
                            state_->backend->StartPartialRun(c->remote));
    return run;
  }
  SLUICE_ASSIGN_OR_RETURN(stage.execution,
                          state_->Begin(*c, stage.options, nullptr));
  state_->Rest(stage.execution);
  return run;
}

Session::PartialRun::~PartialRun() {
  if (stage_ == nullptr || stage_->execution == nullptr) return;
  stage_->execution->Stop(
      Cancelled("partial run: expected it to exist until its ops are done, got "
                "its destruction"));
  state_->End(*stage_->compiled, stage_->execution, /*calls_done=*/false);
}

Result<std::vector<Tensor>> Session::PartialRun::Run(
    const Feeds& feeds, const std::vector<Output>& fetches,
    const RunOptions& options) {
  SLUICE_RETURN_IF_ERROR(state_->CheckReady());
  Stage& s = *stage_;
  SLUICE_RETURN_IF_ERROR(s.failed);
  if (options.trace || options.log)
    return InvalidArgument(
        "partial run: expected a timeout and a cancellation as options of a "
        "stage, got a ",
        options.trace ? "trace" : "log");
  const StepSignature& sig = s.compiled->signature;
  std::vector<uint32_t> args;
  std::vector<Tensor> values;
  for (const auto& [o, t] : feeds) {
    const size_t i = IndexOf(sig.feeds, o);
    if (i == sig.feeds.size())
      return InvalidArgument("partial run: expected a declared feed, got '",
                             o.name(), "'");
    const bool again = std::find(args.begin(), args.end(),
                                 static_cast<uint32_t>(i)) != args.end();
    if (s.fed[i] != 0 || again)
      return InvalidArgument("partial run: expected each edge fed once, got '",
                             o.name(), "' again");
    SLUICE_RETURN_IF_ERROR(s.compiled->CheckFeed(i, t));
    args.push_back(static_cast<uint32_t>(i));
    values.push_back(t);
  }
  std::vector<uint32_t> wanted;
  for (const Output& o : fetches) {
    size_t i = 0;
    auto taken = [&](size_t f) {
      return s.fetched[f] != 0 ||
             std::find(wanted.begin(), wanted.end(), f) != wanted.end();
    };
    while (i < sig.fetches.size() && (!sig.fetches[i].SameAs(o) || taken(i)))
      ++i;
    if (i == sig.fetches.size()) {
      const bool again = Contains(sig.fetches, o);
      return InvalidArgument(
          again ? "partial run: expected each edge fetched once, got '"
                : "partial run: expected a declared fetch, got '",
          o.name(), again ? "' again" : "'");
    }
    wanted.push_back(static_cast<uint32_t>(i));
  }
  if (s.remote != nullptr) return s.RunElsewhere(args, values, wanted, options);
  SLUICE_RETURN_IF_ERROR(state_->Resume(s.execution.get()));
  for (uint32_t a : args) s.fed[a] = 1;
  // Ops that wait do not keep the others of the stage waiting, except for the
  // fetches that need them, or may need them: a fetch that lacks a feed can
  // arrive only if it lies in a branch that does not need that feed.
  std::vector<uint32_t> awaited;
  for (const uint32_t i : wanted)
    if (s.Missing(i, s.compiled->feeds_needed[i]).ok()) awaited.push_back(i);
  std::vector<Tensor> out;
  Status missing;  // Of a fetch; the step goes on.
  const auto collect = [&] {
    for (const uint32_t i : wanted) {
      const Tensor* value = s.execution->result(i);
      if (value == nullptr) {
        std::vector<size_t> all(s.fed.size());
        std::iota(all.begin(), all.end(), size_t{0});
        missing = s.Missing(i, all);
        if (missing.ok()) missing = s.execution->MissingResult(i);
        break;
      }
      out.push_back(*value);
    }
    return OkStatus();
  };
  {
    const OnCancel on_cancel(options.cancellation, [&s] {
      s.execution->Cancel(State::CancelledByCaller());
    });
    s.failed = s.execution->RunStage(args, values, awaited,
                                     State::DeadlineOf(options), collect);
  }
  state_->Rest(s.execution);
  SLUICE_RETURN_IF_ERROR(s.failed);
  SLUICE_RETURN_IF_ERROR(missing);
  for (const uint32_t i : wanted) s.fetched[i] = 1;
  return out;
}

// The backend waits for every requested fetch, so only fetches that will become
// available may be requested.
Result<std::vector<Tensor>> Session::PartialRun::Stage::RunElsewhere(
    const std::vector<uint32_t>& args, const std::vector<Tensor>& values,
    const std::vector<uint32_t>& wanted, const RunOptions& options) {
  const std::vector<uint8_t> fed_before = fed;
  for (const uint32_t a : args) fed[a] = 1;
  for (const uint32_t i : wanted)
    if (Status missing = Missing(i, compiled->feeds_needed[i]); !missing.ok()) {
      fed = fed_before;
      return missing;
    }
  std::vector<uint32_t> asked;
  for (const uint32_t i : wanted)
    if (!kept.contains(i)) asked.push_back(i);
  if (!asked.empty() || !args.empty() || wanted.empty()) {
    Result<std::vector<std::optional<Tensor>>> got =
        remote->Run(args, values, asked, options);
    failed = got.status();
    SLUICE_RETURN_IF_ERROR(failed);
    for (size_t i = 0; i < asked.size(); ++i) {
      if (const std::optional<Tensor>& t = (*got)[i]; t && failed.ok())
        failed = compiled->CheckFetch(asked[i], *t);
      kept[asked[i]] = std::move((*got)[i]);
    }
    SLUICE_RETURN_IF_ERROR(failed);
  }
  for (const uint32_t i : wanted) {
    const Output& fetch = compiled->signature.fetches[i];
    if (!kept[i])
      return InvalidArgument("fetch: expected a value, got none from '",
                             fetch.name(),
                             "', which lies in a branch that was not taken; ",
                             fetch.node->Describe());
  }
  std::vector<Tensor> out;
  for (const uint32_t i : wanted) {
    out.push_back(*std::move(kept[i]));
    kept.erase(i);
    fetched[i] = 1;
  }
  return out;
}

}  // namespace sluice
