#include "app/session/obstacles.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "app/session/gate_title.h"
#include "app/session/session.h"
#include "engine/core/policy/run_problems.h"

namespace kvscope::app {
namespace {

Remedy open_model_of(const Session& session, const ModelInfo& model) {
  const std::string path = session.model().folder_of(model);
  if (path.empty() || path == session.engine().model_path()) return {"Open a model ...", "model.open"};
  return {"Open " + model.name, "model.open", {{"path", path}}};
}

/// What has nothing to do with prompt and policy.
std::optional<Obstacle> of_engine(const Session& session) {
  const EngineLink& engine = session.engine();
  if (engine.run_in_progress()) return Obstacle{.text = "A run is in progress.", .remedies = {}, .passes = true};
  if (engine.state() == EngineState::dead)
    return Obstacle{.text = "The engine has stopped.", .remedies = {{"Restart engine", "engine.restart"}}};
  if (engine.is_loading() || session.model().reads_folder())
    return Obstacle{.text = "The model is loading.", .remedies = {}, .passes = true};
  if (engine.model() && engine.state() == EngineState::ready) return std::nullopt;
  Obstacle none{.text = "No model is open.", .remedies = {{"Open a model ...", "model.open"}}};
  if (session.runs().a()) none.remedies[0] = open_model_of(session, session.runs().a()->run->model);
  return none;
}

/// Another model reads other words in the same ids, or none, and its evictions are not to be compared with A's.
std::optional<Obstacle> of_other_model(const Session& session) {
  if (!session.engine().model() || !session.runs().a()) return std::nullopt;
  const ModelInfo &open = *session.engine().model(), &of_a = session.runs().a()->run->model;
  if (has_weights_of(open, of_a.name, of_a.weights_hash)) return std::nullopt;
  const std::string text = open.name == of_a.name
                               ? "The open model is also named " + of_a.name + ", but its weights differ from A's."
                               : "The open model is " + open.name + "; A's is " + of_a.name + ".";
  return Obstacle{.text = text, .remedies = {open_model_of(session, of_a)}};
}

RunQuestion question(const Session& session, RunKind kind) {
  const EngineLink& engine = session.engine();
  const ModelInfo& model = *engine.model();
  const GatesOfModel& gates = engine.gates();
  const bool known = !gates.scorers.empty() || model.scorer.empty();  // an engine that lists none may have one
  RunQuestion question{.policy = session.parameters().policy,
                       .shape = {model.n_layers, model.n_kv_heads, {}},
                       .gates = known ? &gates : nullptr,
                       .prompt_tokens = session.next_run().prompt_tokens(),
                       .new_tokens = session.parameters().max_tokens,
                       .max_positions = model.max_positions};
  if (kind == RunKind::start || !session.runs().a()) return question;
  const RunRecord& a = *session.runs().a()->run;
  question.prompt_tokens = a.prompt_len;
  question.new_tokens = std::max(a.n_positions, a.n_tokens()) - a.prompt_len;
  if (kind == RunKind::replay_as_b && session.runs().shown_b())
    question.policy = session.runs().shown_b()->run->policy.closed();
  return question;
}

/// A gate that is here and fits may still have to be asked for: one that changes the weights is never loaded unasked.
std::vector<Remedy> gates_for(const Session& session, const PolicySpec& policy) {
  std::vector<Remedy> remedies;
  for (const GateFacts& gate : session.policy().gates().found()) {
    if (!gate.fits() || !reads_gate(policy, gate.kind) || remedies.size() == 2) continue;
    remedies.push_back(
        {"Load " + gate_title(gate), "policy.set", {{"policy", policy.written()}, {"gate", gate.gate.name}}});
  }
  remedies.push_back({"Load a gate ...", "gate.open"});
  return remedies;
}

Obstacle of_problem(const Session& session, RunKind kind, const RunQuestion& asked, const RunProblem& problem) {
  Obstacle obstacle{.text = problem.text};
  // B's policy stays as it was run; only the panel's can be changed by a click.
  if (kind == RunKind::replay_as_b) return obstacle;
  if (problem.policy) obstacle.remedies = {{problem.remedy, "policy.set", {{"policy", problem.policy->written()}}}};
  if (problem.new_tokens && kind == RunKind::start)
    obstacle.remedies = {{problem.remedy, "run.max_tokens", {{"n", *problem.new_tokens}}}};
  if (problem.kind == RunProblem::Kind::gate || problem.kind == RunProblem::Kind::heads)
    obstacle.remedies = gates_for(session, asked.policy);
  if (problem.kind != RunProblem::Kind::prompt || kind != RunKind::start) return obstacle;
  if (asked.prompt_tokens == 0) {
    obstacle.remedies = {{"Use a sample", "prompt.sample", {{"index", 0}}}};
  } else {
    const int room = std::max(1, asked.max_positions - asked.new_tokens);
    obstacle.remedies = {{"Shorten to " + std::to_string(room), "prompt.shorten", {{"tokens", room}}}};
  }
  return obstacle;
}

}  // namespace

std::vector<Obstacle> obstacles(const Session& session, RunKind kind) {
  if (auto obstacle = of_engine(session)) return {*std::move(obstacle)};
  if (kind != RunKind::start && !session.runs().shown_a()) return {{.text = "There is no run yet."}};
  if (kind == RunKind::replay_as_b && !session.runs().shown_b()) return {{.text = "There is no run B."}};
  if (kind != RunKind::start) {
    if (auto obstacle = of_other_model(session)) return {*std::move(obstacle)};
  }
  std::vector<Obstacle> list;
  const RunQuestion asked = question(session, kind);
  if (kind == RunKind::start && session.next_run().asked().empty() && asked.prompt_tokens != 0)
    list.push_back({.text = "There is no prompt.", .remedies = {{"Use a sample", "prompt.sample", {{"index", 0}}}}});
  if (const std::string why = protocol::why_no_policy(session.engine().offer(), asked.policy); !why.empty())
    list.push_back({.text = why, .remedies = {}});
  for (const RunProblem& problem : run_problems(asked)) list.push_back(of_problem(session, kind, asked, problem));
  return list;
}

std::string why_not_of_a(const Session& session) {
  const auto obstacle = of_other_model(session);
  return obstacle ? obstacle->text : "";
}

std::string why_not(const Session& session, RunKind kind) {
  const std::vector<Obstacle> list = obstacles(session, kind);
  return list.empty() ? "" : list.front().text;
}

}  // namespace kvscope::app
