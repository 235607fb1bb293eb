// What a query could not see in the program: its export, undo and saved layouts.

#include <catch2/catch.hpp>
#include <cmath>
#include <string>

#include "app/workspace/workspace_state.h"
#include "engine/core/trace/trace_file.h"
#include "tests/app/exported_view.h"
#include "tests/app/program.h"
#include "tests/support/random_run.h"

using namespace kvscope;
using namespace kvscope::app;

TEST_CASE("What a query could not see is exported as shown, and the command line makes it again, byte for byte") {
  test::Program program;
  const test::TemporaryFolder folder;
  Session& session = program.session;
  const RunRecord run = test::random_run(3);
  TraceWriter writer(folder / "t.h5", run.model, {.max_runs = 1, .max_positions = run.n_tokens()});
  writer.add(run);
  writer.finish();
  program.commands.execute("trace.open", {{"path", (folder / "t.h5").string()}});
  program.settle();
  session.selection().layer = 1, session.selection().kv_head = 2;
  session.selection().unseen_heads = GENERATE(views::UnseenHeads::one, views::UnseenHeads::all);
  const nlohmann::json arguments = {{"view", "unseen_tokens"}, {"path", (folder / "early.svg").string()}};
  CHECK_THROWS_WITH(program.commands.execute("figure.export", arguments), Catch::Contains("view"));
  QueryAttention attention{
      .n_layers = run.model.n_layers, .n_kv_heads = run.model.n_kv_heads, .n_tokens = 151, .probability = {}};
  for (int i = 0; i < attention.n_layers * attention.n_kv_heads * attention.n_tokens; ++i)
    attention.probability.push_back(static_cast<float>(1 + i % 97) / 7500);
  session.query_attention().asked().answer = std::make_shared<const QueryAttention>(attention);
  CHECK(test::check_export(program, folder, "unseen_tokens").starts_with("mark,token,held,evicted,heads_without,"));
}

TEST_CASE("Whose unseen tokens are shown, and on which scale, is kept with the workspace and each copy of the view") {
  test::Program program;
  views::Selection& selection = program.session.selection();
  selection.unseen_heads = views::UnseenHeads::layer, selection.unseen_whole = true;
  const WorkspaceState state = capture_state(program.session, program.ui, program.ui);
  const WorkspaceState again = state_from_json(nlohmann::json::parse(to_json(state).dump()), "w");
  CHECK(again.selection.unseen_heads == views::UnseenHeads::layer);
  CHECK(again.selection.unseen_whole);
  views::ViewLook look = views::look_of(selection);
  CHECK(look.unseen_heads == views::UnseenHeads::layer);
  look.unseen_heads = views::UnseenHeads::all, look.unseen_whole = false;
  views::set_look(selection, look);
  CHECK(selection.unseen_heads == views::UnseenHeads::all);
  CHECK_FALSE(selection.unseen_whole);
}
