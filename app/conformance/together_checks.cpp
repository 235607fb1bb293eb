// Runs at the same time, for engines that declare that they take several.

#include "app/conformance/check_groups.h"
#include "app/conformance/recorded_run.h"
#include "engine/core/protocol/protocol.h"
#include "engine/core/support/text.h"

namespace kvscope::app::conformance {
namespace {

using nlohmann::json;

constexpr int kAfterTokens = 3;

/// Two runs of different lengths; the second is drawn at random.
std::vector<RunRequest> two_requests(const Subject& subject) {
  const PolicySpec policy = subject.base_policy();
  std::vector<RunRequest> requests = {subject.request(policy, kBasePrompt, kBaseNew),
                                      subject.request(policy, kBasePrompt / 2, 2 * kBaseNew)};
  requests[1].sampling.temperature = 1;
  requests[1].sampling.seed = 7;
  return requests;
}

void require_same(const Subject& subject, const RunRecord& found, const RunRecord& alone, const std::string& what) {
  require_same_tokens(found, alone, subject.tolerance(), what);
  require_same_lifetimes(found, alone, "in the run alone");
}

std::string as_alone(Subject& subject) {
  const std::vector<RunRequest> requests = two_requests(subject);
  const std::vector<RecordedRun> found = record_together(subject, requests);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const RecordedRun alone = record(subject, requests[i]);
    const std::string what = "run " + std::to_string(i + 1) + " of two at once";
    require(found[i].run.n_tokens() == alone.run.n_tokens(), what + " has " + std::to_string(found[i].run.n_tokens()) +
                                                                 " tokens; alone it has " +
                                                                 std::to_string(alone.run.n_tokens()));
    require_same(subject, found[i].run, alone.run, what);
  }
  return "two runs at once have the tokens, log-probabilities and lifetimes of each alone";
}

std::string one_cancelled(Subject& subject) {
  const std::vector<RunRequest> requests = two_requests(subject);
  int n_steps = 0;
  const std::vector<RecordedRun> found = record_together(subject, requests, [&](std::size_t run, const json& event) {
    if (run == 0 && event.value("type", "") == "step" && ++n_steps == kAfterTokens + 1)
      subject.talk.steer(protocol::CancelRequest{protocol::message_id(event)});
  });
  require(found[1].run.status == RunStatus::complete,
          "a cancel of the first of two runs ended the second: status " + std::string(to_string(found[1].run.status)));
  for (std::size_t i = 0; i < requests.size(); ++i)
    require_same(subject, found[i].run, record(subject, requests[i]).run, "run " + std::to_string(i + 1));
  return "the first run has status " + std::string(to_string(found[0].run.status)) + "; the second is whole";
}

}  // namespace

void check_together(Checks& checks, Subject& subject) {
  if (!subject.does("run") || subject.offer.runs_at_once < 2) return;
  checks.check("together: two runs at once", [&] { return as_alone(subject); });
  checks.check("together: one of two runs is cancelled", [&] { return one_cancelled(subject); });
}

}  // namespace kvscope::app::conformance
