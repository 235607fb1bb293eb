// The wire's way into a record: an event becomes a fact, and the record checks it.
#include "engine/core/protocol/events.h"
#include "engine/core/protocol/fields.h"
#include "engine/core/record/assemble.h"
#include "engine/core/record/check.h"
#include "engine/core/record/pipe_gate.h"

namespace kvscope::protocol {
namespace {

/// What a message calls a member of the record.
std::string_view field_of(std::string_view member) {
  if (member == "evict_at") return "lifetimes";
  if (member == "scores") return "score_index";
  return member;
}

}  // namespace

void apply_event(RunRecord& run, const nlohmann::json& event) {
  const std::string type = text(event, "type");
  try {
    if (type == "started") {
      begin_run(run, started_from_json(event, run.policy.declared));
    } else if (type == "step") {
      apply(run, step_facts_from_json(event));
    } else if (type == "policy") {
      apply(run, policy_change_from_json(event, run.policy.declared));
    } else if (type == "oracle") {
      apply(run, oracle_facts_from_json(event, run.model));
    } else if (type == "output_error") {
      apply(run, output_error_facts_from_json(event, run.model));
    } else if (type == "done") {
      end_run(run, run_ended_from_json(event));
    } else if (type == "error") {
      finish_run(run, RunStatus::failed, line_in_files(error_from_event(event)));
    }
  } catch (const RunFault& fault) {
    bad_field(event, field_of(fault.parts().where), fault.parts().found, fault.parts().expected);
  } catch (const Error& error) {  // a policy that cannot be read, say: what our own user wrote wrong is found before
    Error::Parts parts = error.parts();
    parts.code = ExitCode::resource;
    throw Error(std::move(parts));
  }
}

}  // namespace kvscope::protocol
