#include "app/engine_client/run_setup.h"

#include <utility>

#include "engine/core/support/text.h"

namespace kvscope::app {

RunRecord start_record(const ModelInfo& model, Asked asked) {
  RunRecord run;
  run.model = model;
  run.policy = asked.request.policy;
  run.sampling = asked.request.sampling;
  run.prompt_text = asked.request.prompt;
  run.chunk = asked.request.chunk;
  run.started_utc = utc_now();
  asked.key = key_of(asked, model.weights_hash, run.started_utc);
  run.asked = std::make_shared<const Asked>(std::move(asked));
  return run;
}

}  // namespace kvscope::app
