#pragma once
// What was chosen for each model: opened again, it has its policy, its gates and its chat as they were.

#include <string>
#include <vector>

#include "engine/core/policy/policy_text.h"

namespace kvscope::app {

struct ModelChoice {
  std::string model;  // its folder
  PolicySpec policy;
  bool raw = true;                 // the prompt as it is, else as a chat
  std::vector<std::string> gates;  // that its engine was given
};

class ModelChoices {
 public:
  static constexpr std::size_t kMost = 20;

  /// In the place of what was kept for that model; beyond kMost the one that was kept longest ago goes.
  void keep(ModelChoice choice);
  /// nullptr: the model was not open yet.
  const ModelChoice* find(const std::string& model) const;
  const std::vector<ModelChoice>& all() const { return choices_; }  // the newest last

 private:
  std::vector<ModelChoice> choices_;
};

}  // namespace kvscope::app
