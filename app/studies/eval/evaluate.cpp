#include "app/studies/eval/evaluate.h"

#include "engine/core/protocol/events.h"
#include "engine/core/support/json_fields.h"

namespace kvscope::app {

bool evaluate(EngineJob& job, const EvalRequest& request, const EvalHandlers& handlers) {
  const auto done = job.call(protocol::JobRequest{"eval", json_of_fields(request)}, [&](const nlohmann::json& event) {
    if (event.value("type", "") != "row") return;
    const nlohmann::json data = event.value("data", nlohmann::json::object());
    if (handlers.facts && data.contains("facts")) handlers.facts(fields_of_json<EvalFacts>(data["facts"], "engine"));
    if (handlers.answer && data.contains("answer"))
      handlers.answer(fields_of_json<EvalAnswer>(data["answer"], "engine"));
  });
  return !protocol::was_cancelled(done);
}

}  // namespace kvscope::app
