// The registry of commands, without a window and without an engine.

#include <catch2/catch.hpp>
#include <cstring>
#include <regex>
#include <set>

#include "app/command/argument.h"
#include "app/command/layouts.h"
#include "engine/core/record/command_line.h"
#include "engine/core/support/error.h"
#include "engine/core/trace/trace_file.h"
#include "tests/app/process.h"
#include "tests/app/program.h"
#include "tests/support/random_run.h"
#include "views/figure/export.h"
#include "views/figure/layer_head_map_figure.h"

using namespace kvscope;
using namespace kvscope::app;

TEST_CASE("Every command has an id of its own, a title and a group, and its shortcuts find it") {
  test::Program program;
  std::set<std::string> ids;
  for (const Command& command : program.commands.all()) {
    INFO(command.id);
    CHECK(ids.insert(command.id).second);
    CHECK(command.id.find('.') != std::string::npos);
    CHECK_FALSE(command.title.empty());
    CHECK_FALSE(command.group.empty());
    std::istringstream words(command.shortcut);
    for (std::string word; words >> word;) CHECK(program.commands.find(Shortcut::parse(word)) == &command);
  }
  for (const char* id :
       {"run.start", "run.cancel", "run.decode_again", "run.compare", "preview.apply", "policy.set", "prompt.set",
        "selection.layer_next", "selection.head_prev", "scrub.next", "scrub.end", "trace.open", "trace.save",
        "figure.export", "heads.export", "engine.restart", "palette.open", "help.keys", "app.quit"}) {
    CHECK(ids.contains(id));
  }
}

TEST_CASE("Two commands cannot share an id or a shortcut") {
  CommandRegistry registry;
  const auto nothing = [](const nlohmann::json&) -> nlohmann::json { return nullptr; };
  registry.add({.id = "a.b", .title = "t", .group = "g", .shortcut = "Ctrl+K", .run = nothing});
  CHECK_THROWS_AS(registry.add({.id = "a.b", .title = "t", .group = "g", .run = nothing}), std::logic_error);
  CHECK_THROWS_AS(registry.add({.id = "a.c", .title = "t", .group = "g", .shortcut = "X Ctrl+k", .run = nothing}),
                  std::logic_error);
}

TEST_CASE("A shortcut is parsed with its modifiers, and the plus key is a key") {
  CHECK(Shortcut::parse("Ctrl+Shift+E") == Shortcut{"e", true, true, false});
  CHECK(Shortcut::parse("Ctrl++") == Shortcut{"+", true, false, false});
  CHECK(Shortcut::parse("F12") == Shortcut{"f12"});
  CHECK_THROWS_AS(Shortcut::parse("Strg+E"), std::logic_error);
}

TEST_CASE("A command that is unknown or not possible is refused with a reason, and changes nothing") {
  test::Program program;
  CHECK_THROWS_WITH(program.commands.execute("run.strat"), Catch::Contains("no such command"));
  CHECK_THROWS_WITH(program.commands.execute("run.start"), Catch::Contains("not possible now"));
  CHECK_THROWS_WITH(program.commands.execute("trace.save", {{"path", "x.h5"}}), Catch::Contains("not possible now"));
  CHECK(program.session.runs().all().empty());
}

TEST_CASE("policy.set takes a text, a parameter or a budget, and refuses what the policy does not have") {
  test::Program program;
  const auto set = [&](const nlohmann::json& arguments) {
    return program.commands.execute("policy.set", arguments).get<std::string>();
  };
  CHECK(set({{"policy", "kvpop:budget=512,window=32"}}) == PolicySpec::parse("kvpop:budget=512,window=32").to_string());
  CHECK(set({{"parameter", "window"}, {"value", 48}}) == PolicySpec::parse("kvpop:budget=512,window=48").to_string());
  CHECK(set({{"budget", 0.5}, {"kind", "keep"}}) == PolicySpec::parse("kvpop:keep=50%,window=48").to_string());
  const PolicySpec before = program.session.parameters().policy;
  CHECK_THROWS_AS(set({{"parameter", "threshold"}, {"value", 1}}), Error);
  CHECK_THROWS_AS(set({{"parameter", "window"}, {"value", -1}}), Error);
  CHECK_THROWS_AS(set({{"policy", "nonsense"}}), Error);
  CHECK(program.session.parameters().policy == before);
}

TEST_CASE("A command that needs a path asks for one, and goes on with the path that is given") {
  test::Program program;
  program.commands.execute("trace.open");
  REQUIRE(program.ui.dialog);
  CHECK(program.ui.dialog->command == "trace.open");
  CHECK_FALSE(program.ui.dialog->save);
}

TEST_CASE("What is typed as a command's arguments is read as their kinds say") {
  Command heads{
      .id = "x", .title = "X", .group = "G", .shortcut = "", .arguments = {arg::text("heads", "", "layer.head")}};
  CHECK(parse_arguments(heads, "  0.1-3 5.0 ") == nlohmann::json{{"heads", "0.1-3 5.0"}});
  CHECK(parse_arguments(heads, "12") == nlohmann::json{{"heads", "12"}});  // a text, not a number
  Command select = heads;
  select.arguments = {arg::number("layer"), arg::number("kv_head"), arg::number("token")};
  CHECK(parse_arguments(select, "layer 3, token 7") == nlohmann::json{{"layer", 3}, {"token", 7}});
  CHECK(parse_arguments(select, "3, 1") == nlohmann::json{{"layer", 3}, {"kv_head", 1}});
  CHECK(parse_arguments(select, " 3 1  7") == nlohmann::json{{"layer", 3}, {"kv_head", 1}, {"token", 7}});
  CHECK_THROWS_WITH(parse_arguments(select, "3 1 7 9"), Catch::Contains("not an argument of this command"));
  CHECK(parse_arguments(select, "").empty());
  CHECK_THROWS_WITH(parse_arguments(select, "depth 3"), Catch::Contains("depth 3: not an argument of this command"));
  CHECK(asks_arguments(select));
  select.shortcut = "Ctrl+G";
  CHECK_FALSE(asks_arguments(select));
}

TEST_CASE("Switches of the window change its state only") {
  test::Program program;
  program.commands.execute("view.left");
  CHECK_FALSE(program.ui.left);
  program.commands.execute("palette.open");
  CHECK(program.ui.palette);
  program.commands.execute("view.maximise", {{"view", "token_strip"}});
  CHECK(program.ui.maximised == "token_strip");
  program.commands.execute("view.maximise");
  CHECK(program.ui.maximised.empty());
  program.commands.execute("app.quit");
  CHECK(program.ui.quit);
}

TEST_CASE("A layout says which views stand beside each other, and each can be changed, added and hidden") {
  test::Program program;
  const auto row = [&] {
    std::vector<std::string> ids;
    for (const views::View* view : main_row(program.ui, program.views)) ids.emplace_back(view->id());
    return ids;
  };
  using Ids = std::vector<std::string>;
  CHECK(row() == Ids{"layer_head_map", "cache_timeline"});
  program.commands.execute("view.show", {{"view", "run_curves"}, {"instead_of", "cache_timeline"}});
  CHECK(row() == Ids{"layer_head_map", "run_curves"});
  program.commands.execute("view.toggle_metric_by_layer");
  CHECK(row() == Ids{"layer_head_map", "run_curves", "metric_by_layer"});
  program.commands.execute("view.toggle_layer_head_map");
  program.commands.execute("view.toggle_run_curves");
  program.commands.execute("view.toggle_metric_by_layer");
  CHECK(row().empty());
  program.commands.execute("view.toggle_token_strip");
  program.commands.execute("view.show", {{"view", "run_curves"}});  // where nothing is left to put it beside
  CHECK(row() == Ids{"run_curves"});
  CHECK_THROWS_WITH(program.commands.execute("view.show", {{"view", "inspector"}}),
                    Catch::Contains("one of token_strip, layer_head_map, cache_timeline"));
  for (const LayoutPreset& layout : layout_presets()) {
    program.ui.maximised = "token_strip";
    program.commands.execute("layout." + std::string(layout.name));
    // It names no view that is not there. Without a study the board stands without the study's empty pane.
    CHECK(row().size() == layout.main.size() - (layout.name == "allocate" ? 1 : 0));
    CHECK(program.ui.left == layout.left);
    CHECK(program.ui.maximised.empty());
  }
}

TEST_CASE("The colours of the maps are chosen by name, or are the other ones") {
  test::Program program;
  program.commands.execute("view.colours");
  CHECK(program.ui.colours == views::Colormap::cividis);
  program.commands.execute("view.colours", {{"name", "cividis"}});
  CHECK(program.ui.colours == views::Colormap::cividis);
  CHECK_THROWS_WITH(program.commands.execute("view.colours", {{"name", "diverging"}}),
                    Catch::Contains("viridis or cividis"));
  program.commands.execute("view.colours");
  CHECK(program.ui.colours == views::Colormap::viridis);
}

TEST_CASE("A layout of one's own has what was on show when it was saved, and takes the place of one of that name") {
  test::Program program;
  const auto& own = program.ui.own_layouts;
  program.commands.execute("layout.save");  // asks for the name
  CHECK(program.ui.layouts);
  CHECK_THROWS_WITH(program.commands.execute("layout.apply", {{"name", "wide"}}), Catch::Contains("not possible"));
  program.commands.execute("view.show", {{"view", "run_curves"}, {"instead_of", "cache_timeline"}});
  program.commands.execute("view.right");
  program.commands.execute("layout.save", {{"name", "  wide \n"}});
  REQUIRE(own.size() == 1);
  const Arrangement wide = arrangement_of({"layer_head_map", "run_curves"});
  CHECK(own[0] == OwnLayout{"wide", true, false, true, false, wide, {}});

  program.commands.execute("layout.explore");
  program.ui.maximised = "token_strip";
  program.commands.execute("layout.apply", {{"name", "wide"}});
  CHECK_FALSE(program.ui.right);
  CHECK(program.ui.maximised.empty());
  CHECK(program.ui.arrangement == wide);
  CHECK_FALSE(program.ui.layouts);  // it was chosen from the list

  program.commands.execute("layout.paper");
  program.commands.execute("layout.save", {{"name", "wide"}});
  REQUIRE(own.size() == 1);
  CHECK(own[0].arrangement == arrangement_of({"layer_head_map", "metric_by_layer"}));
  CHECK_THROWS_WITH(program.commands.execute("layout.remove", {{"name", "tall"}}), Catch::Contains("one of \"wide\""));
  CHECK_THROWS_WITH(program.commands.execute("layout.save", {{"name", " "}}), Catch::Contains("a name for the layout"));
  CHECK_THROWS_WITH(program.commands.execute("layout.save", {{"name", std::string(61, 'x')}}),
                    Catch::Contains("at most 60"));
  for (int i = 1; i < 20; ++i) program.commands.execute("layout.save", {{"name", std::to_string(i)}});
  CHECK_THROWS_WITH(program.commands.execute("layout.save", {{"name", "one more"}}), Catch::Contains("remove one"));
  program.commands.execute("layout.remove", {{"name", "wide"}});
  CHECK(own.size() == 19);
  CHECK(own.front().name == "1");
}

TEST_CASE("prompt.copy_command gives the line that does what the panel is set to") {
  test::Program program;
  program.commands.execute("prompt.set", {{"text", "it's a\nprompt"}});
  program.commands.execute("policy.set", {{"policy", "streaming:window=60"}});
  const std::string line = program.commands.execute("prompt.copy_command").get<std::string>();
  CHECK(line.starts_with("kvscope run "));
  // What was written and no more: a gate's own numbers are to hold for the rest, there as here.
  CHECK(line.find("--policy streaming:window=60 ") != std::string::npos);
  CHECK(line.ends_with("--prompt 'it'\\''s a\nprompt'"));
  CHECK(program.ui.clipboard == line);
}

// W12: it gave the panel's policy while another one had made A.
TEST_CASE("run.copy_command gives the line that did A, whatever the panel is set to since") {
  test::Program program;
  Session& session = program.session;
  CHECK_THROWS_WITH(program.commands.execute("run.copy_command"), Catch::Contains("not possible now"));
  const test::TemporaryFolder folder;
  const std::string trace = (folder / "a.h5").string();
  const RunRecord run = test::random_run(3);
  save_trace(trace, run, false);
  session.traces().open(trace);
  program.settle();
  program.commands.execute("policy.set", {{"policy", "quest:read=128"}});
  CHECK(program.commands.execute("run.copy_command") == command_line(run));
  CHECK(program.ui.clipboard == command_line(run));
}

TEST_CASE("Each metric of the map is a command of its own: menu and palette find it by its name") {
  test::Program program;
  for (const Metric metric : views::map_metrics()) {
    const MetricInfo& info = views::metric_info(metric);
    const Command* command = program.commands.find("metric." + std::string(info.name));
    REQUIRE(command);
    CHECK(command->title == "Metric: " + std::string(info.title));
    CHECK_FALSE(asks_arguments(*command));
    program.commands.execute(command->id);
    CHECK(program.session.selection().metric == metric);
  }
}

TEST_CASE("A figure without a view's name is that of the view that is meant, and the dialog keeps to it") {
  test::Program program;
  const test::TemporaryFolder folder;
  save_trace(folder / "a.h5", test::random_run(3), false);
  program.session.traces().open(folder / "a.h5");
  program.settle();
  program.commands.execute("layout.paper");
  for (const char* view : {"token_strip", "cache_timeline", "metric_by_layer"}) {
    program.ui.pointed_view = view;
    program.commands.execute("figure.export");
    REQUIRE(program.ui.dialog);
    CHECK(program.ui.dialog->path == std::string(view) + ".pdf");
    program.ui.pointed_view.clear();  // the mouse is in the dialog now
    nlohmann::json arguments = program.ui.dialog->arguments;
    CHECK(arguments["view"] == view);
    program.ui.dialog.reset();
  }
  program.commands.execute("figure.export");
  REQUIRE(program.ui.dialog);
  CHECK(program.ui.dialog->path == "layer_head_map.pdf");  // the first of the row
}

TEST_CASE("What the window exports of each view is the library's figure of what is selected, byte for byte") {
  test::Program program;
  Session& session = program.session;
  const test::TemporaryFolder folder;
  const std::string traces[] = {(folder / "a.h5").string(), (folder / "b.h5").string()};
  save_trace(traces[0], test::random_run(3), false);
  save_trace(traces[1], test::random_run(3, {.policy = "streaming:window=60"}), false);
  for (const std::string& trace : traces) session.traces().open(trace), program.settle();
  const bool with_b = GENERATE(false, true);
  session.runs().show(session.runs().all()[0].id, with_b ? session.runs().all()[1].id : 0);
  const std::string colour = GENERATE("state", "score", "kept_heads", "oracle");
  program.commands.execute("selection.set", {{"layer", 1}, {"kv_head", 2}, {"token", 5}});
  program.commands.execute("scrub.to", {{"q", 90}});
  program.commands.execute("view.colour_" + colour);
  program.commands.execute("view.metric", {{"metric", "recall"}});

  std::map<std::string, nlohmann::json> recipes;
  recipes["token_strip"] = {{"figure", "token_strip"},
                            {"q", 90},
                            {"first", 0},
                            {"count", 180},
                            {"layer", 1},
                            {"kv_head", 2},
                            {"colour", colour},
                            {"with_b", with_b},
                            {"evictable_only", false}};
  recipes["layer_head_map"] = {{"figure", "layer_head_map"}, {"metric", "recall"}, {"q", 90}, {"histogram", true}};
  if (with_b) recipes["layer_head_map"]["compare"] = "side_by_side";
  recipes["cache_timeline"] = {{"figure", "timeline"}, {"layer", 1}, {"kv_head", 2}};
  views::ViewContext context{session.runs().shown_a(), session.runs().shown_b(), &session.selection(), nullptr};
  context.same_text = [&session](int n) { return session.runs().same_text(n); };
  for (const auto& view : program.views) {
    const std::string id = view->id();
    INFO(id);
    const auto figure = view->figure(context);
    if (!figure) {
      CHECK_FALSE(recipes.contains(id));
      continue;
    }
    // What a view without a row says of itself stands for what it should say: the export is still of these very runs.
    views::FigureRecipe told;
    told.options = figure->options;
    nlohmann::json json = recipes.contains(id) ? recipes[id] : nlohmann::json(views::to_json(told));
    json["run"] = 0;
    std::vector<const RunRecord*> runs;
    json["traces"] = nlohmann::json::array();
    for (std::size_t i = 0; i < figure->runs.size(); ++i)
      json["traces"].push_back(traces[i]), runs.push_back(session.runs().all()[i].run.get());
    if (recipes.contains(id)) REQUIRE(runs.size() == (with_b && id != "cache_timeline" ? 2u : 1u));
    const auto recipe = views::parse_recipe(json, "test");
    for (const std::string ending : {".svg", ".pdf", ".png"}) {
      const auto exported = (folder / ("window" + ending)).string(),
                 expected = (folder / ("library" + ending)).string();
      program.commands.execute("figure.export", {{"view", id}, {"path", exported}, {"overwrite", true}});
      program.settle();
      const auto written = views::export_figure(views::build_figure(recipe, runs), recipe, expected, {.replace = true});
      for (const std::filesystem::path& file : written) {
        const auto same_file = folder / ("window" + file.filename().string().substr(std::strlen("library")));
        std::string text = test::read_text(file);
        if (file.extension() == ".tex") text = std::regex_replace(text, std::regex("library\\}"), "window}");
        CHECK((test::read_text(same_file) == text));
      }
    }
  }
}

TEST_CASE("What the window exports of several runs is what the command line makes of its recipe, byte for byte") {
  test::Program program;
  Session& session = program.session;
  const test::TemporaryFolder folder;
  const auto run = [](std::uint64_t seed) { return test::random_run(seed, {.prompt_len = 70, .n_new = 9}); };
  for (const std::string name : {"a.h5", "b.h5"}) {
    TraceWriter writer(folder / name, run(0).model, {.max_runs = 3, .max_positions = run(0).n_tokens()});
    for (std::uint64_t i = 0; i < 3; ++i) writer.add(run(i + (name == "b.h5" ? 3 : 0)));
    writer.finish();
    program.commands.execute("trace.open", {{"path", (folder / name).string()}});
    program.settle();
  }
  auto& map = session.selection().map;
  map.aggregate = GENERATE(views::Aggregate::median, views::Aggregate::mean, views::Aggregate::iqr);
  session.selection().runs = GENERATE(std::vector<int>{}, std::vector{1, 3, 5}, std::vector{4, 5, 6});
  session.runs().show(5, 2);  // of no set: A and B, neither of them its trace's first
  const std::string first = (folder / "first.pdf").string(), again = (folder / "again.pdf").string();
  for (const char* view : {"layer_head_map", "metric_by_layer", "token_strip"}) {
    program.commands.execute("figure.export", {{"view", view}, {"path", first}, {"overwrite", true}});
    program.settle();
    const auto made = test::kvscope_run({"figure", (folder / "first.json").string(), "-o", again, "--overwrite"});
    INFO(view << made.err);
    REQUIRE(made.exit_code == 0);
    for (const char* ending : {".pdf", ".figure.csv", ".json"})
      CHECK((test::read_text(folder / ("first" + std::string(ending))) ==
             test::read_text(folder / ("again" + std::string(ending)))));
  }
}

TEST_CASE("The attention that is on show is exported, and none where it is not") {
  test::Program program;
  Session& session = program.session;
  const test::TemporaryFolder folder;
  const RunRecord run = test::random_run(3);
  TraceWriter writer(folder / "t.h5", run.model, {.max_runs = 1, .max_positions = run.n_tokens()});
  writer.add(run);
  writer.finish();
  program.commands.execute("trace.open", {{"path", (folder / "t.h5").string()}});
  program.settle();
  session.selection().layer = 1, session.selection().token = 30;
  const nlohmann::json arguments = {{"view", "token_attention"}, {"path", (folder / "a.svg").string()}};
  CHECK_THROWS_WITH(program.commands.execute("figure.export", arguments), Catch::Contains("view"));
  TokenAttention attention{.layer = 1, .n_heads = run.model.n_heads, .n_queries = run.n_tokens(), .tokens = {30}};
  for (int head = 0; head < attention.n_heads; ++head)
    for (int q = 0; q < attention.n_queries; ++q)
      attention.probability.push_back(q < 30 ? std::nanf("") : (head + 1.f) / (q + 2.f));
  session.attention().asked().answer = std::make_shared<const TokenAttention>(attention);
  program.commands.execute("figure.export", arguments);
  program.settle();
  CHECK_THAT(test::read_text(folder / "a.svg"), Catch::Contains("query heads"));
}

TEST_CASE(
    "The first run is shown in a head that evicts where the first head keeps all, and the choice is a person's then") {
  test::Program program;
  Session& session = program.session;
  const test::TemporaryFolder folder;
  RunRecord run = test::random_run(3);
  for (auto& evict_at : run.evict_at.row(0, 0)) evict_at = kNever;
  std::erase_if(run.contests, [](const Contest& contest) { return contest.layer == 0 && contest.kv_head == 0; });
  TraceWriter writer(folder / "t.h5", run.model, {.max_runs = 2, .max_positions = run.n_tokens()});
  writer.add(run);
  run.prompt_text = "another";
  writer.add(run);
  writer.finish();
  const auto open = [&] {
    program.commands.execute("trace.open", {{"path", (folder / "t.h5").string()}});
    program.settle();
    REQUIRE(session.runs().shown_a());
  };
  SECTION("nobody has chosen") {
    open();
    const auto& selection = session.selection();
    CHECK(selection.layer + selection.kv_head > 0);
    const HeadMap density = head_metric(run, Metric::density, run.queries() - 1);
    CHECK(density.at(selection.layer, selection.kv_head) < 1);
    session.selection().layer = session.selection().kv_head = 0;
    session.runs().show(2, 0);
    CHECK(session.selection().layer + session.selection().kv_head == 0);
  }
  SECTION("a token is selected") {
    session.selection().token = 7;
    open();
    CHECK(session.selection().layer + session.selection().kv_head == 0);
  }
}

TEST_CASE("heads.export says what it will write before it asks where to, or why it writes nothing") {
  test::Program program;
  Session& session = program.session;
  const test::TemporaryFolder folder;
  const auto show = [&](const std::string& policy, const char* name) {
    const std::string path = (folder / name).string();
    save_trace(path, test::random_run(3, {.policy = policy}), false);
    session.traces().open(path);
    program.settle();
    session.runs().show(session.runs().all().back().id, 0);
  };
  show("kvpop:budget=64,sinks=4,window=16", "fixed.h5");
  CHECK_THROWS_WITH(program.commands.execute("heads.export"),
                    Catch::Contains("every head keeps the same number of tokens"));
  CHECK_FALSE(program.ui.dialog.has_value());
  show("threshold:threshold=0,sinks=4,window=16", "open.h5");
  program.commands.execute("heads.export", {{"count", 4}});
  REQUIRE(program.ui.dialog.has_value());
  CHECK_THAT(program.ui.dialog->hint, Catch::Contains("4 of 6 heads global, share 0.667, coverage"));
  CHECK(program.ui.dialog->arguments["count"] == 4);
  CHECK_THAT(session.messages().notice(), Catch::Contains("4 of 6 heads global"));
  program.commands.execute("heads.export", {{"count", 4}, {"path", (folder / "heads").string()}});
  program.settle();
  CHECK(nlohmann::json::parse(test::read_text(folder / "heads/config.json"))["full_heads"] == 4);
  CHECK_THROWS_WITH(program.commands.execute("heads.export", {{"strategy", "z"}}), Catch::Contains("a, b, c or d"));
}
