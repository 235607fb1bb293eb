#include "app/session/shown_runs.h"

#include <algorithm>

#include "engine/core/record/run_gate.h"
#include "engine/core/support/error.h"
#include "views/figure/token_facts.h"

namespace kvscope::app {
namespace {

constexpr std::size_t kMaxName = 32;  // bytes of a name in a caption

// A run without tokens is not on show: its views would have nothing to stand on.
views::ShownRun shown(const RunEntry* entry, const std::string& letter) {
  if (!entry || entry->run->n_tokens() == 0) return {};
  const std::string label = entry->name.empty() ? letter : letter + " " + escape_for_terminal(entry->name, kMaxName);
  return {.run = entry->run, .preview = false, .label = label, .revision = entry->revision};
}

// A run that goes on has left the preview of it behind, if only by the token that is being decoded.
std::string preview_label(const RunRecord& preview, const RunRecord& a) {
  const std::string gate = gate_of(preview), label = "preview of A" + (gate.empty() ? "" : " with gate " + gate);
  if (preview.n_tokens() >= a.n_tokens() && a.status != RunStatus::running) return label;
  return label + ", up to q " + std::to_string(preview.n_tokens() - 1);
}

// Two runs of one policy, by two gates of its kind.
void tell_gates_apart(views::ShownRun& a, views::ShownRun& b) {
  const std::string gate_a = gate_of(*a.run), gate_b = gate_of(*b.run);
  if (gate_a.empty() || gate_b.empty() || gate_a == gate_b || a.run->policy.name != b.run->policy.name) return;
  a.label += " with gate " + gate_a;
  b.label += " with gate " + gate_b;
}

}  // namespace

void ShownRuns::update(const RunList& runs, const Preview& preview) {
  a_ = shown(runs.a(), "A");
  b_ = {};
  if (!a_.run) return;
  if (preview.shown()) {
    b_ = {.run = preview.run(),
          .preview = true,
          .label = preview_label(*preview.run(), *a_.run),
          .revision = preview.revision()};
  } else {
    b_ = shown(runs.b(), "B");
  }
  if (!b_.run) return;
  const ModelInfo &model_a = a_.run->model, &model_b = b_.run->model;
  const bool alike = model_a.n_layers == model_b.n_layers && model_a.n_kv_heads == model_b.n_kv_heads;
  if (!alike) b_ = {};  // views compare head by head
  if (b_.run && !preview.shown()) tell_gates_apart(a_, b_);
}

int ShownRuns::divergence() const {
  if (!a_.run || !b_.run) return -1;
  const auto &a = a_.run->ids, &b = b_.run->ids;
  const auto end = a.begin() + static_cast<std::ptrdiff_t>(std::min(a.size(), b.size()));
  const auto at = std::mismatch(a.begin(), end, b.begin()).first;
  return at == end ? -1 : static_cast<int>(at - a.begin());
}

std::vector<views::ShownRun> runs_of_set(const RunList& runs, const views::Selection& selection) {
  std::vector<views::ShownRun> set;
  const views::ShownRun a = shown(runs.a(), "A");
  if (!views::drawable(&a)) return set;
  for (const int id : selection.runs) {
    views::ShownRun run = shown(runs.find(id), "");
    if (views::drawable(&run) && views::same_shape(*run.run, *a.run)) set.push_back(std::move(run));
  }
  return set;
}

}  // namespace kvscope::app
