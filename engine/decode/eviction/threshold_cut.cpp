// A threshold after a dense prompt: the prompt's queries see all of it, and what does not pass leaves after the last of them
// (KVzap as kvpress runs it). During the answer the kernel decides, token by token, as ever.
#include <cmath>

#include "engine/decode/eviction/mass_eviction.h"
#include "kernels/rule/retain.h"

namespace kvscope::engine {
namespace {

class ThresholdCut final : public AttentionMethod {
 public:
  using AttentionMethod::AttentionMethod;
  void after_prompt(int prompt_len, StepFacts* facts) override {
    const RetentionGeometry& geometry = state_.policy.geometry();
    evict(
        state_, prompt_len, [this] { return state_.policy.answer_slots(); }, by_priority(state_),
        [&](int layer, std::vector<HeadTokens> heads) {
          std::vector<std::vector<std::int32_t>> leave;
          for (HeadTokens& tokens : heads) {
            const int head = layer * static_cast<int>(heads.size()) + static_cast<int>(leave.size());
            tokens.protect(geometry.n_sink, prompt_len - geometry.window);
            leave.emplace_back();
            for (std::size_t i = 0; i < tokens.worth.size(); ++i)
              if (!passes(head, tokens.worth[i])) leave.back().push_back(static_cast<std::int32_t>(i));
          }
          return leave;
        },
        facts);
  }
  /// A text that is only read has no dense prompt.
  void after_chunk(int, StepFacts*) override {}

 private:
  /// `worth`: infinite of a token that is protected.
  bool passes(int head, float worth) const {
    return worth == INFINITY || kernels::passes(worth, state_.policy.threshold(head), state_.policy.plan().strict);
  }
};

}  // namespace

std::unique_ptr<AttentionMethod> make_threshold_cut(SequenceState& state) {
  return std::make_unique<ThresholdCut>(state);
}

}  // namespace kvscope::engine
