#include "app/conformance/recorded_run.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "app/conformance/checks.h"
#include "engine/core/policy/policy.h"
#include "engine/core/protocol/events.h"
#include "engine/core/protocol/protocol.h"
#include "engine/core/support/text.h"
#include "engine/core/support/utf8.h"

namespace kvscope::app::conformance {
namespace {

using nlohmann::json;

bool is_utf8(const std::string& text) {
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Char c = decode_utf8(text, at);
    if (!c.valid) return false;
    at += c.length;
  }
  return true;
}

/// Takes the events of one run. What apply_event() does not check, because the window does not need it, is checked here.
class RunWatch {
 public:
  RunWatch(const Subject& subject, const RunRequest& request) : subject_(subject), request_(request) {
    run().model = subject.model;
    run().policy = request.policy;
    run().sampling = request.sampling;
    run().prompt_text = request.prompt;
  }

  void take(const json& event) {
    const std::string type = event.value("type", "");
    if (type == "error") return;  // record() has the words
    if (type == "log") out_.log.push_back(event.value("text", ""));
    if (type == "step") check_step(protocol::step_facts_from_json(event));
    const int horizon = run().oracle_horizon;
    if (type == "done") check_before_end(event);
    protocol::apply_event(run(), event);
    if (type == "started") check_started(event);
    if (type == "step") has_prompt_ = true;
    if (type == "oracle") check_oracle(event, horizon);
    if (type == "output_error") has_output_error_ = true;
    if (type == "done") check_done();
  }
  RecordedRun result() { return std::move(out_); }

 private:
  RunRecord& run() { return out_.run; }

  void check_started(const json& event) {
    const std::string text = event["policy"], canonical = run().policy.to_string();
    require(text == canonical, "started: the policy is written " + text + "; its canonical text is " + canonical);
    require(run().policy.name == request_.policy.name,
            "started: the policy " + run().policy.name + "; the request has " + request_.policy.name);
    require(request_.prompt_ids.empty() || run().ids == request_.prompt_ids,
            "started: the ids are not those of the request (prompt_len " + std::to_string(run().prompt_len) + ", " +
                std::to_string(request_.prompt_ids.size()) + " ids in the request)");
    const int wanted = std::min(run().prompt_len + request_.max_tokens, subject_.model.max_positions);
    require(run().n_positions == wanted, "started: n_positions " + std::to_string(run().n_positions) + "; expected " +
                                             std::to_string(wanted) + ", prompt and max_tokens within the context");
    require(run().chunk == request_.chunk,
            "started: chunk " + std::to_string(run().chunk) + "; the request has " + std::to_string(request_.chunk));
    check_local_layers();
  }

  /// What the load and the run's table of heads say of layers that are local by design.
  void check_local_layers() {
    const std::vector<std::int32_t> windows = run().model_windows();
    for (int layer = 0; layer < run().model.n_layers; ++layer) {
      const auto local = std::ranges::find(subject_.offer.local_layers, layer, &protocol::LocalLayer::layer);
      const int of_load = local == subject_.offer.local_layers.end() ? 0 : local->window;
      const int of_run = windows.empty() ? 0 : windows[static_cast<std::size_t>(layer)];
      if (subject_.offer.local_layers.empty() || of_load == of_run) continue;
      throw Failure("started: heads have a window of " + std::to_string(of_run) + " in layer " + std::to_string(layer) +
                    "; local_layers of the load has " + std::to_string(of_load));
    }
  }

  void check_step(const StepFacts& facts) {
    require(!run().ids.empty(), "step before started");
    require(!has_output_error_, "a step after output_error");
    const int n_before = run().n_tokens(), n_after = n_before + static_cast<int>(facts.ids.size());
    require(has_prompt_ || facts.ids.empty(), "step: new tokens in the first step, which is the prompt's");
    require(facts.n_tokens >= n_after - 1, "step: n_tokens " + std::to_string(facts.n_tokens) + " with " +
                                               std::to_string(n_after) + " tokens; expected at least " +
                                               std::to_string(n_after - 1) +
                                               ", as the facts of each step are complete");
    require(facts.logprobs.empty() || facts.logprobs_from == n_logprobs_,
            "step: log-probabilities from position " + std::to_string(facts.logprobs_from) + "; expected " +
                std::to_string(n_logprobs_) + ", the first that has none");
    n_logprobs_ += static_cast<int>(facts.logprobs.size());
    check_numbers(facts);
    check_evicted_once(facts);
    if (!facts.ids.empty()) ++n_steps_;
  }

  void check_numbers(const StepFacts& facts) {
    for (std::size_t i = 0; i < facts.logprobs.size(); ++i) {
      const int position = facts.logprobs_from + static_cast<int>(i);
      if (position < run().prompt_len || !std::isnan(facts.logprobs[i])) continue;
      throw Failure("step: no log-probability (NaN) of token " + std::to_string(position) + ", which is a new one");
    }
    for (const auto& [layer, head, token, value] : facts.scores) {
      if (!std::isnan(value)) continue;
      throw Failure("step: the score of token " + std::to_string(token) + in_head(layer, head) + " is NaN");
    }
  }

  /// Within a step; apply_event() sees to it from step to step.
  static void check_evicted_once(const StepFacts& facts) {
    std::set<std::array<std::int32_t, 3>> evicted;
    for (const auto& [layer, head, token, evict_at] : facts.lifetimes) {
      if (evicted.insert({layer, head, token}).second) continue;
      throw Failure("step: token " + std::to_string(token) + in_head(layer, head) + " is evicted twice");
    }
  }

  static std::string in_head(int layer, int head) {
    return " in layer " + std::to_string(layer) + " head " + std::to_string(head);
  }

  void check_oracle(const json& event, int horizon_before) {
    require(request_.oracle, "an event oracle in a run without one");
    require(!out_.has_oracle, "an event oracle after the final one");
    require(run().oracle_horizon >= horizon_before,
            "oracle: horizon " + std::to_string(run().oracle_horizon) + " after " + std::to_string(horizon_before));
    out_.horizons.push_back(run().oracle_horizon);
    out_.has_oracle = event["final"];
    out_.recall = protocol::unpack_f32(event, "recall");
  }

  void check_before_end(const json& event) {
    require(!run().ids.empty() || protocol::was_cancelled(event), "done before started");
    out_.text = event.value("text", "");
  }

  void check_done() {
    require(run().timings.decode_steps == n_steps_, "done: " + std::to_string(run().timings.decode_steps) +
                                                        " decode steps in its timings; " + std::to_string(n_steps_) +
                                                        " came with a token");
    if (run().status != RunStatus::complete) return;
    require(has_prompt_, "done without a step for the prompt");
    require(n_logprobs_ == run().n_tokens(), "done: " + std::to_string(n_logprobs_) + " log-probabilities of " +
                                                 std::to_string(run().n_tokens()) + " tokens");
    require(run().n_queries >= run().n_tokens() - 1, "done: facts of " + std::to_string(run().n_queries) + " of " +
                                                         std::to_string(run().n_tokens()) + " positions");
    const bool cut = request_.stop_at_eos || !request_.stop.empty();
    const int n_new = run().n_tokens() - run().prompt_len;
    const int wanted = request_.draws() ? run().n_positions - run().prompt_len
                                        : static_cast<int>(request_.answer_ids.value_or(std::vector<int>()).size());
    require(cut || n_new == wanted, "done: complete with " + std::to_string(n_new) + " new tokens; expected " +
                                        std::to_string(wanted) + ", as the request has no end text");
    const std::string pieces = joined_pieces(run(), run().prompt_len);
    require(cut || !is_utf8(pieces) || out_.text == pieces, "done: the text is not that of the pieces of the answer: " +
                                                                in_quotes(out_.text) + ", pieces " + in_quotes(pieces));
  }

  const Subject& subject_;
  const RunRequest& request_;
  RecordedRun out_;
  int n_logprobs_ = 0, n_steps_ = 0;
  bool has_prompt_ = false, has_output_error_ = false;
};

}  // namespace

RecordedRun record(Subject& subject, const RunRequest& request, const Conversation::Handler& handler) {
  RunWatch watch(subject, request);
  subject.talk.done(request, [&](const json& event) {
    watch.take(event);
    if (handler) handler(event);
  });
  return watch.result();
}

std::vector<RecordedRun> record_together(Subject& subject, const std::vector<RunRequest>& requests,
                                         const Conversation::HandlerOfMany& handler) {
  std::vector<RunWatch> watches;
  std::vector<json> messages;
  for (const RunRequest& request : requests) {
    watches.emplace_back(subject, request);
    messages.push_back(protocol::to_json(request, 0));
  }
  subject.talk.done_together(std::move(messages), [&](std::size_t place, const json& event) {
    watches[place].take(event);
    if (handler) handler(place, event);
  });
  std::vector<RecordedRun> runs;
  for (RunWatch& watch : watches) runs.push_back(watch.result());
  return runs;
}

std::string joined_pieces(const RunRecord& run, int from) {
  std::string text;
  for (int i = from; i < run.n_tokens(); ++i) text += run.pieces[static_cast<std::size_t>(i)];
  return text;
}

void require_same_tokens(const RunRecord& found, const RunRecord& wanted, double tolerance, const std::string& what) {
  const auto n = static_cast<std::size_t>(std::min(found.n_tokens(), wanted.n_tokens()));
  for (std::size_t i = 0; i < n; ++i) {
    require(found.ids[i] == wanted.ids[i], what + ": token " + std::to_string(i) + " is " +
                                               std::to_string(found.ids[i]) + ", not " + std::to_string(wanted.ids[i]));
    const double a = found.logprobs[i], b = wanted.logprobs[i];
    const bool same = std::isnan(a) || std::isnan(b) || std::abs(a - b) <= tolerance * (1 + std::abs(b));
    require(same, what + ": the log-probability of token " + std::to_string(i) + " is " + number_text(a, 4) + ", not " +
                      number_text(b, 4));
  }
}

void require_same_lifetimes(const RunRecord& found, const RunRecord& wanted, const std::string& what) {
  const int n = std::min(found.queries(), wanted.queries());
  const auto in_words = [n](std::int32_t evict_at) {
    return evict_at < n ? "is evicted at query " + std::to_string(evict_at) : std::string("stays");
  };
  std::string first;
  int n_heads = 0;
  for (int layer = 0; layer < wanted.model.n_layers; ++layer) {
    for (int head = 0; head < wanted.model.n_kv_heads; ++head) {
      const auto &a = found.evict_at.row(layer, head), &b = wanted.evict_at.row(layer, head);
      bool differs = false;
      for (int t = 0; t < n; ++t) {
        const auto i = static_cast<std::size_t>(t);
        if (a[i] == b[i] || (a[i] >= n && b[i] >= n)) continue;
        if (first.empty())
          first = "token " + std::to_string(t) + " in layer " + std::to_string(layer) + " head " +
                  std::to_string(head) + " " + in_words(a[i]) + "; " + what + " it " + in_words(b[i]);
        differs = true;
      }
      n_heads += differs ? 1 : 0;
    }
  }
  require(first.empty(), "lifetimes: " + first + " (" + std::to_string(n_heads) + " of " +
                             std::to_string(wanted.model.n_layers * wanted.model.n_kv_heads) + " heads differ)");
}

}  // namespace kvscope::app::conformance
