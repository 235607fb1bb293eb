#include "app/workspace/workspace_state.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "app/workspace/field_json.h"
#include "app/workspace/look_scope.h"
#include "engine/core/policy/declared_policy.h"
#include "engine/core/protocol/protocol.h"
#include "engine/core/study/measure/retention_metrics.h"

namespace kvscope::app {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxRemoved = 1 << 16;

/// PolicySpec compares what a policy does; that a number was written is another wish.
bool same_parameters(const RunSettings& a, const RunSettings& b) {
  return fields_json(a) == fields_json(b) && a.policy == b.policy && a.policy.unwritten == b.policy.unwritten &&
         a.sampling == b.sampling;
}

/// Only what state_fields.h names: what a view keeps there for the moment is no part of the state.
bool same_selection(const views::Selection& a, const views::Selection& b) { return fields_json(a) == fields_json(b); }

/// What is no part of the state stays as it is.
void take_selection(views::Selection state, views::Selection& now) {
  state.hovered_token = now.hovered_token;
  state.find = now.find;
  state.play.on = now.play.on, state.play.carry = now.play.carry;
  if (state.at_edge) state.view = now.view;
  now = std::move(state);
}

/// Nobody sees where the selection is in a run while there is none, nor that runs are chosen which are off the list: a step
/// between two such states would do nothing.
void forget_what_is_not_seen(WorkspaceState& state) {
  views::Selection& selection = state.selection;
  std::erase_if(selection.runs, [&](int id) { return state.removed.contains(id); });
  if (state.a != 0) return;
  const views::Selection none;
  selection.layer = none.layer, selection.kv_head = none.kv_head, selection.token = none.token, selection.q = none.q;
  selection.view = none.view, selection.at_edge = none.at_edge, selection.rows = none.rows;
  selection.lifetimes.rows = none.lifetimes.rows, selection.lifetimes.rows_of = none.lifetimes.rows_of;
  selection.brush = none.brush, selection.heads = none.heads;
}

json parameters_json(const WorkspaceState& state) {
  json object = fields_json(state.parameters);
  object["prompt"] = *state.prompt;
  put_policy(object, state.parameters.policy);
  object["sampling"] = protocol::to_json(state.parameters.sampling);
  return object;
}

void read_parameters(const JsonObject& object, WorkspaceState& state) {
  if (!object.has("parameters")) return;
  const JsonObject json(object.raw()["parameters"], object.file(), "parameters.");
  state.prompt = std::make_shared<const std::string>(json.text_or("prompt", ""));
  visit_fields(state.parameters, ReadField{json});
  if (std::ranges::count(state.parameters.stop, "") > 0)
    throw Error({.file = json.file(), .where = "parameters.stop", .found = "an empty text"});
  if (json.has("policy")) state.parameters.policy = take_policy(json.raw());
  if (!json.has("sampling")) return;
  const JsonObject sampling(json.raw()["sampling"], json.file(), "parameters.sampling.");
  kvscope::visit_fields(state.parameters.sampling, ReadField{sampling});
}

void read_runs(const JsonObject& object, WorkspaceState& state) {
  if (object.has("shown")) {
    const JsonObject shown(object.raw()["shown"], object.file(), "shown.");
    state.a = static_cast<int>(shown.integer_or("a", 0, 0, kMaxRunId));
    state.b = static_cast<int>(shown.integer_or("b", 0, 0, kMaxRunId));
  }
  if (!object.has("removed")) return;
  const json& removed = object.raw()["removed"];
  if (!removed.is_array() || removed.size() > kMaxRemoved)
    throw Error({.file = object.file(), .where = "removed", .found = "not a list of runs"});
  for (const json& id : removed) {
    if (!id.is_number_integer() || id < 1 || id > kMaxRunId)
      throw Error({.file = object.file(), .where = "removed", .found = id.dump(), .expected = "a run's number"});
    state.removed.insert(id.get<int>());
  }
}

}  // namespace

std::span<const std::string_view> run_measure_names() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> all;
    for (const RunMeasureInfo& info : run_measures()) all.push_back(info.name);
    return all;
  }();
  return names;
}

std::span<const std::string_view> metric_names() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> all(metric_list().size());
    for (const MetricInfo& info : metric_list()) all.at(static_cast<std::size_t>(info.metric)) = info.name;
    return all;
  }();
  return names;
}

bool operator==(const WorkspaceState& a, const WorkspaceState& b) {
  return (a.prompt == b.prompt || *a.prompt == *b.prompt) && same_parameters(a.parameters, b.parameters) &&
         same_selection(a.selection, b.selection) && a.a == b.a && a.b == b.b && a.removed == b.removed &&
         a.layout == b.layout && a.appearance == b.appearance;
}

WorkspaceState capture_state(const Session& session, const Layout& layout, const Appearance& appearance,
                             const WorkspaceState* previous) {
  const Parameters& now = session.parameters();
  WorkspaceState state{.parameters = now,
                       .selection = session.selection(),
                       .a = session.runs().a_id(),
                       .b = session.runs().b_id(),
                       .removed = session.runs().removed_ids(),
                       .layout = layout,
                       .appearance = appearance};
  swap_look(state.selection, state.layout), state.layout.look_of.clear();
  state.selection.hovered_token = -1;
  forget_what_is_not_seen(state);
  const bool same = previous && *previous->prompt == now.prompt;
  state.prompt = same ? previous->prompt : std::make_shared<const std::string>(now.prompt);
  return state;
}

void apply_state(const WorkspaceState& state, Session& session, Layout& layout, Appearance& appearance) {
  const std::string look_of = layout.look_of;  // of a scope that Undo was called in: its view is drawn on
  swap_look(session.selection(), layout);
  layout = state.layout;
  appearance = state.appearance;
  if (session.runs().set_removed(state.removed)) session.traces().read_on();
  const int a = session.runs().find(state.a) ? state.a : 0, b = session.runs().find(state.b) ? state.b : 0;
  if (a != session.runs().a_id() || b != session.runs().b_id()) session.runs().show(a, b);
  session.policy().set(state.parameters.policy);
  const Parameters& now = session.parameters();
  if (!same_parameters(state.parameters, now) || *state.prompt != now.prompt)
    session.next_run().set({state.parameters, *state.prompt});
  take_selection(state.selection, session.selection());
  session.runs().clamp_selection();
  layout.look_of = look_of;
  swap_look(session.selection(), layout);
}

nlohmann::json to_json(const WorkspaceState& state) {
  return {{"parameters", parameters_json(state)},
          {"selection", fields_json(state.selection)},
          {"shown", {{"a", state.a}, {"b", state.b}}},
          {"removed", state.removed},
          {"layout", fields_json(state.layout)}};
}

WorkspaceState state_from_json(const nlohmann::json& json, const std::string& file) {
  const JsonObject object(json, file);
  WorkspaceState state{.parameters = NextRun::defaults(), .prompt = std::make_shared<const std::string>()};
  read_parameters(object, state);
  read_fields(object, "selection", state.selection);
  read_runs(object, state);
  read_fields(object, "layout", state.layout);
  return state;
}

}  // namespace kvscope::app
