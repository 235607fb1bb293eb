#include "engine/core/study/table/gate_probe.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace kvscope {
namespace {

using nlohmann::json;

constexpr std::string_view kProbeArrays[] = {kProbeStep, kProbeThreshold, kProbeScore, kProbeToken, kProbeSource};

StudyArray* probe_array(StudyTable& table, std::string_view name) {
  const auto found = std::ranges::find(table.arrays, name, &StudyArray::name);
  return found == table.arrays.end() ? nullptr : &*found;
}

/// The first n of its probes; of an array without them all.
void cut_probes(StudyArray& array, std::size_t n) {
  if (array.axes.empty() || array.axes[0] != "probe" || array.shape[0] == 0) return;
  const std::size_t each = array.values.size() / static_cast<std::size_t>(array.shape[0]);
  array.values.resize(n * each);
  array.shape[0] = static_cast<std::int64_t>(n);
}

void append_probes(StudyArray& to, const StudyArray& from) {
  to.values.insert(to.values.end(), from.values.begin(), from.values.end());
  to.shape[0] += from.shape[0];
}

std::vector<StudyArray> arrays_of_probe(const GateProbe& probe) {
  const auto n_tokens = static_cast<std::int64_t>(probe.tokens.size());
  return {{.name = std::string(kProbeStep),
           .units = "",
           .meaning = "optimizer steps done",
           .axes = {"probe"},
           .shape = {1},
           .values = {probe.step}},
          {.name = std::string(kProbeThreshold),
           .units = "",
           .meaning = "a score of this or more is kept",
           .axes = {"probe"},
           .shape = {1},
           .values = {probe.threshold}},
          {.name = std::string(kProbeScore),
           .units = "",
           .meaning = "score of a token of the held-out text by the gate as it would be saved after this step",
           .axes = {"probe", "layer", "kv_head", "token"},
           .shape = {1, probe.n_layers, probe.n_kv_heads, n_tokens},
           .values = {probe.scores.begin(), probe.scores.end()},
           .is_float32 = true},
          {.name = std::string(kProbeToken),
           .units = "",
           .meaning = "id of a token of the held-out text",
           .axes = {"token"},
           .shape = {n_tokens},
           .values = {probe.tokens.begin(), probe.tokens.end()}}};
}

/// Whether the probes of both have one text, and scores of one shape.
bool same_probed(const std::vector<StudyArray>& a, const StudyTable& b) {
  for (const std::string_view name : {kProbeScore, kProbeToken}) {
    const auto in_a = std::ranges::find(a, name, &StudyArray::name);
    const StudyArray* in_b = b.array(name);
    if (in_a == a.end() || in_b == nullptr || in_a->axes != in_b->axes) return false;
    const std::ptrdiff_t from = name == kProbeScore ? 1 : 0;  // not the number of probes
    if (!std::equal(in_a->shape.begin() + from, in_a->shape.end(), in_b->shape.begin() + from, in_b->shape.end()))
      return false;
  }
  return std::ranges::find(a, kProbeToken, &StudyArray::name)->values == b.array(kProbeToken)->values;
}

/// What a table of this program has; another one's arrays of these names may be of any shape.
bool has_whole_probes(const StudyTable& table) {
  const StudyArray *step = table.array(kProbeStep), *threshold = table.array(kProbeThreshold),
                   *score = table.array(kProbeScore), *token = table.array(kProbeToken);
  const std::vector<std::string> of_probe = {"probe"};
  return step && threshold && score && token && step->axes == of_probe && threshold->axes == of_probe &&
         score->axes == std::vector<std::string>{"probe", "layer", "kv_head", "token"} &&
         token->axes == std::vector<std::string>{"token"} && step->shape[0] > 0;
}

void take_probe_texts(StudyTable& table, const StudyTable& from) {
  json facts = json::parse(table.facts, nullptr, false);
  const json of = json::parse(from.facts, nullptr, false);
  if (!facts.is_object() || !of.is_object() || !of.contains("probe")) return;
  facts["probe"] = of["probe"];
  table.facts = facts.dump();
}

}  // namespace

std::size_t n_probes(const StudyTable& table) {
  return has_whole_probes(table) ? table.array(kProbeStep)->values.size() : 0;
}

std::vector<StudyArray> other_arrays(const StudyTable& table) {
  std::vector<StudyArray> others;
  for (const StudyArray& array : table.arrays)
    if (std::ranges::find(kProbeArrays, array.name) == std::end(kProbeArrays)) others.push_back(array);
  return others;
}

void add_probe(StudyTable& table, const GateProbe& probe) {
  std::vector<StudyArray> fresh = arrays_of_probe(probe);
  if (n_probes(table) == 0 || !same_probed(fresh, table)) {
    table.arrays = other_arrays(table);
    table.arrays.insert(table.arrays.end(), fresh.begin(), fresh.end());
    return;
  }
  const std::vector<double>& steps = table.array(kProbeStep)->values;
  const auto n = static_cast<std::size_t>(std::ranges::lower_bound(steps, probe.step) - steps.begin());
  for (StudyArray& array : fresh) {
    StudyArray& there = *probe_array(table, array.name);
    cut_probes(there, n);
    if (there.axes[0] == "probe") append_probes(there, array);
  }
}

void set_probe_threshold(StudyTable& table, double threshold) {
  if (n_probes(table) > 0) std::ranges::fill(probe_array(table, kProbeThreshold)->values, threshold);
}

void keep_probes(StudyTable& table, const StudyTable& earlier, double last_step) {
  table.arrays = other_arrays(table);
  if (n_probes(earlier) == 0) return;
  const std::vector<double>& steps = earlier.array(kProbeStep)->values;
  const auto n = static_cast<std::size_t>(std::ranges::upper_bound(steps, last_step) - steps.begin());
  if (n == 0) return;
  for (const std::string_view name : {kProbeStep, kProbeThreshold, kProbeScore, kProbeToken}) {
    table.arrays.push_back(*earlier.array(name));
    cut_probes(table.arrays.back(), n);
  }
  take_probe_texts(table, earlier);
}

void join_probes(StudyTable& all, const StudyTable& table, std::size_t first_row) {
  const std::size_t n = n_probes(table);
  if (n == 0) return;
  const StudyArray source{.name = std::string(kProbeSource),
                          .units = "",
                          .meaning = "row at which the probe's training begins",
                          .axes = {"probe"},
                          .shape = {static_cast<std::int64_t>(n)},
                          .values = std::vector<double>(n, static_cast<double>(first_row))};
  if (n_probes(all) == 0) {
    for (const std::string_view name : {kProbeStep, kProbeThreshold, kProbeScore, kProbeToken})
      all.arrays.push_back(*table.array(name));
    all.arrays.push_back(source);
    return take_probe_texts(all, table);
  }
  if (!same_probed(all.arrays, table)) return;
  for (const std::string_view name : {kProbeStep, kProbeThreshold, kProbeScore})
    append_probes(*probe_array(all, name), *table.array(name));
  append_probes(*probe_array(all, kProbeSource), source);
}

}  // namespace kvscope
