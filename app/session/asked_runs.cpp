#include "app/session/asked_runs.h"

#include <algorithm>

#include "app/session/run_titles.h"

namespace kvscope::app {

static RunOrigin from(RunOrigin::Kind kind, const RunEntry& entry, int q = -1) {
  return {.kind = kind,
          .of = entry.run->asked == nullptr ? "" : entry.run->asked->key,
          .title = (entry.name.empty() ? "" : entry.name + ": ") + policy_title(*entry.run),
          .q = q};
}

Asked asked_again(const NextRun& next, const RunRecord& run) {
  RunRequest again = next.request();
  again.messages.clear();  // its tokens are given
  again.prompt = run.prompt_text;
  again.prompt_ids.assign(run.ids.begin(), run.ids.begin() + run.prompt_len);
  again.sampling = run.sampling;
  again.max_tokens = std::max(0, run.n_positions - run.prompt_len);
  if (run.asked == nullptr) return {.request = again, .by_text = false};
  // The tokens are the run's, whatever the prompt is set to now; so is how its text became them. If they are those of its
  // prompt's text, a command with that text does it again.
  again.raw = run.asked->request.raw;
  return {.request = again, .by_text = run.asked->by_text && run.asked->request.messages.empty()};
}

Asked asked_fork(const NextRun& next, const RunEntry& of, int q) {
  const RunRecord& run = *of.run;
  RunRequest on = next.request();
  on.prompt = run.prompt_text;
  on.messages.clear();
  on.raw = true;
  on.chat = {};
  on.prompt_ids.assign(run.ids.begin(), run.ids.begin() + std::clamp(q + 1, 1, run.n_tokens()));
  return {.request = on, .by_text = false, .origin = from(RunOrigin::Kind::fork, of, q)};
}

Asked asked_replay(const NextRun& next, const RunEntry& of, const PolicySpec& policy) {
  const RunRecord& run = *of.run;
  RunRequest replay = next.request();
  replay.messages.clear();
  replay.prompt = run.prompt_text;
  replay.policy = policy;
  replay.max_tokens = std::max(run.n_positions, run.n_tokens()) - run.prompt_len;
  if (run.prompt_len == run.n_tokens()) {
    replay.prompt_ids = run.ids;
    replay.chunk = std::max(1, run.chunk);  // as the run that it is compared with
  } else {
    replay.prompt_ids.assign(run.ids.begin(), run.ids.begin() + run.prompt_len);
    replay.answer_ids.emplace(run.ids.begin() + run.prompt_len, run.ids.end());
  }
  return {.request = replay, .by_text = false, .origin = from(RunOrigin::Kind::replay, of)};
}

Asked asked_point(const NextRun& next, const PointToRun& point) {
  RunRequest request = next.request();
  request.messages.clear();
  request.chat = {};
  request.stop.clear();
  request.prompt_ids = point.ids;
  request.policy = PolicySpec::parse(point.point.policy);
  request.max_tokens = 0;
  request.stop_at_eos = false;
  request.chunk = point.point.chunk;
  return {.request = request, .by_text = false};
}

Asked asked_resume(const RunEntry& cut) {
  Asked asked = *cut.run->asked;
  asked.origin = from(RunOrigin::Kind::resumed, cut, cut.run->n_tokens() - 1);
  return asked;
}

// A prompt that had not passed is asked for again, as is what draws nothing.
RunRequest rest_of(const RunRequest& begun, const RunRecord& cut) {
  RunRequest rest = begun;
  if (cut.n_tokens() == 0) return rest;
  rest.prompt_ids.assign(cut.ids.begin(), cut.ids.begin() + cut.prompt_len);
  rest.messages.clear();  // its tokens are given
  rest.raw = true;
  rest.chat = {};
  // What was changed while it went on holds as it did; what was planned for later is still to come.
  rest.changes = cut.changes;
  for (const PolicyChange& change : begun.changes) {
    if (change.q > cut.n_tokens()) rest.changes.push_back(change);
  }
  rest.thresholds = cut.thresholds();
  if (rest.budgets.empty()) rest.budgets = cut.budgets_to_repeat();
  if (!begun.draws() || cut.n_tokens() == cut.prompt_len) return rest;
  rest.answer_ids.emplace(cut.ids.begin() + cut.prompt_len, cut.ids.end());
  rest.draw_on = true;
  return rest;
}

}  // namespace kvscope::app
