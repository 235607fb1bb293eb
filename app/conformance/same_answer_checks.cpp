// The same request with the same seed gives the same answer.

#include "app/conformance/check_groups.h"
#include "app/conformance/recorded_run.h"

namespace kvscope::app::conformance {
namespace {

RecordedRun run_with(Subject& subject, double temperature, std::uint64_t seed) {
  RunRequest request = subject.request(subject.base_policy(), kBasePrompt, kBaseNew);
  request.sampling.temperature = temperature;
  request.sampling.seed = seed;
  return record(subject, request);
}

void require_same(Subject& subject, const RecordedRun& a, const RecordedRun& b, const std::string& what) {
  require_same_tokens(b.run, a.run, subject.tolerance(), what);
  require_same_lifetimes(b.run, a.run, "in the first of two equal runs");
}

std::string greedy(Subject& subject) {
  require_same(subject, run_with(subject, 0, 1), run_with(subject, 0, 2), "the same greedy run again");
  return "the same tokens, log-probabilities and lifetimes, whatever the seed";
}

std::string sampled(Subject& subject) {
  const RecordedRun first = run_with(subject, 1, 7), again = run_with(subject, 1, 7);
  require_same(subject, first, again, "the same sampled run again, with the same seed");
  for (const std::uint64_t seed : {8, 9, 10}) {
    if (run_with(subject, 1, seed).run.ids != first.run.ids) return "the same answer; another seed gives another one";
  }
  return "the same answer; three other seeds give the same one too";
}

}  // namespace

void check_same_answer(Checks& checks, Subject& subject) {
  if (!subject.does("run")) return;
  checks.check("same answer: greedy", [&] { return greedy(subject); });
  checks.check("same answer: sampled with one seed", [&] { return sampled(subject); });
}

}  // namespace kvscope::app::conformance
