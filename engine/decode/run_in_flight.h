#pragma once
// A run on its way: the prompt, token by token, and what is measured at its end. It is driven alone (run.h) or together
// with others (run_batch.h).

#include <memory>
#include <string>

#include "engine/core/record/run_record.h"
#include "engine/decode/generation.h"
#include "engine/decode/run_sink.h"

namespace kvscope::engine {

class DenseTeacher;

/// How a run begins, as the facts that open a record.
RunStarted started_facts(const Generation& run);

/// To be driven so, whatever happens between two calls:
///
///     run.prefill();
///     while (run.begin_step()) run.end_step(run.generation().step());
///     run.finish();
///
/// Everything throws what Generation throws; then the run is good for nothing more. A run that is cancelled takes no
/// further step, and finish() says so.
class RunInFlight {
 public:
  /// Reports `started`.
  RunInFlight(const LoadedModel& model, const RunRequest& request, RunSink sink);
  ~RunInFlight();

  /// Passes the prompt through the model.
  void prefill();
  /// Before a token: changes of the policy hold from here on. False: no token follows.
  bool begin_step();
  /// Takes the token between begin_step() and end_step().
  Generation& generation() { return run_; }
  void end_step(StepFacts facts);
  /// The final oracle and the output error, as far as they are asked for.
  RunEnded finish();

 private:
  bool wants_oracle() const { return run_.request().oracle && sink_.oracle; }
  void tell(StepFacts facts);
  void wait_for_device() const;
  void tell_changes_of_text() const;
  void change_policy();
  void change_policy(const PolicySpec& policy);
  bool look_is_due() const;
  bool look(bool final, const Hooks& hooks);
  OracleFacts oracle_facts(bool final);

  RunSink sink_;
  Generation run_;
  RunRecord record_;                       // lifetimes and reads, for what is measured beside the run
  std::unique_ptr<DenseTeacher> teacher_;  // made when it first looks
  bool has_looked_ = false, is_cancelled_ = false;
};

}  // namespace kvscope::engine
