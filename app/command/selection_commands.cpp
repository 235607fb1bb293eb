// selection.*, scrub.*: what is looked at, and when.

#include <algorithm>

#include "app/command/app_commands.h"
#include "app/command/command_arguments.h"

namespace kvscope::app {
namespace {

// The next position after q (before, for direction -1) at which the selected head evicted something; -1 if there is
// none.
int next_eviction(const RunRecord& run, const views::Selection& selection, int q, int direction) {
  int best = -1;
  for (const std::int32_t at : run.evict_at.row(selection.layer, selection.kv_head)) {
    if (at >= run.n_tokens() || (direction > 0 ? at <= q : at >= q)) continue;
    if (best < 0 || (direction > 0 ? at < best : at > best)) best = at;
  }
  return best;
}

class Scrubber {
 public:
  explicit Scrubber(Session& session) : session_(session) {}
  int last() const { return session_.runs().shown_a()->run->n_tokens() - 1; }
  int q() const { return views::cursor(session_.selection(), *session_.runs().shown_a()->run).q; }
  const RunRecord& run() const { return *session_.runs().shown_a()->run; }
  views::Selection& selection() { return session_.selection(); }
  void go(int q) {
    selection().play.on = false;
    views::scrub_to(selection(), q, run());
  }
  void go_live() { views::follow_end(selection(), run()); }
  void step(int by) { go(q() + by); }
  void step_event(int direction) {
    const int at = next_eviction(*session_.runs().shown_a()->run, session_.selection(), q(), direction);
    if (at >= 0) go(at);
  }

 private:
  Session& session_;
};

/// Of A; nothing while it is not known, or where there is none.
const EvictionHeadline* headline(Session& session) {
  const RunSummary* summary = session.runs().a() ? session.summaries().of(*session.runs().a()) : nullptr;
  return summary != nullptr && summary->headline ? &*summary->headline : nullptr;
}

// Where a run's evictions cost most.
void add_headline_commands(CommandRegistry& registry, Session& session) {
  const auto why_not = [&session]() -> std::string {
    if (!session.runs().a()) return "There is no run on show.";
    const EvictionHeadline* found = headline(session);
    return found == nullptr ? "No eviction of this run has a verdict." : found->worst ? "" : "No eviction was wrong.";
  };
  registry.add({.id = "selection.worst_head",
                .title = "Select the head with the most wrong evictions",
                .group = "Select",
                .shortcut = "",
                .run =
                    [&session] {
                      const auto worst = headline(session)->worst;
                      session.selection().layer = worst->layer, session.selection().kv_head = worst->kv_head;
                    },
                .why_not = why_not});
  registry.add({.id = "selection.costliest_token",
                .title = "Select the costliest lost token",
                .group = "Select",
                .shortcut = "",
                .run =
                    [&session] {
                      const auto token = headline(session)->costliest;
                      views::Selection& selection = session.selection();
                      selection.layer = token->layer, selection.kv_head = token->kv_head, selection.token = token->t;
                      views::reveal_token(selection, token->t, *session.runs().shown_a()->run);
                    },
                .why_not = why_not});
}

}  // namespace

void add_selection_commands(CommandRegistry& registry, Session& session, UiState&) {
  const auto scrubbing = [&session] { return session.runs().shown_a() != nullptr; };
  const auto add = [&](const char* id, const char* title, const char* group, const char* shortcut, auto action) {
    registry.add({id, title, group, shortcut, takes(), scrubbing, action});
  };
  const auto move = [&session](int views::Selection::*member, int by, int n) {
    auto& selection = session.selection();
    selection.*member = ((selection.*member + by) % n + n) % n;
  };
  const auto n_layers = [&session] { return std::max(1, session.runs().shown_a()->run->model.n_layers); };
  const auto n_heads = [&session] { return std::max(1, session.runs().shown_a()->run->model.n_kv_heads); };
  add("selection.layer_next", "Next layer", "Select", "]", [=] { move(&views::Selection::layer, 1, n_layers()); });
  add("selection.layer_prev", "Previous layer", "Select", "[", [=] { move(&views::Selection::layer, -1, n_layers()); });
  add("selection.head_next", "Next KV head", "Select", "Shift+]",
      [=] { move(&views::Selection::kv_head, 1, n_heads()); });
  add("selection.head_prev", "Previous KV head", "Select", "Shift+[",
      [=] { move(&views::Selection::kv_head, -1, n_heads()); });
  const auto step_token = [&session](int by) {
    views::Selection& selection = session.selection();
    const RunRecord& run = *session.runs().shown_a()->run;
    const std::int32_t from = selection.token >= 0 ? selection.token + by : views::cursor(selection, run).q;
    selection.token = std::clamp(from, 0, run.n_tokens() - 1);
    views::reveal_token(selection, selection.token, run);
  };
  add("selection.token_next", "Next token", "Select", "Alt+.", [=] { step_token(1); });
  add("selection.token_prev", "Previous token", "Select", "Alt+,", [=] { step_token(-1); });
  registry.add({"selection.set", "Select layer, head and token", "Select", "",
                takes(arg::number("layer"), arg::number("kv_head"), arg::number("token")), scrubbing,
                [&session](const nlohmann::json& arguments) {
                  auto& selection = session.selection();
                  selection.layer = integer_argument(arguments, "layer", selection.layer);
                  selection.kv_head = integer_argument(arguments, "kv_head", selection.kv_head);
                  selection.token = integer_argument(arguments, "token", selection.token);
                  session.runs().clamp_selection();
                }});
  registry.add({"heads.mark", "Mark heads on the map", "Select", "",
                takes(arg::text("heads", "", "layer.head, such as 0.1-3 5.0")), scrubbing,
                [&session](const nlohmann::json& arguments) {
                  session.selection().heads =
                      views::parse_heads(text_argument(arguments, "heads"), "heads.mark", "heads");
                }});
  registry.add({"heads.unmark", "Clear all marks", "Select", "", takes(),
                [&session] { return !session.selection().heads.empty(); },
                [&session] { session.selection().heads = {}; }});
  add_headline_commands(registry, session);
  add("selection.clear", "Clear the selection", "Select", "", [&session] { session.selection().token = -1; });

  Scrubber scrubber(session);
  const auto scrub = [&](const char* id, const char* title, const char* shortcut, auto action) {
    add(id, title, "Time", shortcut, [scrubber, action]() mutable { action(scrubber); });
  };
  scrub("scrub.next", "Forward one query", ". right", [](Scrubber& s) { s.step(1); });
  scrub("scrub.prev", "Back one query", ", left", [](Scrubber& s) { s.step(-1); });
  scrub("scrub.next_16", "Forward 16 queries", "Shift+. Shift+right", [](Scrubber& s) { s.step(16); });
  scrub("scrub.prev_16", "Back 16 queries", "Shift+, Shift+left", [](Scrubber& s) { s.step(-16); });
  scrub("scrub.next_eviction", "Next eviction of this head", "Ctrl+right", [](Scrubber& s) { s.step_event(1); });
  scrub("scrub.prev_eviction", "Previous eviction of this head", "Ctrl+left", [](Scrubber& s) { s.step_event(-1); });
  scrub("scrub.home", "First query", "home", [](Scrubber& s) { s.go(0); });
  scrub("scrub.end", "Newest query (live)", "end L", [](Scrubber& s) { s.go_live(); });
  scrub("play.toggle", "Play or pause", "space", [](Scrubber& s) {
    s.selection().play.on = !s.selection().play.on;
    s.selection().play.carry = 0;
  });
  scrub("play.loop", "Play in a loop", "", [](Scrubber& s) { s.selection().play.loop ^= true; });
  registry.add({"play.speed", "Set the playback speed", "Time", "",
                takes(arg::number("speed", "", "queries per second")), scrubbing,
                [scrubber](const nlohmann::json& arguments) mutable {
                  const int speed = integer_argument(arguments, "speed", 30);
                  if (speed < 1 || speed > views::kMaxPlaySpeed)
                    bad_argument("speed", "1 to " + std::to_string(views::kMaxPlaySpeed) + " queries per second");
                  scrubber.selection().play.speed = speed;
                }});
  registry.add({"scrub.to", "Go to a query", "Time", "", takes(arg::number("q")), scrubbing,
                [scrubber](const nlohmann::json& arguments) mutable {
                  scrubber.go(integer_argument(arguments, "q", scrubber.q()));
                  return scrubber.q();
                }});
}

}  // namespace kvscope::app
