#include "app/engine_client/run_setup.h"

#include <utility>

#include "app/support/usage.h"
#include "engine/core/support/text.h"

namespace kvscope::app {

RunRecord start_record(const ModelInfo& model, Asked asked, std::string recorder) {
  RunRecord run;
  run.model = model;
  run.policy = asked.request.policy;
  run.sampling = asked.request.sampling;
  run.prompt_text = asked.request.prompt;
  run.chunk = asked.request.chunk;
  run.recorder = std::move(recorder);
  run.started_utc = utc_now();
  asked.key = key_of(asked, model.weights_hash, run.started_utc);
  run.asked = std::make_shared<const Asked>(std::move(asked));
  return run;
}

void check_offered(const protocol::EngineOffer& offer, const protocol::Request& request) {
  if (const std::string why = protocol::why_not(offer, request); !why.empty()) usage_error("engine", why);
}

}  // namespace kvscope::app
