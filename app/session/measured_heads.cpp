#include "app/session/measured_heads.h"

#include <exception>
#include <filesystem>
#include <utility>

#include "app/session/obstacles.h"
#include "app/session/session.h"
#include "app/support/usage.h"

namespace kvscope::app {

std::string MeasuredHeads::why_not() const {
  const RunEntry* a = session_.runs().a();
  if (!a || a->run->n_tokens() == 0) return "There is no run A to replay.";
  if (session_.run_in_progress()) return "A run is in progress.";
  if (reading_) return "The heads are loading.";
  if (!session_.engine().model()) return "No model is open. Open A's model first.";
  return why_not_of_a(session_);
}

void MeasuredHeads::measure(const std::string& folder) {
  if (const std::string why = why_not(); !why.empty()) usage_error("heads", why);
  reading_ = true;
  const std::string model = session_.engine().model_path();
  session_.files().in_background("measure heads " + folder, [this, folder, model]() -> Worker::Finish {
    GateFacts facts;
    std::exception_ptr unreadable;
    try {
      facts = read_gate({std::filesystem::path(folder).filename().string(), folder, KnownGate::Origin::shipped}, model);
    } catch (...) {
      unreadable = std::current_exception();
    }
    return [this, facts, model, unreadable] {
      reading_ = false;
      if (unreadable) std::rethrow_exception(unreadable);
      if (model != session_.engine().model_path() || session_.run_in_progress() || !session_.runs().a())
        return;  // something else was begun meanwhile
      if (!facts.fits())
        throw Error({.file = facts.gate.name, .found = "these heads do not fit the model: " + facts.misfit});
      session_.model().load_heads(facts);
      a_ = session_.runs().a()->id;  // poll() begins
    };
  });
}

// Once the engine has read the heads; not if A became another run, or the model could not be loaded.
void MeasuredHeads::poll() {
  const EngineLink& engine = session_.engine();
  if (a_ == 0 || engine.is_loading()) return;
  if (std::exchange(a_, 0) != session_.runs().a_id() || engine.state() != EngineState::ready) return;
  const PolicySpec policy = PolicySpec::parse("hybrid:heads=d");
  session_.policy().set(policy);  // else the preview of another one would take B's place
  session_.replay(policy);
}

}  // namespace kvscope::app
