// A cancel in the middle of a run, and one that comes too late.

#include <algorithm>

#include "app/conformance/check_groups.h"
#include "app/conformance/recorded_run.h"
#include "engine/core/protocol/events.h"
#include "engine/core/protocol/protocol.h"
#include "engine/core/support/text.h"

namespace kvscope::app::conformance {
namespace {

using nlohmann::json;

constexpr int kAfterTokens = 3;
// So long that no engine ends by itself before it has read the cancel, and a slow one that ignores it still ends.
constexpr int kMostNew = 1500, kLeastNew = 200;
constexpr double kSeconds = 10;

int length_of(const RecordedRun& base) {
  const double step = base.run.timings.decode_s / std::max(1, base.run.timings.decode_steps);
  return static_cast<int>(std::clamp(kSeconds / std::max(step, 1e-4), double{kLeastNew}, double{kMostNew}));
}

std::string in_mid_run(Subject& subject) {
  const PolicySpec policy = subject.base_policy();
  const RecordedRun whole = record(subject, subject.request(policy, kBasePrompt, kBaseNew));
  const RunRequest request = subject.request(policy, kBasePrompt, length_of(whole));
  int n_steps = 0;
  const RecordedRun cut = record(subject, request, [&](const json& event) {
    if (event.value("type", "") == "step" && ++n_steps == kAfterTokens + 1)
      subject.talk.steer(protocol::CancelRequest{subject.talk.current()});
  });
  const int n_new = cut.run.n_tokens() - cut.run.prompt_len;
  require(cut.run.status == RunStatus::cancelled, "a run that was cancelled after " + std::to_string(kAfterTokens) +
                                                      " tokens went on to its end: " + std::to_string(n_new) +
                                                      " tokens, status " + std::string(to_string(cut.run.status)));
  require_same_tokens(cut.run, whole.run, subject.tolerance(), "the cancelled run");
  require_same_lifetimes(cut.run, whole.run, "in the run that was not cancelled");
  return "done with status cancelled after " + std::to_string(n_new) + " of " + std::to_string(request.max_tokens) +
         " tokens, which are those of the whole run";
}

std::string too_late(Subject& subject) {
  const RunRequest request = subject.request(subject.base_policy(), kBasePrompt, 2);
  record(subject, request);
  subject.talk.steer(protocol::CancelRequest{subject.talk.current()});
  const RecordedRun next = record(subject, request);
  require(next.run.status == RunStatus::complete, "a cancel of a request that had ended stopped the next one: status " +
                                                      std::string(to_string(next.run.status)));
  return "passed over; the next run is complete";
}

}  // namespace

void check_cancel(Checks& checks, Subject& subject) {
  if (!subject.does("run")) return;
  checks.check("cancel: in the middle of a run", [&] { return in_mid_run(subject); });
  checks.check("cancel: of a request that has ended", [&] { return too_late(subject); });
}

}  // namespace kvscope::app::conformance
