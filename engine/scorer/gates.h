#pragma once
// What gives the tokens and heads of one model their worth: scorers, gates and a head directory. No LibTorch here.

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/files/gate/gate_file.h"
#include "engine/model/model.h"

namespace kvscope::engine {

class TokenScorer;

class Gates {
 public:
  /// Every scorer points to the weights of the model it was added for. DMS also tells them its channel of the query:
  /// attention was trained without it, whatever policy runs.
  void add(const GateFile& gate, const Model& model);
  void add(std::shared_ptr<TokenScorer> scorer) { scorers_.push_back(std::move(scorer)); }

  /// The first scorer of one of these kinds (of any, if none is named); null if there is none.
  const TokenScorer* scorer(std::span<const std::string_view> kinds) const;
  /// Uniform scores drawn from this seed; made when first asked for.
  const TokenScorer& random_scorer(std::uint64_t seed, const Model& model) const;
  /// Values of a head directory, [n_layers * n_kv_heads]; empty if none was added.
  const std::vector<float>& head_alpha() const { return head_alpha_; }
  /// Of all scorers, "; " between them.
  std::string description() const;

 private:
  std::vector<std::shared_ptr<TokenScorer>> scorers_;
  std::vector<float> head_alpha_;
  mutable std::map<std::uint64_t, std::shared_ptr<TokenScorer>> random_;  // by seed
};

/// Gates that belong to a model's folder: its own, and one a folder in gates/, in the order of their names.
std::vector<std::filesystem::path> gates_beside(const std::filesystem::path& folder);

}  // namespace kvscope::engine
