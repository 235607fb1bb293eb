#include "app/session/gate_probe.h"

#include <utility>

#include "engine/core/protocol/events.h"
#include "engine/core/support/hash.h"

namespace kvscope::app {
namespace {

constexpr std::size_t kMostTexts = 4;  // texts; of SmolLM2 and 1000 tokens 0.36 MB a gate

}  // namespace

GateProbe::Key GateProbe::key_of(const RunRecord& run) const {
  const std::uint64_t ids =
      fnv1a64({reinterpret_cast<const char*>(run.ids.data()), run.ids.size() * sizeof run.ids[0]});
  return {run.model.weights_hash, ids, engine_.gates_to_load()};
}

const GateProbe::Known* GateProbe::find(const Key& key) const {
  for (const Known& known : known_) {
    if (known.key == key) return &known;
  }
  return nullptr;
}

void GateProbe::keep(Known known) {
  known_.push_front(std::move(known));
  if (known_.size() > kMostTexts) known_.pop_back();
}

std::shared_ptr<const ScoresOfGates> GateProbe::look(const std::shared_ptr<const RunRecord>& run) {
  wanted_ = nullptr;
  why_not_.clear();
  if (const Known* known = find(key_of(*run))) {
    why_not_ = known->why_not;
    return known->scores;
  }
  if (run->status == RunStatus::running) {
    why_not_ = "The run is in progress. Its tokens are scored when it ends.";
  } else if (engine_.gates().scorers.empty()) {
    why_not_ = "No loaded gate can score the run's tokens.";
  } else {
    why_not_ = engine_.why_not_ask(*run, "gate_scores");
  }
  if (why_not_.empty()) wanted_ = run;
  return nullptr;
}

void GateProbe::poll() {
  if (!wanted_ || engine_.question_pending()) return;  // another one: its end brings the next poll
  why_not_ = engine_.why_not_ask(*wanted_, "gate_scores");
  if (why_not_.empty()) return ask(*wanted_);
  wanted_ = nullptr;
  answered_();
}

void GateProbe::ask(const RunRecord& run) {
  engine_.ask(GateScoresRequest{.ids = run.ids},
              [this, key = key_of(run), model = run.model](const nlohmann::json* done, const std::string& why_not) {
                if (done) {
                  auto scores = std::make_shared<ScoresOfGates>(protocol::gate_scores_from_event(*done, model));
                  keep({key, std::move(scores), ""});
                } else if (!why_not.empty()) {
                  keep({key, nullptr, why_not});
                }
                if (std::exchange(wanted_, nullptr)) answered_();
              });
}

}  // namespace kvscope::app
