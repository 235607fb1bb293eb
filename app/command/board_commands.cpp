// board.*: heads of a hybrid, chosen, exported and measured.

#include <utility>

#include "app/command/app_commands.h"
#include "app/command/command_arguments.h"
#include "app/command/head_export.h"
#include "app/session/gate_title.h"
#include "app/support/paths.h"
#include "engine/core/files/gate/duo_directory.h"
#include "engine/core/support/hash.h"
#include "views/selection/head_choice.h"

namespace kvscope::app {
namespace {

/// The heads on the board, as they are exported.
struct BoardHeads {
  HeadSelection selection;
  LocalSizes sizes;
};

BoardHeads heads_on_board(const Session& session) {
  const RunRecord& run = *session.runs().shown_a()->run;
  return {views::board_selection(run, long_range_entries({&run}), session.selection().board), views::board_sizes(run)};
}

void choose(Session& session, HeadStrategy strategy, const nlohmann::json& arguments) {
  const RunRecord& run = *session.runs().shown_a()->run;
  views::HeadBoard board = session.selection().board;
  board.share = number_argument(arguments, "share", board.share);
  board.seed = integer_argument(arguments, "seed", board.seed);
  if (!(board.share >= 0 && board.share <= 1)) bad_argument("share", "0 to 1");
  if (board.seed < 0 || board.seed > 1 << 30) bad_argument("seed", "a whole number from 0");
  const auto entries = long_range_entries({&run});
  views::fill_board(board, run, entries, strategy);
  session.selection().board = board;
  std::string text = describe(views::board_selection(run, entries, board));
  for (const std::string& warning : warnings_of(views::board_selection(run, entries, board))) text += "; " + warning;
  session.messages().notify(text);
}

void set_heads(Session& session, const nlohmann::json& arguments) {
  views::HeadBoard& board = session.selection().board;
  const RunRecord& run = *session.runs().shown_a()->run;
  board.global = views::parse_heads(text_argument(arguments, "heads"), "board.set", "heads")
                     .within(run.model.n_layers, run.model.n_kv_heads);
  board.rule.clear();
}

/// One folder for each choice, so that a choice that was measured before is found under its name again.
std::filesystem::path folder_of(const BoardHeads& heads) {
  Fnv1a hash;
  for (const int number :
       {heads.selection.n_layers, heads.selection.n_kv_heads, heads.sizes.n_sink, heads.sizes.window})
    hash.add_word(static_cast<std::uint64_t>(number));
  for (const float value : heads.selection.full) hash.add_word(value >= 0.5f ? 1 : 0);
  return needed_state_folder() / "heads" / (std::string(kBoardFolder) + hash.hex());
}

void measure_board(Session& session) {
  const BoardHeads heads = heads_on_board(session);
  const std::filesystem::path folder = folder_of(heads);
  session.files().in_background("measure heads", [&session, heads, folder]() -> Worker::Finish {
    std::filesystem::create_directories(folder);
    export_duo(heads.selection, heads.sizes.n_sink, heads.sizes.window, folder, true);
    return [&session, folder] { session.heads().measure(folder.string()); };
  });
}

}  // namespace

void export_board(Session& session, UiState& ui, const nlohmann::json& arguments) {
  const BoardHeads heads = heads_on_board(session);
  export_heads_of_a(session, ui, arguments, "board.export", heads.selection, heads.sizes);
}

void add_board_commands(CommandRegistry& registry, Session& session, UiState& ui) {
  const auto has_run = [&session] { return views::drawable(session.runs().shown_a()); };
  constexpr std::pair<const char*, const char*> kStrategies[] = {
      {"board.a", "Head board: strategy A, every fourth layer from layer 0 and the last"},
      {"board.b", "Head board: strategy B, every fourth layer from layer 3 and the last"},
      {"board.c", "Head board: strategy C, random heads"},
      {"board.d", "Head board: strategy D, the densest heads"}};
  for (int i = 0; i < 4; ++i) {
    registry.add({kStrategies[i].first, kStrategies[i].second, "Heads", "",
                  i < 2    ? takes()
                  : i == 2 ? takes(arg::number("share", "the board's", "0 to 1"), arg::number("seed", "the board's"))
                           : takes(arg::number("share", "the board's", "0 to 1")),
                  has_run, [&session, strategy = static_cast<HeadStrategy>(i)](const nlohmann::json& arguments) {
                    choose(session, strategy, arguments);
                  }});
  }
  registry.add({"board.set", "Head board: set the global heads", "Heads", "",
                takes(arg::text("heads", "", "layer.head, such as 0.1-3 5.0")), has_run,
                [&session](const nlohmann::json& arguments) { set_heads(session, arguments); }});
  registry.add({"board.export", "Head board: export the heads (DuoAttention)", "Heads", "", head_export_arguments(),
                has_run, [&session, &ui](const nlohmann::json& arguments) { export_board(session, ui, arguments); }});
  registry.add({.id = "board.measure",
                .title = "Head board: measure the heads on A's tokens",
                .group = "Heads",
                .run = [&session] { measure_board(session); },
                .why_not = [&session] { return session.heads().why_not(); }});
}

}  // namespace kvscope::app
