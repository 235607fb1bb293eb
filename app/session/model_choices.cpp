#include "app/session/model_choices.h"

#include <algorithm>
#include <utility>

namespace kvscope::app {

void ModelChoices::keep(ModelChoice choice) {
  std::erase_if(choices_, [&](const ModelChoice& other) { return other.model == choice.model; });
  choices_.push_back(std::move(choice));
  if (choices_.size() > kMost) choices_.erase(choices_.begin());
}

const ModelChoice* ModelChoices::find(const std::string& model) const {
  const auto found = std::ranges::find(choices_, model, &ModelChoice::model);
  return found == choices_.end() ? nullptr : &*found;
}

}  // namespace kvscope::app
