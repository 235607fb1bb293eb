// Studies without a window: opened, listed, looked at, undone, found again by the next start, and their points as runs.

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "app/command/app_commands.h"
#include "app/command/layouts.h"
#include "engine/core/support/error.h"
#include "engine/core/trace/study_file.h"
#include "engine/core/trace/trace_file.h"
#include "tests/app/study_support.h"
#include "tests/app/sweep_support.h"
#include "tests/support/random_run.h"
#include "tests/support/skip.h"
#include "tests/support/study_literal.h"
#include "views/view_list.h"

using namespace kvscope;
using namespace kvscope::app;
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

/// The program without a window, with a workspace on a folder, as one start of it.
struct Program {
  explicit Program(const fs::path& state, const std::string& engine = "exit 0")
      : session({.engine_command = engine, .trace_program = test::kvscope().string(), .wake = [] {}}),
        workspace(session, ui, ui,
                  {.state = state,
                   .settings = "",
                   .trace_program = test::kvscope().string(),
                   .wake = [] {},
                   .clock = [this] { return now; }}) {
    add_workspace_commands(commands, workspace);
    add_all_commands(commands, session, ui, views);
    wait([&] { return workspace.is_read() && !workspace.state()["restoring"].get<bool>(); });
    workspace.begin();
    settle();
  }
  template <typename Condition>
  void wait(Condition condition) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120 * test::kSlowdown);
    while (!condition()) {
      session.poll();
      workspace.poll();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      if (std::chrono::steady_clock::now() > deadline) FAIL("timed out; " << session.state().dump());
    }
  }
  void settle() {
    for (int i = 0; i < 3; ++i) {  // a file's kind first, then what is in it, then its point
      wait([&] { return !session.files().busy(); });
      session.poll();
      workspace.poll();
    }
    now += std::chrono::seconds(5);
  }
  json run(const std::string& id, const json& arguments = json::object()) {
    json answer = commands.execute(id, arguments);
    settle();
    return answer;
  }
  std::string state() const { return to_json(capture_state(session, ui, ui)).dump(); }
  json studies() const { return session.state()["studies"]; }
  std::vector<std::string> banners() const {
    std::vector<std::string> texts;
    for (const Banner& banner : const_cast<Session&>(session).messages().banners()) texts.push_back(banner.text);
    return texts;
  }
  std::chrono::steady_clock::time_point now{};
  UiState ui;
  Session session;
  Workspace workspace;
  CommandRegistry commands;
  views::NullTextureBackend textures;
  views::ItemRegistry items;
  views::Theme theme;
  views::ViewList views = views::make_views({&textures, &items, &theme});
};

bool has_row(const Program& program, const std::string& view) {
  return std::ranges::any_of(main_row(program.ui, program.views), [&](const auto* v) { return v->id() == view; });
}

}  // namespace

TEST_CASE("A study is opened as a file is, is listed, shown and closed, and each of these is undone", "[study]") {
  const test::TemporaryFolder folder;
  const std::string a = (folder / "a.h5").string(), b = (folder / "b.h5").string(), c = (folder / "c.h5").string();
  write_study(a, test::small_study(), false);
  write_study(b, test::small_study(0.75), false);
  write_study(c, test::study_of("density,nll\n0.5,2\n1,1\n", kBenchStudy), false);
  save_trace(folder / "run.h5", test::random_run(3), false);
  Program program((folder / "state").string());
  program.run("policy.set",
              {{"policy", "streaming:window=40"}});  // what comes by itself is a step once there are others
  program.run("file.open", {{"path", a}});
  CHECK(program.banners().empty());
  REQUIRE(program.studies()["open"].size() == 1);
  CHECK(program.studies()["open"][0]["path"] == a);
  CHECK(program.studies()["open"][0]["kind"] == "sweep");
  CHECK(program.studies()["open"][0]["points"] == 3);
  CHECK(program.studies()["axes"]["x"] == "density");
  CHECK(program.session.files().recent().front() == a);
  CHECK(has_row(program, "study"));
  program.run("study.open", {{"path", b}});
  program.run("study.open", {{"path", c}});
  CHECK(program.studies()["open"][2]["kind"] == "bench");
  CHECK(program.studies()["shown"] == 3);
  program.run("study.show", {{"id", 1}});
  CHECK(program.studies()["shown"] == 1);
  program.run("study.close");
  CHECK(program.studies()["open"].size() == 2);
  CHECK(program.studies()["shown"] == 3);
  program.run("edit.undo");
  REQUIRE(program.studies()["open"].size() == 3);
  CHECK(program.studies()["shown"] == 1);
  CHECK(program.studies()["open"][0]["points"] == 3);  // it has been read again
  program.run("edit.undo");
  CHECK(program.studies()["shown"] == 3);
  program.run("edit.undo");
  CHECK(program.studies()["open"].size() == 2);
  program.run("edit.redo");
  CHECK(program.studies()["open"].size() == 3);
  // A trace is a trace, whoever else might have it.
  program.run("file.open", {{"path", (folder / "run.h5").string()}});
  CHECK(program.session.runs().all().size() == 1);
  CHECK(program.studies()["open"].size() == 3);
}

TEST_CASE("A damaged study, a trace and a stranger's file are one banner each, and nothing changes", "[study]") {
  const test::TemporaryFolder folder;
  const std::string good = (folder / "good.h5").string(), bad = (folder / "bad.h5").string();
  write_study(good, test::small_study(), false);
  save_trace(folder / "run.h5", test::random_run(3), false);
  std::string bytes = test::read_text(good);
  const std::size_t at = bytes.find("a:tau=2");
  REQUIRE(at != std::string::npos);
  bytes[at] = 'b';
  std::ofstream(bad, std::ios::binary) << bytes;
  std::ofstream(folder / "text.h5") << "no HDF5 at all";
  Program program((folder / "state").string());
  program.run("file.open", {{"path", good}});
  program.run("study.select", {{"point", 1}});
  const std::string before = program.state();
  const auto refused = [&](const char* command, const std::string& file, const std::string& words) {
    INFO(command << " " << file);
    program.run("banner.dismiss");
    program.run(command, {{"path", (folder / file).string()}});
    REQUIRE(program.banners().size() == 1);
    CHECK_THAT(program.banners()[0], Catch::Contains(file) && Catch::Contains(words));
    CHECK(program.banners()[0].find('\n') == std::string::npos);
    CHECK(program.state() == before);
    CHECK(program.studies()["open"].size() == 1);
  };
  program.session.messages().add_banner({.text = "one"});
  refused("study.open", "bad.h5", "its values do not match their checksum");
  refused("file.open", "bad.h5", "its values do not match their checksum");
  refused("study.open", "run.h5", "a KVScope trace");
  refused("study.open", "text.h5", "not an HDF5 file");
  refused("file.open", "text.h5", "");
  refused("study.open", "none.h5", "");
}

TEST_CASE("Prompts of capture give the first as the prompt, and figure recipes and text tables are refused by name",
          "[study]") {
  const test::TemporaryFolder folder;
  const auto file = [&](const std::string& name, const std::string& text) {
    std::ofstream(folder / name) << text;
    return (folder / name).string();
  };
  Program program((folder / "state").string());
  const auto prompt = [&] { return program.session.parameters().prompt; };
  const auto notice = [&] { return program.session.messages().notice(); };

  program.run("file.open", {{"path", file("p.jsonl", "\n{\"prompt\": \"first of all\"}\n\n{\"prompt\": \"b\"}\n")}});
  CHECK(program.banners().empty());
  CHECK(prompt() == "first of all");
  CHECK_THAT(notice(), Catch::Contains("first of 2 lines of p.jsonl") && Catch::Contains("kvscope capture"));
  CHECK(program.session.files().recent().front() == (folder / "p.jsonl").string());
  program.run("file.open", {{"path", file("m.jsonl", R"({"messages": [{"role": "system", "content": "be brief"},
 )")}});
  CHECK(program.banners().size() == 1);  // half a line is no prompt, nor a table
  program.run("banner.dismiss");
  program.run("file.open", {{"path", file("m.jsonl", R"({"messages": [{"role": "system", "content": "be brief"}, )"
                                                     R"({"role": "user", "content": "why?"}]})")}});
  CHECK(prompt() == "why?");
  CHECK_THAT(notice(), Catch::Contains("the only line of m.jsonl"));
  program.run("file.open", {{"path", file("bad.jsonl", R"({"prompt": 7})")}});
  REQUIRE(program.banners().size() == 1);
  CHECK_THAT(program.banners()[0], Catch::Contains("bad.jsonl: first line"));
  CHECK(prompt() == "why?");

  program.run("banner.dismiss");
  program.run("file.open", {{"path", file("fig.json", R"({"figure": "token_strip", "traces": ["a.h5"]})")}});
  REQUIRE(program.banners().size() == 1);
  CHECK_THAT(program.banners()[0], Catch::Contains("fig.json: the recipe of a figure") &&
                                       Catch::Contains("kvscope figure ") && !Catch::Contains("\n"));
  CHECK(program.studies()["open"].empty());
  for (const char* name : {"some.json", "some.jsonl", "some.csv"}) {
    CAPTURE(name);
    program.run("banner.dismiss");
    program.run("file.open", {{"path", file(name, "{\"nll\": 2, \"density\": 0.5}\n")}});
    REQUIRE(program.banners().size() == 1);
    CHECK_THAT(program.banners()[0], Catch::Contains(name) && Catch::Contains("a text file; expected a study (.h5)"));
    CHECK(program.studies()["open"].empty());
  }
}

TEST_CASE("The axes of a study, its rows and its point are set by commands, refused where wrong, and undone",
          "[study]") {
  const test::TemporaryFolder folder;
  write_study(folder / "a.h5", test::small_study(), false);
  Program program((folder / "state").string());
  CHECK_THROWS_AS(program.run("study.axes", {{"x", "density"}}), Error);
  CHECK_THROWS_AS(program.run("study.close"), Error);
  program.run("study.open", {{"path", (folder / "a.h5").string()}});
  const std::string before = program.state();
  for (const json& wrong : {json{{"x", "nothing"}}, json{{"y", "policy"}}, json{{"by", 3}}, json{{"where", "density"}},
                            json{{"where", "other=1"}}, json{{"interval", "big"}}, json{{"front", "yes"}}}) {
    INFO(wrong.dump());
    CHECK_THROWS_AS(program.run("study.axes", wrong), Error);
  }
  CHECK_THROWS_WITH(program.run("study.axes", {{"y", "policy"}}), Catch::Contains("one of is_dense, chunk, density"));
  CHECK_THROWS_WITH(program.run("study.select", {{"point", 3}}), Catch::Contains("0 to 2"));
  CHECK_THROWS_WITH(program.run("study.show", {{"id", 9}}), Catch::Contains("one of 1"));
  CHECK(program.state() == before);
  program.run("study.axes",
              {{"x", "policy"}, {"y", "density"}, {"by", "none"}, {"where", "is_dense=0"}, {"interval", "none"}});
  CHECK(program.studies()["axes"]["x"] == "policy");
  CHECK(program.studies()["axes"]["where"] == json::array({"is_dense=0"}));
  program.run("study.axes", {{"x", ""}, {"y", ""}, {"by", ""}, {"where", "all"}, {"log_x", true}, {"front", true}});
  CHECK(program.studies()["axes"]["x"] == "density");
  CHECK(program.studies()["axes"]["front"] == true);
  // Along the drawn points and around: 0.25, 0.5.
  program.run("study.next");
  CHECK(program.studies()["point"] == 2);
  program.run("study.next");
  CHECK(program.studies()["point"] == 1);
  program.run("study.next");
  CHECK(program.studies()["point"] == 2);
  program.run("study.previous");
  CHECK(program.studies()["point"] == 1);
  program.run("edit.undo");
  CHECK(program.studies()["point"] == 2);
  CHECK(program.commands.find("edit.redo")->title.find("study point") != std::string::npos);
  program.run("study.select", {{"point", -1}});
  CHECK(program.commands.refusal(*program.commands.find("study.open_point")) == "No point of the study is selected.");
  program.run("study.select", {{"point", 1}});
  CHECK_THAT(program.studies()["why_not"].get<std::string>(),
             Catch::Contains("does not record what each point was asked for"));
  CHECK_THROWS_AS(program.run("study.open_point"), Error);
}

TEST_CASE("What the study view exports is what kvscope figure makes of the recipe beside it, byte for byte",
          "[study]") {
  const test::TemporaryFolder folder;
  write_study(folder / "a.h5", test::small_study(), false);
  Program program((folder / "state").string());
  program.run("study.open", {{"path", (folder / "a.h5").string()}});
  const json axes = GENERATE(json::object(), json{{"x", "policy"}, {"y", "density"}, {"by", "none"}},
                             json{{"log_x", true}, {"interval", "band"}, {"where", "is_dense=0"}, {"front", false}});
  program.run("study.axes", axes);
  const std::string figure = (folder / "f.pdf").string();
  program.run("figure.export", {{"view", "study"}, {"path", figure}, {"venue", "icml"}});
  REQUIRE(program.banners().empty());
  const std::string bytes = test::read_text(figure), csv = test::read_text(folder / "f.figure.csv");
  const test::Result line =
      test::kvscope_run({"figure", (folder / "f.json").string(), "-o", (folder / "g.pdf").string()});
  INFO(line.err);
  REQUIRE(line.exit_code == 0);
  CHECK((test::read_text(folder / "g.pdf") == bytes));
  CHECK(test::read_text(folder / "g.figure.csv") == csv);
  CHECK(test::read_text(folder / "g.json") == test::read_text(folder / "f.json"));
}

TEST_CASE("The next start has the studies, their axes and the point, and one that is gone is one line", "[study]") {
  const test::TemporaryFolder folder;
  for (const char* name : {"a.h5", "b.h5"}) write_study(folder / name, test::small_study(), false);
  std::string state;
  {
    Program first((folder / "state").string());
    for (const char* name : {"b.h5", "a.h5"}) first.run("study.open", {{"path", (folder / name).string()}});
    first.run("study.axes", {{"y", "density"}, {"x", "nll_difference"}, {"log_y", true}, {"where", "is_dense=0"}});
    first.run("study.select", {{"point", 2}, {"piece", 1}});
    state = first.state();
    first.workspace.finish();
  }
  fs::remove(folder / "b.h5");
  for (int start = 0; start < 2; ++start) {
    Program next((folder / "state").string());
    CHECK(next.state() == state);
    REQUIRE(next.studies()["open"].size() == 2);
    CHECK(next.studies()["open"][0]["points"] == 0);
    CHECK_FALSE(next.studies()["open"][0]["why_not"].get<std::string>().empty());
    CHECK(next.studies()["open"][1]["points"] == 3);
    CHECK(next.studies()["axes"]["y"] == "density");
    CHECK(next.banners().empty());
    int lines = 0;
    for (const std::string& line : next.session.messages().log_lines()) lines += line.find("b.h5") != std::string::npos;
    CHECK(lines == 1);
    next.workspace.finish();
  }
}
