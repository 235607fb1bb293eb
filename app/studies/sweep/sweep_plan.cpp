#include "app/studies/sweep/sweep_plan.h"

#include <algorithm>
#include <array>
#include <set>
#include <tuple>

#include "app/catalog/gates.h"
#include "app/catalog/models.h"
#include "app/studies/sweep/sweep_recipe.h"
#include "app/support/paths.h"
#include "engine/core/record/pipe_gate.h"
#include "engine/core/support/error.h"

namespace kvscope::app {
namespace {

namespace fs = std::filesystem;

const std::string& model_of(const SweepPlan& plan, const std::string& model) {
  return model.empty() ? plan.model : model;
}

/// With the gates that its policies need, or, for an engine elsewhere, those that are named.
EvalRequest request_of(const SweepPlan& plan, const SweepGroup& group, bool elsewhere) {
  EvalRequest request = plan.request;
  request.policies.clear();
  std::vector<PolicySpec> specs;
  for (const std::size_t point : group.points) {
    request.policies.push_back(plan.points[point].policy);
    specs.push_back(PolicySpec::parse(request.policies.back()));
  }
  if (request.policies.empty()) request.policies = {kDensePolicy};  // none would be the engine's own choice
  if (group.length > 0) request.length = group.length;
  if (!group.gate.empty()) request.gates.push_back(group.gate_file);
  request.model = model_of(plan, group.model);
  if (!elsewhere) request.gates = gates_to_load(request.model, request.gates, specs);
  if (group.is_texts) {
    request.tasks.clear();
    request.chunk = group.chunk;
  } else {
    request.texts.clear();
    request.seed = group.seed;
  }
  return request;
}

/// A gate of an entry's list that its policy does not read would be an axis along which nothing changes.
void check_gates(const SweepPlan& plan, const std::string& file) {
  std::set<std::tuple<std::string, std::string, std::string>> seen;
  for (const SweepPoint& point : plan.points) {
    const PolicySpec spec = PolicySpec::parse(point.policy);
    if (point.gate.empty() || !seen.emplace(spec.name, point.gate, point.model).second) continue;
    const std::string& model = model_of(plan, point.model);
    const GateFacts gate = read_gate({.name = point.gate, .path = gate_path(point.gate_file, model)}, model);
    if (!gate.fits()) throw Error({.file = file, .where = "gate " + point.gate, .found = gate.misfit});
    if (reads_gate(spec, gate.kind) || gate.is_adapter_alone()) continue;  // which changes the model of any policy
    throw Error({.file = file,
                 .where = "gate " + point.gate,
                 .found = "a gate that " + spec.name + " does not read",
                 .expected = "gates for the entry's policy"});
  }
}

/// Names what each point needs besides the gates that are given.
void find_gates(SweepPlan& plan) {
  std::map<std::tuple<std::string, std::string, std::string>, std::string> known;
  for (SweepPoint& point : plan.points) {
    const PolicySpec spec = PolicySpec::parse(point.policy);
    const auto [place, is_new] = known.try_emplace({spec.name, point.gate, point.model});
    if (is_new) {
      std::vector<std::string> given = plan.request.gates;
      if (!point.gate.empty()) given.push_back(point.gate_file);
      const std::vector<std::string> all = gates_to_load(model_of(plan, point.model), given, std::array{spec});
      for (std::size_t i = given.size(); i < all.size(); ++i) {
        place->second += (place->second.empty() ? "" : "+") + fs::path(all[i]).filename().string();
      }
    }
    point.loads = place->second;
  }
}

/// What an engine loads for a point: its model, the gate of the recipe, and the gates that the policy needs besides.
struct Loaded {
  explicit Loaded(const SweepPoint& point)
      : model(point.model), gate(point.gate), gate_file(point.gate_file), loads(point.loads) {}
  std::string model, gate, gate_file, loads;
  bool operator==(const Loaded&) const = default;
};

std::vector<Loaded> loaded_by(const std::vector<SweepPoint>& points) {
  std::vector<Loaded> all = {Loaded({})};
  for (const SweepPoint& point : points)
    if (std::ranges::find(all, Loaded(point)) == all.end()) all.emplace_back(point);
  return all;
}

/// Of every length, chunk (texts) and seed (tasks) one group for all points with the same model and gates; those without points
/// ask the dense policy only.
void add_groups(SweepPlan& plan, const SweepRecipe& recipe, bool elsewhere) {
  const auto add = [&](SweepGroup group) {
    bool is_first = true;
    for (const Loaded& loaded : loaded_by(plan.points)) {
      group.model = loaded.model;
      group.gate = loaded.gate;
      group.gate_file = loaded.gate_file;
      group.loads = loaded.loads;
      group.points.clear();
      for (std::size_t i = 0; i < plan.points.size(); ++i)
        if (Loaded(plan.points[i]) == loaded) group.points.push_back(i);
      group.asks_dense = is_first;
      is_first = false;
      group.request = request_of(plan, group, elsewhere);
      plan.groups.push_back(group);
    }
  };
  for (const int length : recipe.lengths) {
    const int named = recipe.lengths.size() > 1 ? length : 0;
    if (!plan.request.texts.empty()) {
      for (const int chunk : recipe.chunks) add({.is_texts = true, .chunk = chunk, .length = named});
    }
    if (!plan.request.tasks.empty()) {
      for (const std::uint64_t seed : recipe.seeds) add({.is_texts = false, .seed = seed, .length = named});
    }
  }
}

}  // namespace

std::string SweepGroup::base() const {
  return (is_texts ? "texts, chunk " + std::to_string(chunk) : "tasks, seed " + std::to_string(seed)) +
         (length > 0 ? kLengthInName + std::to_string(length) : "");
}

std::string SweepGroup::name() const {
  return base() + (gate.empty() ? "" : kGateInName + gate) + (loads.empty() ? "" : kWithInName + loads) +
         (model.empty() ? "" : kModelInName + model);
}

std::int64_t SweepPlan::n_answers() const {
  std::int64_t n = 0;
  for (const SweepGroup& group : groups) {
    n += static_cast<std::int64_t>(policies(group).size() * items(group).size()) * n_of(group) *
         (group.is_texts ? 1 : request.rollouts);
  }
  return n;
}

std::vector<std::string> SweepPlan::items(const SweepGroup& group) const {
  if (!group.is_texts) return request.tasks;
  std::vector<std::string> names;
  for (const std::string& text : request.texts) names.push_back(fs::path(text).filename().string());
  return names;
}

std::vector<std::string> SweepPlan::policies(const SweepGroup& group) const {
  std::vector<std::string> texts;
  if (group.asks_dense) texts.emplace_back(kDensePolicy);
  for (const std::size_t point : group.points) texts.push_back(points[point].policy);
  return texts;
}

std::vector<std::string> sweep_keys(const SweepPlan& plan, const SweepGroup& group, const Shard& shard) {
  std::vector<std::string> keys;
  const std::vector<std::string> policies = plan.policies(group);
  for (const std::string& item : plan.items(group)) {
    for (int i = 0; i < plan.n_of(group); ++i) {
      for (std::size_t p = 0; p < policies.size(); ++p) {
        if ((static_cast<std::size_t>(i) + p) % static_cast<std::size_t>(shard.of) !=
            static_cast<std::size_t>(shard.index)) {
          continue;
        }
        for (int rollout = 0; rollout < (group.is_texts ? 1 : plan.request.rollouts); ++rollout)
          keys.push_back(EvalAnswer{.item = item, .policy = policies[p], .index = i, .rollout = rollout}.key());
      }
    }
  }
  return keys;
}

SweepPlan plan_sweep(const fs::path& path, bool elsewhere) {
  SweepRecipe recipe = read_sweep_recipe(path);
  for (const std::string& gate : recipe.request.gates) refuse_pipe(gate, path.string());
  for (const SweepPoint& point : recipe.points) refuse_pipe(point.gate, path.string());
  SweepPlan plan{.recipe = std::move(recipe.text),
                 .model = elsewhere ? model_folder_or(recipe.model) : model_folder(recipe.model),
                 .request = std::move(recipe.request),
                 .points = std::move(recipe.points),
                 .axes = std::move(recipe.axes),
                 .matched = std::move(recipe.matched),
                 .cost = std::move(recipe.cost)};
  plan.request.model = plan.model;
  for (SweepPoint& point : plan.points) {
    std::error_code error;
    const std::string file = beside(path, point.gate);
    point.gate_file = fs::exists(file, error) ? file : point.gate;
    if (!point.model.empty()) point.model = elsewhere ? model_folder_or(point.model) : model_folder(point.model);
  }
  if (plan.request.filler.empty()) plan.request.filler = heldout_text().string();
  if (!elsewhere) {
    check_gates(plan, path.string());
    find_gates(plan);
  }
  add_groups(plan, recipe, elsewhere);
  // Nothing is asked of a group without policies: one without a gate, when every entry has gates, has the dense one.
  std::erase_if(plan.groups, [&](const SweepGroup& group) { return plan.policies(group).empty(); });
  return plan;
}

}  // namespace kvscope::app
