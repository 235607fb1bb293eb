// Studies that the window starts: what they write, and what is left of them after kill -9.

#include <algorithm>
#include <fstream>

#include "app/cli/command_list.h"
#include "engine/core/trace/trace_file.h"
#include "tests/app/program.h"
#include "tests/app/sweep_support.h"
#include "tests/app/window_driver.h"
#include "tests/support/skip.h"

using namespace kvscope;
using namespace kvscope::test;

namespace {

/// The fake engine takes 30 ms for an answer: a study is under way long enough to be killed.
std::string slow_engine() { return fake_engine().string() + " --slow 30"; }

/// A study of each kind: what its form is given, and what the command line is given to make the same file.
struct Case {
  std::string command;
  json options;
  std::string output, journal;  // journal: where its answers are while it is under way
};

Case sweep_case(const TemporaryFolder& folder) {
  json recipe = usual_recipe();
  recipe["policies"] = {"random:keep=50%,window=4", "streaming:window=16"};
  write_recipe(folder, recipe);
  const std::string output = folder / "s.h5";
  return {"sweep",
          {{"RECIPE", (folder / "r.json").string()}, {"o", output}, {"engine", slow_engine()}},
          output,
          output + ".answers"};
}

Case eval_case(const TemporaryFolder& folder) {
  const std::string output = folder / "e.h5";
  return {"eval",
          {{"MODEL", sample_model().string()},
           {"tasks", "needle"},
           {"questions", "12"},
           {"policies", "random:keep=50%,window=4"},
           {"o", output},
           {"engine", slow_engine()}},
          output,
          output + ".answers"};
}

Case capture_case(const TemporaryFolder& folder) {
  std::ofstream prompts(folder / "prompts.txt");
  for (int i = 0; i < 12; ++i) prompts << "prompt number " << i << " has some words\n";
  const std::string output = folder / "c.h5";
  return {"capture",
          {{"MODEL", sample_model().string()},
           {"PROMPTS", (folder / "prompts.txt").string()},
           {"max-tokens", "6"},
           {"o", output},
           {"engine", slow_engine()}},
          output,
          output};
}

Case hybrid_case(const TemporaryFolder& folder) {
  std::ofstream(folder / "text.txt") << read_text(source_folder() / "samples/prompts/heldout.txt").substr(3000, 1500);
  const std::string output = folder / "h.h5", journal = folder / "h.journal";
  return {"hybrid",
          {{"MODEL", sample_model().string()},
           {"texts", (folder / "text.txt").string()},
           {"pieces", "2"},
           {"length", "192"},
           {"policy", "sp-kv"},
           {"strategies", "d"},
           {"shares", "10%,20%,30%,40%,50%,60%,70%,80%"},
           {"journal", journal},
           {"device", "cpu"},
           {"dtype", "float32"},
           {"o", output}},
          output,
          journal};
}

int n_answers(const Case& study) {
  if (study.command == "capture") return fs::exists(study.journal) ? 1 : 0;
  const std::string text = fs::exists(study.journal) ? read_text(study.journal) : "";
  return static_cast<int>(std::ranges::count(text, '\n')) - 1;  // the first line says what the answers are of
}

void wait_for_an_answer(WindowDriver& window, const Case& study) {
  for (int i = 0; i < 2000 * kSlowdown && n_answers(study) < 2; ++i) {
    if (study.command == "capture" && window.state()["study_jobs"][0]["value"] >= 2) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

/// In the first window, which is killed, then in a second one.
void run_through_a_kill(const TemporaryFolder& folder, const Case& study) {
  const Xvfb display;
  {
    WindowDriver window(display, {.engine = fake(), .state = folder / "state"});
    window.wait({{"/model", {{"not", nullptr}}}, {"/workspace/restoring", false}});
    window.command("study.start", {{"command", study.command}, {"options", study.options}});
    window.wait({{"/study_jobs/0/state", "running"}, {"/workspace/saved", true}});
    wait_for_an_answer(window, study);
    const json job = window.state()["study_jobs"][0];
    INFO(job.dump());
    REQUIRE(job["state"] == "running");
    window.kill();
  }
  const int n_before = n_answers(study);
  WindowDriver window(display, {.engine = fake(), .state = folder / "state"});
  window.wait({{"/study_jobs/0/state", "stopped"}});
  window.command("study.resume");
  window.wait({{"/study_jobs/0/state", "complete"}}, 120 * test::kSlowdown);
  CHECK(n_before >= 1);
  CHECK(n_answers(study) >= n_before);
}

/// The same as the command line with the same answers: times are measured, and would differ.
void run_again(const Case& study, const std::string& output) {
  std::vector<std::string> argv = {test::kvscope().string()};
  json options = study.options;
  options["o"] = output;
  if (study.command == "hybrid") options["journal"] = study.journal;
  app::StudyValues values;
  for (const auto& [name, value] : options.items()) values[name] = value.get<std::string>();
  for (const app::StudyForm& form : app::study_forms())
    if (form.command == study.command)
      for (const std::string& word : app::study_words(form, values)) argv.push_back(word);
  const Result result = run({.argv = argv});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
}

}  // namespace

TEST_CASE(
    "a sweep whose window was killed resumes in the next one, and its files are the command line's, byte for byte") {
  if (skip_without_display()) return;
  const TemporaryFolder folder;
  const Case study = sweep_case(folder);
  run_through_a_kill(folder, study);
  fs::copy_file(study.journal, folder / "t.h5.answers");
  run_again(study, folder / "t.h5");
  CHECK(read_text(folder / "t.h5") == read_text(study.output));
  CHECK(read_text(folder / "t.csv") == read_text(folder / "s.csv"));
  for (const auto& [key, n] : answers_in(study.journal)) CHECK((key + " " + std::to_string(n)) == key + " 1");
}

TEST_CASE("an evaluation whose window was killed resumes in the next one, with each answer once in the same study") {
  if (skip_without_display()) return;
  const TemporaryFolder folder;
  const Case study = eval_case(folder);
  run_through_a_kill(folder, study);
  CHECK(n_answers(study) == 2 * 12 + 0);  // the dense policy and the other one
  fs::copy_file(study.journal, folder / "again.h5.answers");
  run_again(study, folder / "again.h5");  // nothing is left to ask
  CHECK(read_text(folder / "again.h5.answers") == read_text(study.journal));
  CHECK(read_text(folder / "again.h5") == read_text(study.output));
}

TEST_CASE("a capture whose window was killed resumes in the next one, and has the runs of the command line's") {
  if (skip_without_display()) return;
  const TemporaryFolder folder;
  const Case study = capture_case(folder);
  run_through_a_kill(folder, study);
  run_again(study, folder / "again.h5");
  for (const std::string& file : {study.output, (folder / "again.h5").string()}) {
    const Result result = kvscope_run({"inspect", file, "--json"});
    REQUIRE(result.exit_code == 0);
    CHECK(json::parse(result.out)["runs"] == 12);
  }
  const Result same = kvscope_run({"compare", study.output, (folder / "again.h5").string()});
  INFO(same.out << same.err);
  CHECK(same.exit_code == 0);
  for (int i = 0; i < 12; ++i) {
    const RunRecord ours = load_trace(study.output, i), theirs = load_trace(folder / "again.h5", i);
    CHECK(ours.prompt_index == theirs.prompt_index);
    CHECK(ours.ids == theirs.ids);
  }
}

TEST_CASE("a hybrid study whose window was killed resumes in the next one, and its file is the command line's") {
  if (skip_without_display()) return;
  if (real_engine().empty()) return skip("kvscope-engine is not built");
  const TemporaryFolder folder;
  const Case study = hybrid_case(folder);
  run_through_a_kill(folder, study);
  run_again(study, folder / "again.h5");
  CHECK(read_text(folder / "again.h5") == read_text(study.output));
}

TEST_CASE("a study's form has every option of its command, and its words are what the command line takes") {
  for (const app::StudyForm& form : app::study_forms()) {
    CAPTURE(form.command);
    const app::CommandSpec& spec = *app::find_command(form.command);
    for (const app::OptionSpec& option : spec.options) {
      const bool is_left_out =
          option.name == "quiet" || option.name == "json" || option.name == "format" || option.name == "dry-run";
      CHECK((form.field(std::string(option.name)) != nullptr) != is_left_out);
    }
    app::StudyValues needed;
    for (const app::StudyField& field : form.fields)
      if (field.is_positional || field.name == "o") needed[field.name] = "1";
    for (const app::StudyField& field : form.fields) {
      app::StudyValues values = needed;
      values[field.name] = field.value.empty() ? "on" : "1";
      const std::vector<std::string> words = app::study_words(form, values);
      CHECK(words.front() == form.command);
      // Throws for what the command line does not know.
      const auto parsed = app::Arguments::parse(spec, std::vector<std::string>(words.begin() + 1, words.end()));
      CHECK((field.is_positional || parsed.has(field.name)));
    }
    CHECK_THROWS_WITH(app::study_words(form, {}), Catch::Contains("empty"));
    needed["nonsense"] = "1";
    CHECK_THROWS_WITH(app::study_words(form, needed), Catch::Contains("nonsense"));
  }
}

TEST_CASE("a study that is stopped says so and resumes, and one that fails says why") {
  const TemporaryFolder folder;
  app::Session session({.engine_command = "exit 0",
                        .trace_program = "",
                        .program = test::kvscope().string(),
                        .study_forms = app::study_forms(),
                        .wake = [] {}});
  app::StudyJobs& jobs = session.study_jobs();
  const auto state = [&](int id) { return jobs.job(id).state; };
  const Case study = sweep_case(folder);
  const std::vector<std::string> words = {"sweep",    study.options["RECIPE"], "-o", study.output,
                                          "--engine", study.options["engine"]};
  const int id = jobs.start(words);
  CHECK_THROWS_WITH(jobs.start(words), Catch::Contains("which another study is writing"));
  CHECK_THROWS_WITH(jobs.remove(id), Catch::Contains("it is running"));
  poll_until(session, [&] { return jobs.job(id).progress.value >= 2; });
  jobs.stop(id);
  CHECK(state(id) == app::StudyJob::State::stopping);
  poll_until(session, [&] { return !jobs.job(id).is_running(); });
  CHECK(state(id) == app::StudyJob::State::stopped);
  CHECK_THAT(jobs.job(id).message, Catch::Contains("run the same command to continue"));
  jobs.resume(id);
  poll_until(session, [&] { return !jobs.job(id).is_running(); });
  CHECK(state(id) == app::StudyJob::State::complete);
  CHECK_THROWS_WITH(jobs.resume(id), Catch::Contains("it is complete"));

  const int bad = jobs.start({"sweep", folder / "no.json", "-o", folder / "n.h5"});
  poll_until(session, [&] { return !jobs.job(bad).is_running(); });
  CHECK(state(bad) == app::StudyJob::State::failed);
  CHECK_THAT(jobs.job(bad).message, Catch::Contains("no.json"));
  REQUIRE(session.messages().banners().size() == 1);
  CHECK_THAT(session.messages().banners()[0].text, Catch::Contains("sweep n.h5 failed: "));
  jobs.remove(bad);
  CHECK(jobs.all().size() == 1);
}

TEST_CASE("a study is filled in, started and watched with mouse and keys, and copied as a command") {
  if (skip_without_display()) return;
  const TemporaryFolder folder;
  const Case study = capture_case(folder);
  const Xvfb display;
  WindowDriver window(display, {.engine = slow_engine()});
  window.wait({{"/model", {{"not", nullptr}}}});
  window.click("button.menu");
  window.click("menu.Study");
  window.click("menu.study.jobs");
  window.click("studies.kind.capture");
  CHECK(window.text_soon("studies.field.MODEL", "kvscope-tiny").find("kvscope-tiny") != std::string::npos);
  window.click("studies.field.PROMPTS");
  window.type(study.options["PROMPTS"]);
  window.text_soon("studies.field.PROMPTS", "prompts.txt");
  window.command("study.field", {{"field", "o"}, {"text", study.output}});
  window.command("study.field", {{"field", "policy"}, {"text", "full"}});  // the prompts are short
  window.command("study.field", {{"field", "max-tokens"}, {"text", "4"}});
  window.click("button.study.copy_command");
  window.frames(2);
  const std::string command = window.command("study.copy_command");
  CHECK_THAT(command,
             Catch::StartsWith("kvscope capture ") && Catch::Contains("prompts.txt") && Catch::Contains(study.output));
  window.click("button.study.start");
  window.wait({{"/study_jobs/0/state", "running"}});
  window.text_soon("studies.job.1", "running");
  window.wait({{"/study_jobs/0/state", "complete"}});
  window.click("studies.study.open_result.1");
  window.wait({{"/runs/0/status", "complete"}, {"/ui/studies", false}});
}
