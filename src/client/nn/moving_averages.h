// Exponential moving averages of variables and tensors: what a model is
// evaluated with, or batch normalisation keeps.
//
//   ExponentialMovingAverage averages(0.999);
//   Node* train = AdamOptimizer(1e-3).Minimize(loss);
//   Node* step = nullptr;
//   {
//     const ControlDependencies after({train});
//     step = averages.Apply();
//   }
//
// Names are TensorFlow's, so that checkpoints fit: the average of "w" is
// "w/ExponentialMovingAverage".
#ifndef SLUICE_CLIENT_NN_MOVING_AVERAGES_H_
#define SLUICE_CLIENT_NN_MOVING_AVERAGES_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "client/variables.h"

namespace sluice {

// The collection of the variables that have an average.
inline constexpr const char* kMovingAverageVariables =
    "moving_average_variables";

// variable -= (1 - decay) * (variable - value). Null on error.
//
// A variable that starts at zero is at first too small by a known factor; with
// zero_debias, "<variable>/biased" has the average, "<variable>/local_step"
// counts, and the variable gets the corrected average (Kingma and Ba, 2015).
Node* AssignMovingAverage(const Var& variable, const Operand& value,
                          const Operand& decay, bool zero_debias = false,
                          SourceLoc loc = CallerLoc());
// The same under another name. `make` makes the two variables of zero_debias,
// called "biased" and "local_step" here; null: as above. (Clients whose
// variables are more than the library's have another one.)
struct MovingAverageUpdate {
  bool zero_debias = false;
  std::string name = "AssignMovingAvg";
  std::function<Var(const std::string& name, const Shape& shape)> make = {};
};
Node* AssignMovingAverage(const Var& variable, const Operand& value,
                          const Operand& decay,
                          const MovingAverageUpdate& update,
                          SourceLoc loc = CallerLoc());

struct MovingAverageOptions {
  // The number of updates so far, n: a null output, or the decay is at most
  // (1 + n) / (10 + n), so that averages move faster at first.
  Output num_updates = {};
  // For averages of tensors, which start at zero. (Those of variables start at
  // the variable's initial value.)
  bool zero_debias = false;
  std::string name = "ExponentialMovingAverage";
};

// Owns no variables: the graph in which Apply was called does. Belongs to the
// thread that builds the graph.
class ExponentialMovingAverage {
 public:
  explicit ExponentialMovingAverage(const Operand& decay,
                                    const MovingAverageOptions& options = {});
  virtual ~ExponentialMovingAverage() = default;
  ExponentialMovingAverage(const ExponentialMovingAverage&) = delete;

  // A node that moves the averages of the variables (default: all trainable
  // ones) and of the tensors, each of a floating type; makes the averages that
  // do not exist yet. May be called again for others. Null on error.
  Node* Apply(SourceLoc loc = CallerLoc());
  Node* Apply(const std::vector<Var>& variables,
              const std::vector<Output>& tensors = {},
              SourceLoc loc = CallerLoc());

  // The average of a variable or tensor; null before Apply.
  Var Average(const Var& variable) const;
  Var Average(const Output& tensor) const;
  // The name of a variable's average, whether or not it exists.
  std::string AverageName(const Var& variable) const;
  // For evaluation: the variables by the names under which a checkpoint has the
  // values to use. Those with an average (by default the trainable ones and all
  // that any average was made for) are restored from it, others from
  // themselves.
  std::map<std::string, Var> VariablesToRestore() const;
  std::map<std::string, Var> VariablesToRestore(
      const std::vector<Var>& averaged) const;

 protected:
  // Make the variable of an average, which starts at the variable's initial
  // value, or at zero. Overridden where variables are more than the library's.
  virtual Var NewAverage(const Var& of, SourceLoc loc);
  virtual Var NewAverage(const Output& of, SourceLoc loc);
  // As MovingAverageUpdate::make, for the average of a tensor.
  virtual Var NewOfDebiased(const Var& average, const std::string& name,
                            const Shape& shape);

 private:
  const Operand decay_;
  const MovingAverageOptions options_;
  std::map<std::string, Var> averages_;  // By the name of what they average.
};

}  // namespace sluice

#endif  // SLUICE_CLIENT_NN_MOVING_AVERAGES_H_
