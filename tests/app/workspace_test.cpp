// What lasts from one session to the next, without a window: the state, the runs, the settings, and what damage does to them.

#include "app/workspace/workspace.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "app/command/app_commands.h"
#include "app/command/layouts.h"
#include "app/workspace/settings.h"
#include "engine/core/support/error.h"
#include "engine/core/trace/trace_file.h"
#include "tests/app/poll_until.h"
#include "tests/app/process.h"
#include "tests/support/random_run.h"

using namespace kvscope;
using namespace kvscope::app;
using nlohmann::json;

namespace {

namespace fs = std::filesystem;

std::string prompt_of(int words) {
  std::string text;
  for (int i = 0; i < words; ++i) text += " word" + std::to_string(i % 17);
  return text;
}

/// A session and its workspace on a folder, as one start of the window has them.
class Start {
 public:
  explicit Start(const fs::path& folder, RunAutosave::Limits limits = {}, const std::string& engine_options = "",
                 const fs::path& settings = {})
      : session({.engine_command = "exec " + test::fake_engine().string() + " " + engine_options,
                 .trace_program = test::kvscope().string(),
                 .wake = [] {}}),
        workspace(session, ui, ui,
                  {.state = folder,
                   .settings = settings.empty() ? folder / "settings.json" : settings,
                   .trace_program = test::kvscope().string(),
                   .wake = [] {},
                   .clock = [this] { return now; },
                   .limits = limits}) {
    add_workspace_commands(commands, workspace);
    wait([&] { return workspace.is_read() && !workspace.state()["restoring"].get<bool>(); });
    workspace.begin();
  }
  template <typename Condition>
  void wait(Condition condition) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(25 * test::kSlowdown);
    while (!condition()) {
      poll();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (std::chrono::steady_clock::now() > deadline)
        FAIL("timed out; " << session.state().dump() << workspace.state().dump());
    }
  }
  void poll() {
    session.poll();
    workspace.poll();
  }
  void decode(const std::string& policy) {
    if (!session.engine().model()) {
      session.model().open("some/model");
      wait([&] { return test::has_model(session); });
    }
    session.next_run().set_prompt(prompt_of(60));
    session.next_run().set_max_tokens(6);
    session.policy().set(PolicySpec::parse(policy));
    session.start_run();
    wait([&] { return !session.run_in_progress(); });
  }
  void save() {
    workspace.save();
    wait([&] { return workspace.saved(); });
  }
  std::string log() const {
    std::string all;
    for (const std::string& line : const_cast<Session&>(session).messages().log_lines()) all += line + "\n";
    return all;
  }
  std::string state() const { return to_json(capture_state(session, ui, ui)).dump(); }

  std::chrono::steady_clock::time_point now{};
  UiState ui;
  Session session;
  Workspace workspace;
  CommandRegistry commands;
};

std::set<std::string> files_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename().string());
  return names;
}

void overwrite(const fs::path& file, const std::string& bytes) { std::ofstream(file, std::ios::binary) << bytes; }

}  // namespace

TEST_CASE("A scorer over a pipe is not started again by a restored session, and its command is not saved") {
  const test::TemporaryFolder folder;
  const auto file = folder / "workspace/workspace.json";
  {
    Start first(folder.path());
    first.decode("streaming:window=20");
    first.save();
  }
  json saved = json::parse(test::read_text(file));
  saved["gates"] = {"pipe:touch mark"};
  for (json& choice : saved["choices"]) choice["gates"] = {"pipe:touch mark"};
  overwrite(file, saved.dump());
  Start second(folder.path());
  CHECK(second.workspace.gates().empty());
  CHECK(second.log().find("a scorer over a pipe of the last session is not started again") != std::string::npos);
  WorkspaceFile written = read_workspace_file(file);
  CHECK(to_text(written).find("touch") == std::string::npos);
}

TEST_CASE("The next start has parameters, selection, A and B, layout and runs as they were") {
  const test::TemporaryFolder folder;
  std::string state;
  std::vector<std::shared_ptr<const RunRecord>> runs;
  {
    Start first(folder.path());
    CHECK(first.workspace.is_fresh());
    first.decode("streaming:window=20");
    first.session.next_run().set_stop({"no such text"});
    first.decode("kvpop:budget=70,sinks=2,window=8");
    first.session.runs().show(1, 2);
    first.session.next_run().set_sampling({.temperature = 0.7, .top_k = 5, .top_p = 0.9, .min_p = 0.1, .seed = 11});
    first.session.next_run().set_prompt("another\nprompt, \"quoted\" \xc3\xa9");
    first.session.selection() = {
        .layer = 3, .kv_head = 2, .token = 17, .q = 40, .colour = views::ColourMode::score, .metric = Metric::recall};
    first.session.selection().metric_chosen = true;
    first.session.selection().map = {.compare = views::MapCompare::difference,
                                     .sort = true,
                                     .by_layer = true,
                                     .fit = true,
                                     .lock = false,
                                     .clip = {true, 0.25, 0.5},
                                     .clip_b = {true, -1, 0.125}};
    first.session.selection().heads = {{0, 1}, {0, 2}, {3, 0}};
    first.session.selection().board = {.global = {{1, 1}}, .rule = "d", .share = 0.375, .seed = 9, .context = 4096};
    first.session.selection().play = {.on = true, .speed = 120, .loop = true};
    first.session.files().set_place("/some/place");
    first.ui.left = false, first.ui.log = true, first.ui.arrangement.docked.share = 0.3f;
    first.ui.looks[open_another(first.ui, first.session.selection(), "layer_head_map")].look.metric = Metric::density;
    open_floating(first.ui.arrangement, "cache_timeline", 0.1f, 0.2f, 0.3f, 0.4f);
    first.ui.maximised = "token_strip";
    state = first.state();
    for (const RunEntry& entry : first.session.runs().all()) runs.push_back(entry.run);
    first.workspace.finish();
    CHECK(first.workspace.saved());
  }
  for (int start = 0; start < 2; ++start) {  // and the one after it, of which nobody did anything
    Start next(folder.path());
    CHECK_FALSE(next.workspace.is_fresh());
    CHECK(next.state() == state);
    CHECK(next.session.files().save_folder() == "/some/place");
    CHECK(next.session.selection().play.speed == 120);
    CHECK(next.session.selection().play.loop);
    CHECK_FALSE(next.session.selection().play.on);
    REQUIRE(next.session.runs().all().size() == 2);
    for (std::size_t i = 0; i < 2; ++i)
      CHECK(test::run_difference(*next.session.runs().all()[i].run, *runs[i]).empty());
    CHECK(next.session.runs().all()[0].stop().empty());
    CHECK(next.session.runs().all()[1].stop() == std::vector<std::string>{"no such text"});
    CHECK(next.workspace.model() == "some/model");
    CHECK(next.session.messages().notice() == "Restored 2 runs");
    CHECK_FALSE(next.workspace.undo().can_undo());  // the steps are not kept
    CHECK(next.session.runs().next_id() == 3);
    next.workspace.finish();
  }
}

TEST_CASE("A preview that stood in B's place is there again, and a B that was looked at itself stays") {
  const test::TemporaryFolder folder;
  const bool guesses = GENERATE(true, false), asks = GENERATE(true, false);  // for B, before there is a model
  {
    Start first(folder.path());
    first.decode("kvpop:budget=70,sinks=2,window=8");
    first.decode("streaming:window=20");
    first.session.runs().show(1, 2);
    first.session.policy().set(PolicySpec::parse("streaming:window=30"));
    first.wait([&] { return first.session.preview().shown(); });
    if (!guesses) first.session.runs().show(1, 2);
    first.workspace.finish();
  }
  for (int start = 0; start < (asks ? 1 : 2); ++start) {
    Start next(folder.path());
    next.wait([&] { return !next.session.preview().pending(); });
    REQUIRE(next.session.runs().shown_b() != nullptr);
    CHECK(next.session.runs().shown_b()->preview == guesses);
    CHECK(next.session.runs().b()->id == 2);
    CHECK(next.session.runs().shown_b()->run->policy.value("window") == (guesses ? 30 : 20));
    if (asks) next.session.runs().show(1, 2);
    next.session.model().open("some/model");
    next.wait([&] { return test::has_model(next.session) && !next.session.preview().pending(); });
    CHECK(next.session.runs().shown_b()->preview == (guesses && !asks));
    next.workspace.finish();
  }
}

TEST_CASE("A run that the disk refused is tried again, and at the end once more") {
  const bool at_the_end = GENERATE(true, false);
  const test::TemporaryFolder folder;
  const fs::path in_the_way = folder / "workspace/runs/run-1.h5";
  {
    Start first(folder.path());
    fs::create_directories(in_the_way / "full");
    first.decode("kvpop:budget=70,sinks=2,window=8");
    const auto& banners = first.session.messages().banners();
    first.wait([&] { return !banners.empty(); });
    CHECK_THAT(banners[0].text, Catch::StartsWith("Run 1 will not be restored at the next launch: "));
    first.now += std::chrono::seconds(11);
    first.session.next_run().set_max_tokens(7);
    first.save();
    CHECK(banners.size() == 1);  // it is said once
    fs::remove_all(in_the_way);
    first.now += std::chrono::seconds(at_the_end ? 1 : 11);
    if (!at_the_end) {
      first.wait([&] { return fs::is_regular_file(in_the_way); });
      first.wait([&] { return banners.empty(); });  // it is not so any more
    }
    first.workspace.finish();
  }
  Start next(folder.path());
  REQUIRE(next.session.runs().all().size() == 1);
  CHECK(next.session.runs().all()[0].run->status == RunStatus::complete);
}

TEST_CASE("A run that goes on is on disk every few seconds, and whoever is killed finds what was there") {
  const test::TemporaryFolder folder;
  const auto file = folder / "workspace/runs/run-1.h5";
  RunRecord last;
  {
    Start killed(folder.path(), {}, "--slow 40");
    killed.session.model().open("some/model");
    killed.wait([&] { return test::has_model(killed.session); });
    killed.session.next_run().set_prompt(prompt_of(60));
    killed.session.next_run().set_max_tokens(900);  // longer than whoever waits
    killed.session.policy().set(PolicySpec::parse("kvpop:budget=70,sinks=2,window=8"));
    killed.save();
    killed.session.start_run();
    killed.wait([&] { return fs::exists(file); });
    const auto first = inspect_trace(file).n_runs;
    CHECK(first == 1);
    const int tokens = load_trace(file).n_tokens();
    killed.wait([&] { return killed.session.runs().a()->run->n_tokens() > tokens + 10; });
    CHECK(load_trace(file).n_tokens() == tokens);  // the clock stands still
    killed.now += std::chrono::hours(1);
    killed.wait([&] { return load_trace(file).n_tokens() > tokens; });
    last = load_trace(file);
  }
  Start next(folder.path());
  REQUIRE(next.session.runs().all().size() == 1);
  const RunRecord& run = *next.session.runs().all()[0].run;
  CHECK(run.ids == last.ids);
  CHECK(run.status == RunStatus::cancelled);
  CHECK(run.message == "the window closed during the run");
  CHECK(next.session.runs().next_id() == 2);
}

TEST_CASE("A window that ends in the midst of a run keeps what was decoded") {
  const test::TemporaryFolder folder;
  std::vector<std::int32_t> ids;
  {
    Start first(folder.path(), {}, "--slow 15");
    first.session.model().open("some/model");
    first.wait([&] { return test::has_model(first.session); });
    first.session.next_run().set_prompt(prompt_of(60));
    first.session.next_run().set_max_tokens(400);
    first.session.policy().set(PolicySpec::parse("streaming:window=20"));
    first.session.start_run();
    first.wait([&] { return first.session.runs().a()->run->n_tokens() > 65; });
    ids = first.session.runs().a()->run->ids;
    first.workspace.finish();
  }
  Start next(folder.path());
  REQUIRE(next.session.runs().all().size() == 1);
  CHECK(next.session.runs().a()->run->ids == ids);
  CHECK(next.session.runs().a()->run->status == RunStatus::cancelled);
}

TEST_CASE("A run whose engine died is there again with the reason, and one without a token is not") {
  const test::TemporaryFolder folder;
  RunRecord failed;
  {
    Start first(folder.path(), {}, "--slow 5 --die-at-token 3 --once " + (folder / "died").string());
    first.decode("streaming:window=20");
    failed = *first.session.runs().a()->run;
    REQUIRE(failed.status == RunStatus::failed);
    first.session.restart_engine();
    first.wait([&] { return test::has_model(first.session); });
    first.session.next_run().set_prompt(prompt_of(5000));  // more than the model takes
    first.session.start_run();
    first.wait([&] { return !first.session.run_in_progress(); });
    CHECK(first.session.runs().all().size() == 2);
    first.workspace.finish();
  }
  Start next(folder.path());
  REQUIRE(next.session.runs().all().size() == 1);
  CHECK(test::run_difference(*next.session.runs().all()[0].run, failed).empty());
  CHECK(next.log().find("could not be restored") == std::string::npos);
}

TEST_CASE(
    "A damaged workspace is a line and a fresh start, and its file is kept, and its runs are there all the same") {
  const test::TemporaryFolder folder;
  const auto file = folder / "workspace/workspace.json";
  {
    Start first(folder.path());
    first.decode("streaming:window=20");
    first.workspace.finish();
  }
  const std::string whole = test::read_text(file);
  auto object = json::parse(whole);
  std::vector<std::string> damaged = {whole.substr(0, whole.size() / 2), "", "[]", "{}", std::string(100, '\0')};
  for (const auto& [pointer, value] : std::map<std::string, json>{{"/version", 2},
                                                                  {"/state/parameters/policy", "nonsense"},
                                                                  {"/state/parameters/max_tokens", -1},
                                                                  {"/state/parameters/sampling/top_p", 7},
                                                                  {"/state/selection/layer", "x"},
                                                                  {"/state/selection/metric", "no such"},
                                                                  {"/state/layout/arrangement/docked/share", 7},
                                                                  {"/state/layout/arrangement/docked/across", {2}},
                                                                  {"/state/layout/looks", {2}},
                                                                  {"/state/layout/log", 1},
                                                                  {"/state/shown/a", -1},
                                                                  {"/runs/0/id", 0},
                                                                  {"/runs", 3},
                                                                  {"/next_run", "many"}}) {
    object = json::parse(whole);
    object[json::json_pointer(pointer)] = value;
    damaged.push_back(object.dump());
  }
  for (std::size_t i = 0; i < damaged.size(); ++i) {
    CAPTURE(damaged[i].substr(0, 300), i);
    overwrite(file, damaged[i]);
    Start next(folder.path());
    CHECK(next.workspace.is_fresh());
    CHECK(next.log().find("could not be restored") != std::string::npos);
    CHECK(test::read_text(folder / ("workspace/workspace.damaged-" + std::to_string(i + 1) + ".json")) == damaged[i]);
    REQUIRE(next.session.runs().all().size() == 1);
    next.workspace.finish();
  }
}

TEST_CASE("A run whose file is damaged is a line, the file is kept aside, and the other runs are there") {
  const test::TemporaryFolder folder;
  {
    Start first(folder.path());
    first.decode("streaming:window=20");
    first.decode("streaming:window=30");
    first.workspace.finish();
  }
  const auto runs = folder / "workspace/runs";
  overwrite(runs / "run-1.h5", "no trace");
  overwrite(runs / ".run-2.h5.99999.live", "half of one, by a window that was killed");
  Start next(folder.path());
  REQUIRE(next.session.runs().all().size() == 1);
  CHECK(next.session.runs().all()[0].id == 2);
  CHECK(next.log().find("run 1 of the last session cannot be read") != std::string::npos);
  next.save();
  CHECK(files_in(runs) == std::set<std::string>{"run-1.damaged-1.h5", "run-2.h5"});
}

TEST_CASE("A removed run keeps its file as long as a step leads back to it, and is gone at the next start") {
  const test::TemporaryFolder folder;
  const auto runs = folder / "workspace/runs";
  {
    Start first(folder.path());
    first.decode("streaming:window=20");
    first.decode("streaming:window=30");
    first.save();
    first.workspace.undo().observe();
    first.session.runs().remove(1);
    first.workspace.undo().observe();
    first.save();
    CHECK(files_in(runs) == std::set<std::string>{"run-1.h5", "run-2.h5"});
    first.workspace.undo().undo();
    CHECK(first.session.runs().all().size() == 2);
    first.workspace.undo().redo();
    first.workspace.finish();
  }
  {
    Start next(folder.path());
    REQUIRE(next.session.runs().all().size() == 1);
    CHECK(next.session.runs().all()[0].id == 2);
    next.session.next_run().set_max_tokens(7);
    next.save();
    CHECK(files_in(runs) == std::set<std::string>{"run-2.h5"});
    next.commands.execute("session.new");
    CHECK(next.session.runs().all().empty());
    CHECK(next.session.parameters().max_tokens == 64);
    next.commands.execute("edit.undo");
    CHECK(next.session.runs().all().size() == 1);
    CHECK(next.session.parameters().max_tokens == 7);
    next.commands.execute("edit.redo");
    next.workspace.finish();
  }
  Start last(folder.path());
  CHECK(last.session.runs().all().empty());
  CHECK(last.session.parameters().max_tokens == 64);
  CHECK(last.session.runs().next_id() == 3);  // a number is not given twice
}

TEST_CASE("More runs than may be kept cost the oldest that is not on show, and the person is told") {
  const test::TemporaryFolder folder;
  {
    Start first(folder.path(), {.runs = 2});
    for (const char* policy : {"streaming:window=20", "streaming:window=30", "streaming:window=40"})
      first.decode(policy), first.save();
    CHECK(first.session.runs().all().size() == 3);
    CHECK(first.session.messages().notice() ==
          "run 1 will not be restored at the next launch, because there are too many runs. Save it as a trace.");
    CHECK(files_in(folder / "workspace/runs") == std::set<std::string>{"run-2.h5", "run-3.h5"});
    first.session.runs().show(2, 0);  // what is on show is not the one to go
    first.decode("streaming:window=25"), first.save();
    first.session.runs().show(2, 0);
    first.decode("streaming:window=35"), first.save();
    first.workspace.finish();
  }
  Start next(folder.path());
  CHECK(next.session.runs().all().size() == 2);

  const test::TemporaryFolder small;
  Start bytes(small.path(), {.bytes = 1});
  bytes.decode("streaming:window=20"), bytes.save();
  bytes.decode("streaming:window=30"), bytes.save();
  CHECK(files_in(small / "workspace/runs") == std::set<std::string>{"run-2.h5"});  // the newest is always kept
}

TEST_CASE("A second window has a workspace of its own and says so, and the first one's stays as it is") {
  const test::TemporaryFolder folder;
  Start first(folder.path());
  first.decode("streaming:window=20");
  first.save();
  {
    Start second(folder.path());
    CHECK(second.workspace.is_fresh());
    CHECK(second.session.runs().all().empty());
    CHECK(second.log().find("another window uses the workspace; this window uses workspace number 2") !=
          std::string::npos);
    second.session.next_run().set_prompt("of the second");
    second.workspace.finish();
  }
  first.workspace.finish();
  CHECK(json::parse(test::read_text(folder / "workspace/workspace.json"))["runs"].size() == 1);
  Start again(folder.path());
  CHECK(again.session.parameters().prompt == "of the second");  // it is the second window while the first is open
}

TEST_CASE("A trace that was open is open again, unless another run stands in its place or it is gone") {
  const test::TemporaryFolder folder;
  const std::string trace = (folder / "t.h5").string(), other = (folder / "u.h5").string();
  save_trace(trace, test::random_run(3), false);
  save_trace(other, test::random_run(4), false);
  {
    Start first(folder.path());
    for (const std::string& path : {trace, other}) {
      first.session.traces().open(path);
      first.wait([&] { return !first.session.files().busy(); });
    }
    first.workspace.finish();
    CHECK(files_in(folder / "workspace/runs").empty());
  }
  {
    Start next(folder.path());
    REQUIRE(next.session.runs().all().size() == 2);
    CHECK(next.session.runs().all()[0].trace_path == trace);
    CHECK_FALSE(next.session.runs().all()[0].own);
    CHECK(next.session.files().recent().front() == other);
    next.workspace.finish();
  }
  save_trace(trace, test::random_run(5), true);
  fs::remove(other);
  Start last(folder.path());
  CHECK(last.session.runs().all().empty());
  CHECK(last.log().find("not the run that was open") != std::string::npos);
  CHECK(last.log().find("u.h5") != std::string::npos);
}

TEST_CASE(
    "Theme, size and colours of the maps are settings: they outlive the workspace, and a damaged file of them is kept aside") {
  const test::TemporaryFolder folder;
  {
    Start first(folder.path());
    CHECK_FALSE(fs::exists(folder / "settings.json"));  // nobody has set anything
    first.ui.dark = false, first.ui.zoom = 1.25f, first.ui.colours = views::Colormap::cividis;
    first.save();
  }
  fs::remove_all(folder / "workspace");
  {
    Start next(folder.path());
    CHECK_FALSE(next.ui.dark);
    CHECK(next.ui.zoom == 1.25f);
    CHECK(next.ui.colours == views::Colormap::cividis);
  }
  overwrite(folder / "settings.json", R"({"version": 1, "zoom": 900})");
  Start last(folder.path());
  CHECK(last.ui.dark);
  CHECK(last.ui.zoom == 1);
  CHECK(last.log().find("the settings were reset to their defaults") != std::string::npos);
  CHECK(fs::exists(folder / "settings.damaged-1.json"));
  overwrite(folder / "settings.json", R"({"version": 1, "colours": "diverging"})");  // a map, but none of values
  CHECK(Start(folder.path()).ui.colours == views::Colormap::viridis);
}

TEST_CASE(
    "Layouts of one's own are settings: each comes back as it was saved, and what is none is refused by its field") {
  const test::TemporaryFolder folder;
  const std::vector<OwnLayout> saved = {
      {"wide", true, false, true, true, arrangement_of({"layer_head_map", "run_curves"}), {}},
      {"Größe \"2\"",
       false,
       true,
       false,
       false,
       arrangement_of({"cache_timeline", "cache_timeline.2"}),
       {{"cache_timeline.2", {.own_head = true, .layer = 3, .kv_head = 1}}}}};
  {
    Start first(folder.path());
    first.ui.own_layouts = saved;
    first.save();
  }
  fs::remove_all(folder / "workspace");
  CHECK(Start(folder.path()).ui.own_layouts == saved);
  const auto refused = [&](const std::string& layouts) {
    overwrite(folder / "settings.json", R"({"version": 1, "own_layouts": )" + layouts + "}");
    Start start(folder.path());
    CHECK(start.ui.own_layouts.empty());
    return start.log();
  };
  CHECK(refused("3").find("not a list of at most 20 layouts") != std::string::npos);
  CHECK(refused(R"([{"name": "", "main_row": []}])").find("own_layouts.name") != std::string::npos);
  CHECK(refused(R"([{"name": "a", "arrangement": {"docked": {"across": []}}}])").find("has not two parts") !=
        std::string::npos);
  CHECK(
      refused(R"([{"name": "a", "arrangement": {"docked": {"tabs": ["study", "study"]}}}])").find("\"study\" twice") !=
      std::string::npos);
  CHECK(refused(R"([{"name": "a", "main_row": [1]}])").find("not a list of texts") != std::string::npos);
  CHECK(refused(R"([{"name": "a"}])").find("a layout without an arrangement") != std::string::npos);
  CHECK(refused(R"([{"name": "a", "main_row": []}, {"name": "a", "main_row": []}])").find("\"a\" twice") !=
        std::string::npos);
}

// Everybody may write what is read-only where tests run as root: a file is in the way of the folder, or of one within it.
TEST_CASE("A folder that cannot be written is a banner at the start, and what was decoded is kept once it can be") {
  const std::string in_the_way = GENERATE("workspace", "workspace/runs", "workspace/.probe/x");
  const test::TemporaryFolder folder;
  fs::create_directories((folder / in_the_way).parent_path());
  overwrite(folder / in_the_way, "a file inside its place");
  CAPTURE(in_the_way);
  {
    Start start(folder.path());
    const auto& banners = start.session.messages().banners();
    REQUIRE(banners.size() == 1);
    CHECK_THAT(banners[0].text, Catch::StartsWith("Nothing will be saved: " + (folder / "workspace").string()) &&
                                    Catch::EndsWith(" cannot be written. Save your runs as traces yourself."));
    CHECK(start.log().find("Nothing will be saved: ") != std::string::npos);
    start.decode("streaming:window=20");
    CHECK(start.session.runs().all().size() == 1);
    CHECK_FALSE(start.workspace.state()["saved"].get<bool>());
    CHECK(start.workspace.finish());  // there is nothing to wait for
    fs::remove_all((folder / in_the_way).parent_path() == folder.path() ? folder / in_the_way
                                                                        : folder / in_the_way.substr(0, 16));
    start.now += std::chrono::seconds(11);
    start.wait([&] { return start.workspace.state()["saved"].get<bool>(); });
    CHECK(banners.empty());
    start.workspace.finish();
  }
  Start next(folder.path());
  CHECK(next.session.runs().all().size() == 1);
  CHECK(next.session.messages().banners().empty());
}

TEST_CASE("What lies in a folder that cannot be written any more is read, and nothing of it is lost") {
  const test::TemporaryFolder folder;
  {
    Start first(folder.path());
    first.decode("streaming:window=20");
    first.workspace.finish();
  }
  fs::create_directories(folder / "workspace/.probe/x");
  {
    Start next(folder.path());
    CHECK(next.session.runs().all().size() == 1);
    CHECK(next.session.messages().banners().size() == 1);
    next.session.next_run().set_max_tokens(9);
    CHECK_FALSE(next.workspace.state()["saved"].get<bool>());
    next.workspace.finish();
  }
  fs::remove_all(folder / "workspace/.probe");
  Start last(folder.path());
  CHECK(last.session.runs().all().size() == 1);
  CHECK(last.session.parameters().max_tokens == 6);
}

TEST_CASE("A state that the disk refuses is not called saved, and is written when it can be") {
  const test::TemporaryFolder folder;
  Start start(folder.path());
  fs::create_directories(folder / "workspace/workspace.json/full");
  start.session.next_run().set_max_tokens(9);
  start.now += std::chrono::seconds(2);
  start.wait([&] { return !start.session.messages().banners().empty(); });
  CHECK_THAT(start.session.messages().banners()[0].text,
             Catch::StartsWith("The workspace will not be restored at the next launch"));
  CHECK_FALSE(start.workspace.state()["saved"].get<bool>());
  CHECK(start.workspace.finish());
  fs::remove_all(folder / "workspace/workspace.json");
  start.now += std::chrono::seconds(11);
  start.wait([&] { return start.workspace.state()["saved"].get<bool>(); });
  CHECK(start.session.messages().banners().empty());
}

TEST_CASE("A setting that cannot be kept is a banner") {
  const test::TemporaryFolder folder;
  overwrite(folder / "config", "a file in the folder's place");
  Start start(folder.path(), {}, "", folder / "config/settings.json");
  start.ui.dark = !start.ui.dark;
  start.now += std::chrono::seconds(2);
  start.wait([&] { return !start.session.messages().banners().empty(); });
  CHECK_THAT(start.session.messages().banners()[0].text,
             Catch::StartsWith("A setting will not be restored at the next launch"));
}

// The window could not be ended: two runs of one id were saved over each other without end.
TEST_CASE("A workspace that names a run twice, or with numbers that leave no room, is read and the window ends") {
  const test::TemporaryFolder folder;
  {
    Start first(folder.path());
    first.decode("streaming:window=20");
    first.decode("streaming:window=30");
    first.workspace.finish();
  }
  const auto file = folder / "workspace/workspace.json";
  const json whole = json::parse(test::read_text(file));
  const auto changed = [&](const std::string& what) {
    json object = whole;
    json& runs = object["runs"];
    if (what == "one id") runs[1]["id"] = runs[0]["id"];
    if (what == "three of one") runs.push_back(runs[0]), runs.push_back(runs[0]);
    if (what == "low next") object["next_run"] = 1;
    if (what == "largest next") object["next_run"] = 1 << 30;
    if (what == "largest id") runs.push_back({{"id", 1 << 30}, {"own", true}});
    if (what == "one file") {
      for (const int id : {7, 8, 9}) {
        runs.push_back({{"id", id},
                        {"own", false},
                        {"trace", (folder / "workspace/runs/run-1.h5").string()},
                        {"trace_run", 0},
                        {"fingerprint", ""}});
      }
    }
    if (what == "removed") object["state"]["removed"] = {1, 1, 2};
    return object;
  };
  const std::string what =
      GENERATE("one id", "three of one", "low next", "largest next", "largest id", "one file", "removed");
  CAPTURE(what);
  overwrite(file, changed(what).dump());
  if (what == "largest id")
    fs::copy_file(folder / "workspace/runs/run-2.h5", folder / "workspace/runs/run-1073741824.h5");
  {
    Start next(folder.path());
    std::set<int> ids;
    for (const RunEntry& entry : next.session.runs().all()) ids.insert(entry.id);
    CHECK(ids.size() == next.session.runs().all().size());
    CHECK(next.session.runs().all().size() == (what == "one file" ? 3 : 2));
    const bool is_doubled = what == "one id" || what == "three of one" || what == "largest id" || what == "one file";
    CHECK((next.log().find(" left out, run ") != std::string::npos) == is_doubled);
    next.decode("streaming:window=25");
    CHECK(next.workspace.finish(std::chrono::seconds(60 * test::kSlowdown)));
  }
  Start again(folder.path());
  CHECK(again.log().find("could not be restored") == std::string::npos);
  CHECK(again.session.runs().all().size() == (what == "one file" ? 4 : 3));
}

TEST_CASE("The end of a window waits for its disk no longer than it has patience") {
  const test::TemporaryFolder folder;
  const auto file = folder / "workspace/workspace.json";
  {
    Start first(folder.path());
    first.workspace.finish();
  }
  fs::remove(file);
  overwrite(folder / "workspace/runs/run-1.h5", "to be read");
  Session session({.engine_command = "exec " + test::fake_engine().string(), .trace_program = "", .wake = [] {}});
  UiState ui;
  const auto awake = std::make_shared<std::atomic<bool>>(false);
  const auto wake = [awake] {
    while (!*awake) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  Workspace workspace(session, ui, ui,
                      {.state = folder.path(),
                       .settings = folder / "settings.json",
                       .trace_program = test::kvscope().string(),
                       .wake = wake});
  const auto begun = std::chrono::steady_clock::now();
  CHECK_FALSE(workspace.finish(std::chrono::milliseconds(300)));  // its thread does not come back
  CHECK(std::chrono::steady_clock::now() - begun < std::chrono::seconds(10 * test::kSlowdown));
  *awake = true;
}

TEST_CASE("A state that was written and read is the same state") {
  Start start{fs::path()};
  start.session.next_run().set_policy(PolicySpec::parse("sp-kv:threshold=0.3"));
  start.session.selection().q = 12;
  start.ui.arrangement.docked.share = 0.7f;
  WorkspaceState state = capture_state(start.session, start.ui, start.ui);
  state.removed = {3, 8};
  state.a = 4;
  CHECK(state_from_json(to_json(state), "w") == state);
  CHECK(state_from_json(json::parse(to_json(state).dump()), "w") == state);
  state.selection.q.reset();
  CHECK(state_from_json(to_json(state), "w") == state);
}

TEST_CASE("A layout of a program that had a row of views opens with these views in the row") {
  WorkspaceState state;
  state.prompt = std::make_shared<const std::string>();
  state.parameters = NextRun::defaults();
  json old = to_json(state);
  old["layout"].erase("arrangement"), old["layout"].erase("looks");
  old["layout"]["main_row"] = {"run_curves", "study"};
  old["sizes"] = {{"left", 372}, {"cuts_main", {0.5}}};
  CHECK(state_from_json(old, "w").layout.arrangement == arrangement_of({"run_curves", "study"}));
  old["layout"]["main_row"] = json::array();
  CHECK(state_from_json(old, "w").layout == Layout());
}
