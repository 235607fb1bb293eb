#include "app/conformance/conformance.h"

#include "app/conformance/check_groups.h"

namespace kvscope::app {

using namespace conformance;

std::vector<Check> check_conformance(const ConformanceOptions& options,
                                     const std::function<void(const Check&)>& on_check) {
  Checks checks(on_check);
  try {
    Conversation talk(options.engine, options.patience);
    Subject subject{.talk = talk, .options = options};
    check_greeting(checks, subject);
    check_load(checks, subject);
    check_runs(checks, subject);
    check_same_answer(checks, subject);
    check_cancel(checks, subject);
    check_together(checks, subject);
    check_errors(checks, subject);
    check_lifetimes(checks, subject);
    check_score(checks, subject);
    check_oracle(checks, subject);
    check_attention(checks, subject);
    check_services(checks, subject);
    checks.check("quit", [&] {
      const std::string end = talk.quit();
      require(end == "exit code 0", "quit: the engine ended with " + end + "; expected exit code 0");
      return end;
    });
  } catch (const EndOfSuite&) {  // the check that it ended is there
  }
  return checks.all();
}

}  // namespace kvscope::app
