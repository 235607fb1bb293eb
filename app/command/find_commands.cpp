// find.*: searching the tokens of run A.

#include <algorithm>

#include "app/command/app_commands.h"
#include "app/command/command_arguments.h"
#include "engine/core/study/measure/token_query.h"

namespace kvscope::app {
namespace {

nlohmann::json step(Session& session, UiState& ui, int direction) {
  views::Selection& selection = session.selection();
  if (selection.find.empty()) {
    ui.open(ui.find);
    return nullptr;
  }
  const RunRecord& run = *session.runs().shown_a()->run;
  const views::Cursor at = views::cursor(selection, run);
  const std::vector<std::int32_t> starts =
      TokenQuery::parse(selection.find).find(run, at.layer, at.kv_head, at.q).starts;
  if (starts.empty()) {
    session.messages().notify("no matches", [&selection, text = selection.find] { return selection.find == text; });
    return nullptr;
  }
  // From the cursor on, round the end.
  std::int32_t token = 0;
  if (direction > 0) {
    const auto next = std::ranges::upper_bound(starts, selection.token);
    token = next == starts.end() ? starts.front() : *next;
  } else {
    const auto next = std::ranges::lower_bound(starts, selection.token < 0 ? run.n_tokens() : selection.token);
    token = next == starts.begin() ? starts.back() : *std::prev(next);
  }
  selection.token = token;
  views::reveal_token(selection, token, run);
  return token;
}

// What is written wrong is told, and stays in the field to be put right.
nlohmann::json set(Session& session, const nlohmann::json& arguments) {
  views::Selection& selection = session.selection();
  selection.find = text_argument(arguments, "text");
  const RunRecord& run = *session.runs().shown_a()->run;
  const views::Cursor at = views::cursor(selection, run);
  const TokenHits hits = TokenQuery::parse(selection.find).find(run, at.layer, at.kv_head, at.q);
  return {{"tokens", hits.tokens.size()}, {"places", hits.starts.size()}};
}

}  // namespace

void add_find_commands(CommandRegistry& registry, Session& session, UiState& ui) {
  const auto shown = [&session] { return session.runs().shown_a() != nullptr; };
  registry.add({"find.open", "Find tokens by text or by state", "Select", "/ Ctrl+F", takes(), shown,
                [&ui] { ui.open(ui.find); }});
  registry.add(
      {"find.next", "Next match", "Select", "N", takes(), shown, [&session, &ui] { return step(session, ui, 1); }});
  registry.add({"find.prev", "Previous match", "Select", "Shift+N", takes(), shown,
                [&session, &ui] { return step(session, ui, -1); }});
  registry.add({"find.set", "Search for a text", "Select", "", takes(arg::text("text", "", "text to find")), shown,
                [&session](const nlohmann::json& arguments) { return set(session, arguments); }});
  registry.add({"find.clear", "End the search", "Select", "", takes(), shown, [&session, &ui] {
                  session.selection().find.clear();
                  ui.find.reset();
                }});
}

}  // namespace kvscope::app
