#include "app/session/attention_probe.h"

#include <utility>

#include "engine/core/protocol/events.h"
#include "engine/core/support/hash.h"

namespace kvscope::app {
namespace {

constexpr std::size_t kMostKept = 32;

}  // namespace

const AttentionProbe::Known* AttentionProbe::find(const Key& key) const {
  for (const Known& known : known_) {
    if (known.key == key) return &known;
  }
  return nullptr;
}

void AttentionProbe::keep(Known known) {
  known_.push_front(std::move(known));
  if (known_.size() > kMostKept) known_.pop_back();
}

void AttentionProbe::poll(const views::ShownRun* a, const views::Selection& at) {
  if (!std::exchange(asked_.wanted, false)) return;
  const Known now = a && !a->run->ids.empty() && at.token >= 0 ? look(a->run, at.layer, at.token) : Known{};
  if (asked_.answer == now.answer && asked_.why_not == now.why_not) return;
  asked_.answer = now.answer;
  asked_.why_not = now.why_not;
  revision_.rise();
}

AttentionProbe::Known AttentionProbe::look(const std::shared_ptr<const RunRecord>& run, int layer, int token) {
  if (run != hashed_) {
    hashed_ = run;
    hash_ = fnv1a64({reinterpret_cast<const char*>(run->ids.data()), run->ids.size() * sizeof run->ids[0]});
  }
  const Key key{run->model.weights_hash, hash_, layer, token};
  if (const Known* known = find(key)) return *known;
  if (std::string why_not = engine_.why_not_ask(*run, "attention"); !why_not.empty())
    return {key, nullptr, std::move(why_not)};
  if (!engine_.question_pending()) {
    ask(key, *run);
  } else if (asking_ && !(on_its_way_ == key)) {
    engine_.cancel_question();  // its end brings a frame, which asks; what others asked is waited for
  }
  return {key, nullptr, ""};
}

void AttentionProbe::ask(const Key& key, const RunRecord& run) {
  on_its_way_ = key;
  asking_ = true;
  engine_.ask(TokenAttentionRequest{.ids = run.ids, .layer = key.layer, .tokens = {key.token}},
              [this, key](const nlohmann::json* done, const std::string& why_not) {
                asking_ = false;
                if (done) {
                  keep({key, std::make_shared<TokenAttention>(protocol::token_attention_from_event(*done)), ""});
                } else if (!why_not.empty()) {
                  keep({key, nullptr, why_not});
                }
                revision_.rise();
              });
}

}  // namespace kvscope::app
