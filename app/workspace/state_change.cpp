#include "app/workspace/state_change.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "app/workspace/field_json.h"
#include "engine/core/study/measure/retention_metrics.h"
#include "engine/core/support/text.h"

namespace kvscope::app {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxValue = 24;  // bytes of a value that a label says

struct Change {
  std::string kind, label;
  bool gradual = false;
};
using Changes = std::vector<Change>;

std::string from_to(const std::string& name, const std::string& from, const std::string& to) {
  return from.size() > kMaxValue || to.size() > kMaxValue ? name : name + " " + from + " to " + to;
}

// ------------------------------------------------------------------------------------------------ policy

std::string budget_value(const std::optional<BudgetSpec>& budget) {
  if (!budget) return "none";
  switch (budget->kind) {
    case BudgetSpec::Kind::tokens:
      return number_text(budget->value) + " tokens";
    case BudgetSpec::Kind::keep:
      return number_text(100 * budget->value, 4) + " %";
    case BudgetSpec::Kind::compression:
      break;
  }
  return number_text(budget->value, 4) + "×";
}

std::string parameter_text(const PolicySpec& policy, std::string_view name) {
  const PolicyInfo* info = find_policy(policy);
  for (const ParameterInfo& parameter : info ? info->parameters : std::span<const ParameterInfo>()) {
    if (parameter.name == name) return brief_value(parameter, policy.value(name));
  }
  return "none";
}

void add_policy(const PolicySpec& before, const PolicySpec& after, Changes& changes) {
  if (before.name != after.name) {
    const PolicyInfo *from = find_policy(before), *to = find_policy(after);
    changes.push_back({"policy", "policy " + std::string(from ? from->title : before.name) + " to " +
                                     std::string(to ? to->title : after.name)});
    return;
  }
  if (before.budget != after.budget)
    changes.push_back(
        {"policy.budget", from_to("budget", budget_value(before.budget), budget_value(after.budget)), true});
  for (const auto& [name, value] : after.values) {
    const auto old = before.values.find(name);
    if (old != before.values.end() && old->second == value) continue;
    std::string title = name;
    std::replace(title.begin(), title.end(), '_', ' ');
    changes.push_back(
        {"policy." + name, from_to(title, parameter_text(before, name), parameter_text(after, name)), true});
  }
  if (changes.empty() && before.unwritten != after.unwritten) changes.push_back({"policy.written", "policy"});
}

// ------------------------------------------------------------------------------------------------ other parts

std::string title_of(const std::string& name) {
  if (name == "kv_head") return "head";
  if (name == "q") return "query";
  if (name == "max_tokens") return "answer length";
  if (name == "raw") return "chat";
  if (name == "output_error") return "output error measurement";
  if (name == "budgets") return "budgets of heads";
  if (name == "dark") return "theme";
  if (name == "colours") return "map colours";
  if (name == "zoom") return "size";
  if (name == "arrangement") return "views";
  if (name == "looks") return "view";
  if (name == "own_layouts") return "custom layouts";
  if (name == "view" || name == "rows" || name == "at_edge" || name.starts_with("life_rows")) return "shown range";
  if (name == "brush") return "marked range";
  if (name == "play_speed") return "playback speed";
  if (name == "play_loop") return "loop playback";
  if (name == "layers") return "rows of the strip";
  if (name == "lost_by_layer" || name == "fingerprint_order") return "order of the heads";
  if (name == "fingerprint_profile") return "profile of the heads";
  if (name == "life_order") return "order of the tokens";
  if (name == "unseen_heads") return "heads of the unseen tokens";
  if (name == "unseen_whole") return "scale of the unseen tokens";
  if (name == "run_grid_cells") return "pictures of the runs";
  if (name == "run_grid_measure") return "measure below the runs";
  if (name == "gates_source") return "training";
  if (name == "gates_step") return "training step";
  if (name == "gates_quantity") return "quantity of the gates";
  if (name == "metric_chosen") return "metric";
  if (name == "heads") return "marked heads";
  if (name == "runs") return "set of runs";
  if (name == "run_table_sort" || name == "run_table_descending") return "order of the runs";
  if (name == "run_table_x" || name == "run_table_y") return "axes of the runs";
  if (name == "board_heads") return "global heads";
  if (name == "board_context") return "context length";
  if (name == "map_range" || name == "map_range_b" || name == "map_fit" || name == "map_lock") return "map scale";
  if (name == "map_sorted") return "head order";
  if (name == "map_by_layer") return "map by layer";
  if (name == "study_open") return "open studies";
  if (name == "study_shown") return "shown study";
  if (name == "study_by") return "lines of the study";
  if (name == "study_where") return "rows of the study";
  if (name == "study_front") return "Pareto front";
  if (name.starts_with("study_log_")) return "axes of the study";
  if (name == "study_smooth") return "smoothing of the study";
  if (name == "study_interval") return "intervals of the study";
  std::string title = name;
  std::replace(title.begin(), title.end(), '_', ' ');
  return title;
}

std::string value_text(const std::string& name, const json& value) {
  if (name == "metric" && value.is_string()) return std::string(find_metric(value.get<std::string>())->title);
  if (value.is_null()) return "live";
  if ((name == "heads" || name == "board_heads" || name == "board_rule") && value == "") return "none";
  if ((name == "token" || name == "study_point") && value == -1) return "none";
  if (name.starts_with("study_") && value == "") return "none";
  if (name == "run_table_sort" && value == "") return "as they came";
  if (name == "gates_step" && value == -1) return "the last";
  if (name == "gates_source" && value == "") return "the first";
  std::string text = value.is_number_float() ? number_text(value.get<double>(), 4)
                     : value.is_string()     ? value.get<std::string>()
                                             : value.dump();
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

/// Changes that come with another one and are not worth a word beside it: that a metric was chosen, thumbs and scale that went
/// with the one before, the strategy that chose the heads.
void leave_out_companions(Changes& changes) {
  constexpr std::pair<std::string_view, std::string_view> kCompanions[] = {{"view", "at_edge"},
                                                                           {"life_rows_of", "life_rows"},
                                                                           {"life_rows", "view"},
                                                                           {"life_rows", "life_order"},
                                                                           {"metric_chosen", "metric"},
                                                                           {"map_range", "metric"},
                                                                           {"map_range_b", "metric"},
                                                                           {"map_fit", "metric"},
                                                                           {"map_range", "map_fit"},
                                                                           {"map_range_b", "map_fit"},
                                                                           {"board_rule", "board_heads"},
                                                                           {"run_table_descending", "run_table_sort"},
                                                                           {"study_shown", "study_open"},
                                                                           {"study_point", "study_open"},
                                                                           {"study_piece", "study_open"},
                                                                           {"study_where", "study_open"},
                                                                           {"study_point", "study_shown"},
                                                                           {"study_piece", "study_shown"},
                                                                           {"study_where", "study_shown"},
                                                                           {"study_piece", "study_point"}};
  for (const auto& [companion, of] : kCompanions) {
    if (std::ranges::find(changes, of, &Change::kind) == changes.end()) continue;
    std::erase_if(changes, [&](const Change& change) { return change.kind == companion; });
  }
}

/// Views and panels that went together are a layout that was taken; that nothing is maximised any more comes with it.
void name_layout(Changes& changes) {
  const auto part = [](const Change& change) {
    return change.kind == "left_panel" || change.kind == "inspector" || change.kind == "time_deck" ||
           change.kind == "arrangement" || change.kind == "looks" || change.kind == "maximised";
  };
  if (std::ranges::count_if(changes, part) < 2) return;
  const auto first = std::ranges::find_if(changes, part);
  first->label = "layout";
  changes.erase(std::remove_if(first + 1, changes.end(), part), changes.end());
}

/// Every pin without its note: "text/letter/place".
std::set<std::string> places_of(const json& texts) {
  std::set<std::string> places;
  for (const json& text : texts) {
    for (json pin : text["pins"]) {
      pin.erase("note");
      places.insert(pin["letter"].get<std::string>() + text["tokens"].get<std::string>() + pin.dump());
    }
  }
  return places;
}

/// "pin b", "removal of pin b", "pins"; of notes alone "note", which is typed.
Change pins_change(const json& before, const json& after) {
  const std::set<std::string> old = places_of(before), now = places_of(after);
  if (old == now) return {"notes", "note", true};
  std::vector<std::string> gone, come;
  std::ranges::set_difference(old, now, std::back_inserter(gone));
  std::ranges::set_difference(now, old, std::back_inserter(come));
  if (come.size() + gone.size() > 1) return {"pins", come.empty() ? "removal of pins" : "pins"};
  return {"pins", come.empty() ? "removal of pin " + gone[0].substr(0, 1) : "pin " + come[0].substr(0, 1)};
}

/// A field may be there in one state alone: the range on show is none while it moves with the run.
template <typename Part>
void add_fields(const Part& before, const Part& after, Changes& changes) {
  const json old = fields_json(before), now = fields_json(after);
  for (const auto& [name, value] : now.items()) {
    const json was = old.value(name, json());
    if (was == value) continue;
    if (name == "pins" || name == "run_notes") {
      changes.push_back(name == "pins" ? pins_change(was, value) : Change{"notes", "note", true});
      continue;
    }
    const bool said = value.is_number() || was.is_number() || (value.is_string() && name != "maximised");
    changes.push_back({name,
                       said ? from_to(title_of(name), value_text(name, was), value_text(name, value)) : title_of(name),
                       value.is_number() || was.is_number()});
  }
}

std::string shown_text(const std::string& letter, int id) {
  return id == 0 ? "no run as " + letter : "run " + std::to_string(id) + " as " + letter;
}

void add_runs(const WorkspaceState& before, const WorkspaceState& after, Changes& changes) {
  if (before.removed != after.removed) {
    std::vector<int> different;
    std::ranges::set_symmetric_difference(before.removed, after.removed, std::back_inserter(different));
    changes.push_back({"removed", different.size() == 1 ? "removal of run " + std::to_string(different[0])
                                                        : "removal of " + std::to_string(different.size()) + " runs"});
    return;  // what became of A and B follows from it
  }
  if (before.a == after.b && before.b == after.a && before.a != before.b) {
    changes.push_back({"shown", "swap of A and B"});
  } else if (before.a != after.a) {
    changes.push_back({"shown", shown_text("A", after.a)});
  } else if (before.b != after.b) {
    changes.push_back({"shown", shown_text("B", after.b)});
  }
}

std::size_t common_prefix(const std::string& a, const std::string& b) {
  const std::size_t n = std::min(a.size(), b.size());
  return static_cast<std::size_t>(
      std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(n), b.begin()).first - a.begin());
}

bool is_space(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

}  // namespace

StateChange describe_change(const WorkspaceState& before, const WorkspaceState& after) {
  Changes changes;
  add_runs(before, after, changes);
  if (*before.prompt != *after.prompt) changes.push_back({"prompt", "prompt", true});
  add_policy(before.parameters.policy, after.parameters.policy, changes);
  const RunSettings &old = before.parameters, &now = after.parameters;
  add_fields(old, now, changes);
  add_fields(old.sampling, now.sampling, changes);
  const bool consequence = !changes.empty();  // a new A takes the selection along
  add_fields(before.selection, after.selection, changes);
  leave_out_companions(changes);
  Changes layout;
  add_fields(before.layout, after.layout, layout);
  name_layout(layout);
  changes.insert(changes.end(), layout.begin(), layout.end());
  add_fields(before.appearance, after.appearance, changes);

  StateChange change;
  change.gradual = !changes.empty();
  for (const Change& one : changes) {
    change.kind += (change.kind.empty() ? "" : " ") + one.kind;
    change.gradual = change.gradual && one.gradual;
  }
  if (changes.empty()) return change;
  change.label = changes[0].label;
  if (!consequence && changes.size() > 1) change.label += " and more";
  return change;
}

bool same_word(const std::string& before, const std::string& middle, const std::string& after) {
  constexpr std::size_t kTyped = 16;  // bytes that come in one frame; what is cut or pasted is a step by itself
  const auto apart = [](std::size_t a, std::size_t b) { return a > b ? a - b : b - a; };
  if (apart(middle.size(), after.size()) > kTyped) return false;
  if ((middle.size() >= before.size()) != (after.size() >= middle.size())) return false;
  if (after.size() < middle.size()) return true;
  const std::size_t at = common_prefix(middle, after);
  const std::string typed = after.substr(at, after.size() - middle.size());
  const std::size_t end = common_prefix(before, middle) + (middle.size() - before.size());
  if (at != end) return false;  // somewhere else
  return !(end > 0 && is_space(middle[end - 1]) && !typed.empty() && !is_space(typed[0]));
}

}  // namespace kvscope::app
