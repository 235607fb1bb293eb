#include "app/session/session.h"

#include <utility>

#include "app/engine_client/run_setup.h"
#include "app/session/answer.h"
#include "app/session/asked_runs.h"
#include "app/support/usage.h"
#include "engine/core/policy/least_budget.h"
#include "engine/core/record/command_line.h"
#include "engine/core/study/measure/lifetime_differences.h"
#include "engine/core/support/error.h"

namespace kvscope::app {
namespace {

std::string compare_with_cut_run(const RunRecord& cut, const RunRecord& run) {
  const LifetimeDifferences found = lifetime_differences(cut, run);
  const std::string from = "resumed from token " + std::to_string(cut.n_tokens()) + ": ";
  if (found.n_different == 0) return from + "its " + std::to_string(found.n) + " earlier evictions are unchanged";
  return from + std::to_string(found.n_different) + " of its " + std::to_string(found.n) +
         " earlier evictions differ from before";
}

/// "run 3 complete: 274 tokens, prefill 0.12 s, 35.0 tok/s"
std::string summary(const RunEntry& entry) {
  const RunRecord& run = *entry.run;
  const RunTimings& timings = run.timings;
  const double rate = timings.decode_s > 0 ? timings.decode_steps / timings.decode_s : 0;
  return "run " + std::to_string(entry.id) + " " + std::string(to_string(run.status)) + ": " +
         std::to_string(run.n_tokens()) + " tokens, prefill " + fixed_text(timings.prefill_s, 2) + " s, " +
         rate_text(rate);
}

}  // namespace

Session::Session(Options options)
    : messages_(revision_),
      files_(messages_, revision_, background_),
      remote_(messages_, revision_, options.wake),
      next_run_(revision_, background_),
      preview_(options.wake, [this] { runs_.update(); }),
      runs_(engine_, preview_, selection_, messages_, revision_, background_),
      engine_({.command = options.engine_command,
               .load = {.model = "", .device = options.device, .dtype = options.dtype, .gates = options.gates},
               .wake = options.wake,
               .on_snapshot =
                   [this](RunAssembler::Snapshot snapshot) {
                     const ChatListener::Shown before = runs_.shown_ids();
                     runs_.grow(std::move(snapshot));
                     chat_.take_place(before);
                   },
               .on_run_done = [this] { run_done(); },
               .on_model =
                   [this] {
                     files_.remember(engine_.model_path());
                     policy_.take_model();
                     if (std::exchange(cut_run_.due, false) && can_resume()) go_on_with_cut_run();
                   },
               .on_offer = [this] { policy_.take_offer(); },
               .on_return = [this] { model_.go_back(); }},
              messages_, revision_, background_),
      policy_(next_run_, engine_, runs_, preview_, messages_, revision_, background_),
      model_(next_run_, engine_, policy_, files_, messages_, {revision_, background_}, options.gates),
      attention_(engine_, revision_),
      query_attention_(engine_, revision_),
      summaries_(revision_, options.wake),
      folders_(revision_, options.wake),
      chat_(next_run_, runs_),
      traces_(*this, options.trace_program),
      studies_(options.trace_program, files_, messages_, revision_, background_, selection_),
      study_jobs_(options.program, options.study_forms, options.wake, messages_, revision_),
      background_(options.wake) {}

bool Session::poll() {
  const std::uint64_t before = revision();
  engine_.poll();
  policy_.poll();
  preview_.poll();
  summaries_.poll();
  folders_.poll();
  messages_.poll();
  for (const auto& finish : background_.take_finished()) finish();
  remote_.poll();
  if (!run_in_progress()) chat_.take_answer();
  heads_.poll();
  studies_.poll(engine_);
  study_jobs_.poll();
  point_.poll();
  return revision() != before;
}

void Session::restart_engine() {
  messages_.engine_restarted();
  const bool cut_short = run_in_progress();
  engine_.discard();
  if (cut_short) runs_.fail("the engine was restarted");
  engine_.start();
  if (const std::string path = engine_.model_path(); !path.empty()) model_.open(path);
}

void Session::start(Asked asked, Runs::Place place, const std::optional<RunRequest>& rest) {
  engine_.check_ready();
  if (asked.request.prompt.empty() && asked.request.prompt_ids.empty())
    usage_error("prompt", "empty", "at least one token");
  if (!rest) {
    raise_budget(asked.request);
    asked.gates = policy_.gates_of(asked.request.policy);
  }
  asked.engine = engine_.command();
  asked.request = protocol::fitted(engine_.offer(), std::move(asked.request));
  const RunRequest request = rest ? protocol::fitted(engine_.offer(), *rest) : asked.request;
  check_offered(engine_.offer(), request);
  const RunRecord record = start_record(*engine_.model(), std::move(asked), engine_.offer().recorder());
  cut_run_.run.reset();
  runs_.begin(record, place);
  engine_.begin_run(request, record);
}

// A share of a short text can be less than sinks and window take: a user's first prompt would be refused.
void Session::raise_budget(RunRequest& request) {
  const int n = request.prompt_ids.empty() ? next_run_.n_positions()
                                           : static_cast<int>(request.prompt_ids.size()) + request.max_tokens;
  const auto raised = raised_budget(policy_.on_model(request.policy), n);
  if (!raised) return;
  request.policy.budget = {BudgetSpec::Kind::tokens, static_cast<double>(raised->least)};
  messages_.notify(describe_raised(*raised, n));
}

void Session::start_run() {
  start({.request = next_run_.request()}, Runs::Place::a);
  if (parameters().raw) return;
  next_run_.sent();
  chat_.begin("", 0);
}

void Session::continue_run() {
  if (!runs_.a() || runs_.a()->run->n_tokens() <= runs_.a()->run->prompt_len)
    usage_error("run", "A has no answer to continue");
  if (has_end_mark(*runs_.a()->run)) usage_error("run", "A's answer is complete");
  const bool of_chat = runs_.a() == chat_.run();
  // The stop text that it ended at is among the tokens that it goes on from.
  const std::string so_far = of_chat ? chat_.on_show()->so_far + answer_text(*runs_.a()->run) : "";
  const int n_so_far = chat_.tokens_before() + runs_.a()->run->n_tokens() - runs_.a()->run->prompt_len;
  const int last = runs_.a()->run->n_tokens() - 1;
  start(asked_fork(next_run_, *runs_.a(), last), Runs::Place::a);
  if (of_chat) chat_.begin(so_far, n_so_far);
}

void Session::fork_run(int q) {
  if (!runs_.a() || q < 0 || q >= runs_.a()->run->n_tokens()) usage_error("q", std::to_string(q), "a query of A");
  Asked fork = asked_fork(next_run_, *runs_.a(), q);
  const RunRecord& of = *runs_.a()->run;
  const bool under_its_policy = policy_.is_measured_by(of, with_least_budget(policy_.in_effect(), of.n_positions));
  // It is to have A's cache then: a share of its longer text would be another budget.
  if (auto& budget = fork.request.policy.budget; budget && under_its_policy)
    budget = {BudgetSpec::Kind::tokens, static_cast<double>(of.policy.budget_tokens(of.n_positions))};
  start(std::move(fork), Runs::Place::b);
  const bool a_drew_next = q + 1 >= of.prompt_len;
  if (parameters().sampling.temperature == 0 && under_its_policy && a_drew_next)
    messages_.notify(
        "This fork repeats A's text, because sampling is greedy and the policy is A's. Change one of "
        "them for a different text.");
}

void Session::decode_again() {
  if (!runs_.a() || runs_.a()->run->prompt_len == 0) return start_run();
  start(asked_again(next_run_, *runs_.a()->run), Runs::Place::b);
}

void Session::replay(const PolicySpec& policy) {
  if (!runs_.a() || runs_.a()->run->n_tokens() == 0) usage_error("replay", "no run A");
  start(asked_replay(next_run_, *runs_.a(), policy), Runs::Place::b);
}

bool Session::can_resume() const {
  return engine_.run_cut_off() && !run_in_progress() && runs_.find(runs_.newest_begun()) != nullptr;
}

void Session::resume_run() {
  if (!can_resume()) usage_error("run", "no run was cut off by the engine");
  if (engine_.state() == EngineState::ready && engine_.model()) return go_on_with_cut_run();
  cut_run_.due = true;
  restart_engine();
}

void Session::go_on_with_cut_run() {
  const RunEntry entry = *runs_.find(runs_.newest_begun());
  const bool is_b = runs_.b_id() == entry.id;
  const bool of_chat = entry.id == chat_.last().run;
  // A turn without a token of an answer had become a draft again.
  const std::vector<ChatMessage>& turns = parameters().chat.turns;
  const bool is_draft = of_chat && (turns.empty() || turns.back().role != "user") && chat_.last().text.empty() &&
                        parameters().prompt == entry.run->prompt_text;
  start(asked_resume(entry), is_b ? Runs::Place::b : Runs::Place::a, rest_of(entry.run->asked->request, *entry.run));
  cut_run_.run = entry.run;
  if (!of_chat) return;
  if (is_draft) next_run_.sent();
  chat_.begin(chat_.last().so_far, chat_.last().tokens_before);
}

void Session::run_done() {
  if (const RunEntry* entry = runs_.find(runs_.newest_begun())) {
    messages_.log(summary(*entry));
    const RunRecord& run = *entry->run;
    const auto cut = std::exchange(cut_run_.run, nullptr);
    if (cut && cut->n_tokens() > 0 && run.status != RunStatus::failed)
      messages_.notify(compare_with_cut_run(*cut, run));
    if (run.status == RunStatus::cancelled)
      messages_.notify("stopped at " + std::to_string(run.n_tokens() - run.prompt_len) + " of " +
                       std::to_string(run.n_positions - run.prompt_len) + " new tokens");
    point_.compare(*entry);
  }
  runs_.suggest_metric();
  // A run that was decoded to be compared with A stays on show; a preview comes with the next change of the policy.
  if (!runs_.b() || runs_.b()->id != runs_.newest_begun()) policy_.request_preview();
}

std::string Session::command_line() const {
  const std::string& model = engine_.model_path();
  return kvscope::command_line(
      model.empty() ? "MODEL" : model,
      {.request = next_run_.request(), .gates = policy_.gates_of(parameters().policy), .engine = engine_.command()});
}

}  // namespace kvscope::app
