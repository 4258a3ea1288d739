// Steps that wait for each other, to test which threads drive which steps.
#ifndef SLUICE_CLUSTER_TESTING_MEETING_STEPS_TEST_UTIL_H_
#define SLUICE_CLUSTER_TESTING_MEETING_STEPS_TEST_UTIL_H_

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "cluster/testing/transport_test_util.h"
#include "exec/core/host_functions.h"
#include "exec/core/step_group.h"
#include "graph/builder.h"
#include "graph/graph.h"
#include "graph/op_def.h"

namespace sluice {

// `count` steps of one kernel each. A kernel starts when a token arrives and
// returns when the kernels of all steps are running (or after ten seconds).
class MeetingSteps {
 public:
  explicit MeetingSteps(size_t count) : count_(count) {
    AddHostFunction(kToken, [this](std::vector<Tensor> args, const auto&) {
      std::unique_lock<std::mutex> lock(mu_);
      ++running_;
      changed_.notify_all();
      met_ &= changed_.wait_for(lock, std::chrono::seconds(10),
                                [this] { return running_ == count_; });
      return args;
    });
    const auto graph = std::make_shared<Graph>();
    {
      const WithGraph use(*graph);
      const Output in = Build("_Recv", {},
                              {{"tensor_name", "in"},
                               {"send_device", "there"},
                               {"recv_device", "here"},
                               {"edge", int64_t{0}},
                               {"group", int64_t{0}},
                               {"T", DType::kInt32}});
      const Output out = Build("PyFunc", {in},
                               {{"token", kToken},
                                {"Tin", AttrValue::Types{DType::kInt32}},
                                {"Tout", AttrValue::Types{DType::kInt32}}});
      BuildNode("_Retval", {out}, {{"index", int64_t{0}}});
    }
    EXPECT_TRUE(graph->status().ok()) << graph->status();
    const auto plan =
        Plan::Build(graph, [](const Node& n, std::shared_ptr<Kernel>* k) {
          *k = std::make_shared<Kernel>();
          return n.op().kernel(n, k->get());
        });
    EXPECT_TRUE(plan.ok()) << plan.status();
    for (size_t i = 0; i < count; ++i) {
      groups_.push_back(std::make_unique<StepGroup>(
          std::vector<PartitionPlan>{{*plan, &cpu_}}));
      ExecuteOptions options;
      options.step.resources = &resources_;
      groups_.back()->Start(options);
      groups_.back()->Run({}, {}, [this](const Status& s) {
        EXPECT_TRUE(s.ok()) << s;
        std::lock_guard<std::mutex> lock(mu_);
        ++done_;
        changed_.notify_all();
      });
    }
  }
  ~MeetingSteps() {
    std::unique_lock<std::mutex> lock(mu_);
    changed_.wait(lock, [this] { return done_ == count_; });
    for (const auto& g : groups_) g->Finish();
    RemoveHostFunction(kToken);
  }

  // Delivers the token that the step waits for.
  void Deliver(size_t step, std::span<TokenMessage> batch) {
    groups_[step]->Deliver(0, batch);
  }
  void Deliver(size_t step) {
    TokenMessage token = TokenOf(0, Tensor::Scalar<int32_t>(1));
    Deliver(step, {&token, 1});
  }
  // False if the kernels never ran at the same time.
  bool Await() {
    std::unique_lock<std::mutex> lock(mu_);
    changed_.wait(lock, [this] { return done_ > 0; });
    return met_;
  }

 private:
  static constexpr char kToken[] = "meets";
  const size_t count_;
  CpuDevice cpu_{DeviceName()};
  ResourceManager resources_;
  std::vector<std::unique_ptr<StepGroup>> groups_;
  std::mutex mu_;
  std::condition_variable changed_;
  size_t running_ = 0, done_ = 0;  // GUARDED_BY(mu_)
  bool met_ = true;                // GUARDED_BY(mu_)
};

}  // namespace sluice

#endif  // SLUICE_CLUSTER_TESTING_MEETING_STEPS_TEST_UTIL_H_
