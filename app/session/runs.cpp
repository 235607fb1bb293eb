#include "app/session/runs.h"

#include <algorithm>

#include "app/session/engine_link.h"
#include "app/session/opening_look.h"
#include "app/support/usage.h"
#include "engine/core/record/run_gate.h"
#include "engine/core/study/measure/compare_runs.h"
#include "views/figure/token_facts.h"
#include "views/selection/leave_text.h"

namespace kvscope::app {
namespace {

constexpr std::size_t kMaxName = 32;  // bytes of a name in a caption

// A run without tokens is not on show: its views would have nothing to draw.
views::ShownRun shown(const RunEntry* entry, const std::string& letter) {
  if (!entry || entry->run->n_tokens() == 0) return {};
  const std::string label = entry->name.empty() ? letter : letter + " " + escape_for_terminal(entry->name, kMaxName);
  return {.run = entry->run, .preview = false, .label = label, .revision = entry->revision};
}

// The preview of a run that goes on is shorter than the run, if only by the token that is being decoded.
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

Runs::Runs(const EngineLink& engine, Preview& preview, views::Selection& selection, Messages& messages,
           Revision& revision, Worker& background)
    : engine_(engine),
      preview_(preview),
      selection_(selection),
      messages_(messages),
      revision_(revision),
      background_(background) {}

const RunEntry* Runs::find(int id) const {
  const auto it = std::ranges::find(runs_, id, &RunEntry::id);
  return it == runs_.end() ? nullptr : &*it;
}

RunEntry* Runs::entry(int id) { return const_cast<RunEntry*>(find(id)); }

std::set<int> Runs::removed_ids() const {
  std::set<int> ids;
  for (const RunEntry& entry : removed()) ids.insert(entry.id);
  return ids;
}

int Runs::add(std::shared_ptr<const RunRecord> run, std::string trace_path, int trace_run) {
  runs_.push_back(
      {.id = next_id_++, .run = std::move(run), .trace_path = std::move(trace_path), .trace_run = trace_run});
  return runs_.back().id;
}

void Runs::put_back(RunEntry entry) {
  if (find(entry.id)) return;
  begin_ids_at(entry.id + 1);
  const auto at = std::ranges::upper_bound(runs_, entry.id, {}, &RunEntry::id);
  runs_.insert(at, std::move(entry));
  update();
}

void Runs::begin(RunRecord record, Place place) {
  selection_.runs.clear();  // it is to be seen
  begun_ = add(std::make_shared<const RunRecord>(std::move(record)), "");
  runs_.back().own = true;
  wanted_ = place;
  bring_in_sight(begun_);
  if (find(begun_)->run->n_tokens() > 0 || !a()) take_place();
  update();
}

void Runs::take_place() {
  const Place place = *std::exchange(wanted_, std::nullopt);
  a_before_ = a_id_, b_before_ = b_id_;
  if (place == Place::b && a()) {
    b_id_ = begun_;
  } else {
    // B is what A is compared with, whichever run is A, as long as both answer one prompt.
    const RunRecord& run = *find(begun_)->run;
    if (b() && !(b()->run->model.weights_hash == run.model.weights_hash && same_prompt(run, *b()->run))) b_id_ = 0;
    a_id_ = begun_;
  }
}

// Where the person has not put another one meanwhile.
void Runs::give_place_back() {
  wanted_.reset();
  if (a_id_ != begun_ && b_id_ != begun_) return;
  if (a_id_ == begun_) a_id_ = find(a_before_) ? a_before_ : 0;
  b_id_ = find(b_before_) ? b_before_ : 0;
}

bool Runs::take(RunAssembler::Snapshot snapshot) {
  RunEntry* run = entry(begun_);
  if (!run) return false;
  const std::pair before = shown_ids();
  run->run = std::move(snapshot.run);
  run->revision = snapshot.revision;
  if (is_stillborn(*run->run)) {
    give_place_back();
  } else if (wanted_ && run->run->n_tokens() > 0) {
    take_place();
  }
  return shown_ids() != before;
}

bool Runs::grow(RunAssembler::Snapshot snapshot) {
  const int a_before = a_id_;
  const bool moved = take(std::move(snapshot));
  if (moved) preview_.clear();
  if (a() && a_id_ != a_before) views::start_over(selection_);
  if (a() && a_id_ == begun_) preview_.follow(a()->run);
  update();
  return moved;
}

void Runs::fail(const std::string& message) {
  RunEntry* run = entry(begun_);
  if (!run) return;
  auto failed = std::make_shared<RunRecord>(*run->run);
  finish_run(*failed, RunStatus::failed, message);
  take({.request_id = 0, .run = std::move(failed), .revision = run->revision + 1});
  update();
}

void Runs::show_growing(std::shared_ptr<const RunRecord> run, std::uint64_t revision) {
  if (begun_ == 0) begin(*run, Place::a);
  grow({.request_id = -1, .run = std::move(run), .revision = revision});
}

void Runs::set_trace_path(int id, const std::string& path) {
  if (RunEntry* run = entry(id)) run->trace_path = path, run->trace_run = 0;  // the file has this run alone
}

void Runs::rename(int id, const std::string& name) {
  RunEntry* run = entry(id);
  if (!run) usage_error("id", "no run " + std::to_string(id));
  run->name = name;
  update();
}

void Runs::show(int a_id, int b_id) {
  if ((a_id != 0 && !find(a_id)) || (b_id != 0 && !find(b_id))) usage_error("run", "no such run");
  const int a_before = std::exchange(a_id_, a_id), b_before = std::exchange(b_id_, b_id == a_id ? 0 : b_id);
  if (b_id_ != 0 && b_id_ != b_before && b_id_ != a_before) bring_in_sight(b_id_);
  if (a_id_ != 0 && a_id_ != a_before && a_id_ != b_before) bring_in_sight(a_id_);
  // With B chosen, B is to be seen, not the preview in its place.
  if (a_id != a_before || b_id != 0) preview_.clear(), preview_.set_due(false);
  update();
  if (b_id != b_before) suggest_metric();
}

void Runs::swap() {
  if (a() && b()) show(b_id_, a_id_);
}

void Runs::remove(int id) {
  if (id == begun_ && engine_.run_in_progress()) usage_error("run", "it is in progress", "", "stop it first");
  const auto it = std::ranges::find(runs_, id, &RunEntry::id);
  if (it == runs_.end()) return;
  removed_.push_back(std::move(*it));
  runs_.erase(it);
  if (b_id_ == id) b_id_ = 0;
  if (a_id_ == id) {
    preview_.clear();
    a_id_ = std::exchange(b_id_, 0);
    if (a_id_ == 0) a_id_ = newest_with_tokens();
  }
  update();
}

int Runs::newest_with_tokens() const {
  for (auto entry = runs_.rbegin(); entry != runs_.rend(); ++entry) {
    if (entry->run->n_tokens() > 0) return entry->id;
  }
  return 0;
}

void Runs::bring_back(int id) {
  const auto it = std::ranges::find(removed_, id, &RunEntry::id);
  if (it == removed_.end()) return;
  RunEntry entry = std::move(*it);
  removed_.erase(it);
  put_back(std::move(entry));
}

bool Runs::set_removed(const std::set<int>& ids) {
  const std::set<int> before = removed_ids();
  if (before == ids) return false;
  for (const int id : before) {
    if (!ids.contains(id)) bring_back(id);
  }
  for (const int id : ids) {
    if (find(id)) remove(id);
  }
  update();
  return true;
}

void Runs::forget(const std::set<int>& ids) {
  std::erase_if(removed_, [&](const RunEntry& run) { return ids.contains(run.id); });
}

int Runs::divergence() const {
  if (!shown_a_.run || !shown_b_.run) return -1;
  const auto &a = shown_a_.run->ids, &b = shown_b_.run->ids;
  const auto end = a.begin() + static_cast<std::ptrdiff_t>(std::min(a.size(), b.size()));
  const auto at = std::mismatch(a.begin(), end, b.begin()).first;
  return at == end ? -1 : static_cast<int>(at - a.begin());
}

std::vector<views::ShownRun> Runs::chosen() const {
  std::vector<views::ShownRun> set;
  const views::ShownRun first = shown(a(), "A");
  if (!views::drawable(&first)) return set;
  for (const int id : selection_.runs) {
    views::ShownRun run = shown(find(id), "");
    if (views::drawable(&run) && views::same_shape(*run.run, *first.run)) set.push_back(std::move(run));
  }
  return set;
}

std::vector<views::ShownRun> Runs::same_text(int n) const {
  std::vector<views::ShownRun> runs;
  if (!views::drawable(shown_a())) return runs;
  runs.push_back(shown_a_);
  const RunRecord& a = *shown_a_.run;
  const auto add = [&](const views::ShownRun& run) {
    const bool has_text = views::drawable(&run) && run.run->n_tokens() >= n && a.n_tokens() >= n &&
                          std::equal(a.ids.begin(), a.ids.begin() + n, run.run->ids.begin());
    if (has_text && views::same_shape(*run.run, a) && runs.size() < kMostOfOneText) runs.push_back(run);
  };
  add(shown_b_);
  for (const RunEntry& entry : runs_) {
    if (entry.run == shown_a_.run || entry.run == shown_b_.run) continue;
    views::ShownRun other = shown(&entry, "");
    other.label = entry.name.empty() ? "run " + std::to_string(entry.id) : escape_for_terminal(entry.name, kMaxName);
    add(other);
  }
  return runs;
}

// At once if that costs less than a frame: a script that waits for a run's end and exports its map finds the metric settled.
void Runs::suggest_metric() {
  constexpr int kAtOnce = 1 << 16;  // lifetimes: 1.2 ms on one busy core
  const bool wants_head = !head_was_shown_, wants_metric = !selection_.metric_chosen;
  if (!a() || (!wants_head && !wants_metric)) return;
  const auto run = a()->run, other = b() ? b()->run : nullptr;
  const auto look = [run, other, wants_head, wants_metric, now = selection_.metric] {
    return std::pair(wants_head ? evicting_head(*run) : std::nullopt,
                     wants_metric ? opening_metric(*run, other.get(), now) : now);
  };
  const auto show = [this, run, now = selection_.metric](const std::pair<std::optional<views::KvHead>, Metric>& found) {
    if (!a() || a()->run != run) return;
    const auto& [head, metric] = found;
    // While no head and no token was looked at, the policy is shown at work. Once: the choice is the user's then.
    const bool looked = selection_.layer > 0 || selection_.kv_head > 0 || selection_.token >= 0;
    if (!std::exchange(head_was_shown_, true) && head && !looked)
      selection_.layer = head->layer, selection_.kv_head = head->kv_head, revision_.rise();
    if (selection_.metric_chosen || selection_.metric != now || metric == now) return;
    views::choose_metric(selection_, metric);  // the colour range was that of the metric before
    selection_.metric_chosen = false;          // by a person
    revision_.rise();
  };
  // Beside B every query of every head is looked at.
  const int looks = std::max(1, run->n_tokens()) * (other ? 20 : 1);
  if (run->evict_at.n_layers() * run->evict_at.n_kv_heads() <= kAtOnce / looks) return show(look());
  background_.post([look, show]() -> Worker::Finish { return [show, found = look()] { show(found); }; },
                   [this](const std::string& text) { messages_.log("no metric chosen: " + text); });
}

void Runs::clamp_selection() {
  if (!shown_a()) return;
  const RunRecord* run = shown_a()->run.get();
  const views::Cursor at = views::cursor(selection_, *run);
  selection_.layer = at.layer, selection_.kv_head = at.kv_head, selection_.token = at.token;
  selection_.hovered_token = std::clamp(selection_.hovered_token, -1, run->n_tokens() - 1);
  if (selection_.q) selection_.q = at.q;
}

void Runs::update() {
  shown_a_ = shown(a(), "A");
  shown_b_ = {};
  if (shown_a_.run) update_shown_b();
  leave_text_of_a();
  clamp_selection();
  revision_.rise();
}

void Runs::update_shown_b() {
  if (preview_.shown()) {
    shown_b_ = {.run = preview_.run(),
                .preview = true,
                .label = preview_label(*preview_.run(), *shown_a_.run),
                .revision = preview_.revision()};
  } else {
    shown_b_ = shown(b(), "B");
  }
  if (!shown_b_.run) return;
  const ModelInfo &model_a = shown_a_.run->model, &model_b = shown_b_.run->model;
  if (model_a.n_layers != model_b.n_layers || model_a.n_kv_heads != model_b.n_kv_heads)
    shown_b_ = {};  // views compare head by head
  if (shown_b_.run && !preview_.shown()) tell_gates_apart(shown_a_, shown_b_);
}

void Runs::leave_text_of_a() {
  const RunEntry* now = a();
  if (!now || now->run->n_tokens() == 0) return;
  const auto before = std::exchange(selected_of_, {now->id, now->run});
  if (!before.second || before.first == now->id) return;
  const RunRecord &old = *before.second, &run = *now->run;
  int n = common_prefix(old, run);
  for (int t = 0; t < n; ++t) {  // of another model an id is another text
    if (old.pieces.size() > static_cast<std::size_t>(t) && run.pieces.size() > static_cast<std::size_t>(t) &&
        old.pieces[static_cast<std::size_t>(t)] != run.pieces[static_cast<std::size_t>(t)])
      n = t;
  }
  views::leave_text(selection_, n, old.prompt_len == run.prompt_len && n >= old.prompt_len);
}

}  // namespace kvscope::app
