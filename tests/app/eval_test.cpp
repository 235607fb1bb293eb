// kvscope eval: its table in three forms, its study, its file of answers, and the whole command.

#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "app/studies/eval/eval_journal.h"
#include "app/studies/eval/eval_table.h"
#include "app/studies/eval/length_table.h"
#include "app/studies/sweep/eval_study.h"
#include "engine/core/support/error.h"
#include "engine/core/trace/study_file.h"
#include "tests/app/process.h"
#include "tests/support/expect_error.h"
#include "tests/support/skip.h"

using namespace kvscope;
using namespace kvscope::app;
using test::count_lines;
using test::kvscope_run;
using test::read_text;
using test::TemporaryFolder;

namespace {

EvalAnswer answer_of(const std::string& policy, int index, bool right) {
  EvalAnswer answer{
      .item = "fact_recall", .policy = policy, .is_dense = policy == "full", .index = index, .is_right = right};
  answer.density = 0.25;
  return answer;
}

std::vector<EvalRow> rows_of_two() {
  return summarise(std::vector{answer_of("full", 0, true), answer_of("full", 1, true),
                               answer_of("h2o:keep=25%,window=8", 0, true),
                               answer_of("h2o:keep=25%,window=8", 1, false)});
}

EvalFacts some_facts() {
  return {.model = "m",
          .weights_hash = "12",
          .device = "cpu",
          .dtype = "float32",
          .length = 512,
          .items = {"fact_recall"},
          .policies = {"full", "h2o:keep=25%,window=8"}};
}

}  // namespace

TEST_CASE("the text table leaves out columns that nothing was measured for", "[eval]") {
  const std::string text = eval_table(some_facts(), rows_of_two(), TableFormat::text);
  CHECK(text.find("accuracy") != std::string::npos);
  CHECK(text.find("density") != std::string::npos);
  CHECK(text.find("oracle recall") == std::string::npos);
  CHECK(text.find("NLL") == std::string::npos);
  CHECK(text.find("h2o:keep=25%,window=8  2  0.500") != std::string::npos);
  CHECK(text.find("m, cpu, float32, length 512 tokens") != std::string::npos);
}

TEST_CASE("tables of shares have their mean mark, beside tasks that are right or wrong", "[eval]") {
  std::vector<EvalAnswer> answers;
  for (const std::string& policy : some_facts().policies) {
    for (int index = 0; index < 2; ++index) {
      answers.push_back(answer_of(policy, index, true));
      answers.push_back(answer_of(policy, index, false));
      answers.back().item = "rerank";
      answers.back().share = policy == "full" ? 0.8 : 0.25 + 0.3 * index;
    }
  }
  EvalFacts facts = some_facts();
  facts.items.emplace_back("rerank");
  const std::vector<EvalRow> rows = summarise(answers);
  const std::string text = eval_table(facts, rows, TableFormat::text);
  CHECK(text.find("mean mark") != std::string::npos);
  CHECK(text.find("accuracy") == std::string::npos);
  CHECK(text.find("rerank       h2o:keep=25%,window=8  2  0.400") != std::string::npos);
  const auto json = nlohmann::json::parse(eval_table(facts, rows, TableFormat::json));
  CHECK(json["rows"][0]["is_share"] == false);
  CHECK(json["rows"][3]["is_share"] == true);
  CHECK(json["rows"][3]["accuracy"] == Approx(0.4));
  CHECK(json["rows"][3]["relative"] == Approx(0.5));
  EvalResult other{facts, answers};
  other.facts.length = 1024;
  const std::vector<EvalResult> lengths = {{facts, answers}, other};
  CHECK(length_table(lengths, TableFormat::text).find("mean mark 512  mean mark 1024") != std::string::npos);
  CHECK(averages(lengths)[1].accuracy == Approx((1 + 0.4) / 2));
  const EvalRequest request{.model = "m", .tasks = facts.items, .questions = 2};
  const StudyTable study = eval_study(request, std::vector<EvalResult>{{facts, answers}});
  CHECK(study.numbers("accuracy", "")[3] == Approx(0.4));
  CHECK(study.array("question_right")->values == std::vector<double>{1, 1, 1, 1, 0.8, 0.8, 0.25, 0.55});
}

TEST_CASE("tables say that density leaves the window out where policies have different ones", "[eval]") {
  std::vector<EvalRow> rows = rows_of_two();
  rows.push_back(rows[1]);
  rows[1].cache_size = 0.5;
  rows[0].window = 64;  // of the dense policy: a name for its metrics alone
  rows[1].window = rows[2].window = 32;
  const std::string said = "density leaves out the windows, which differ (32 to 256 tokens): compare by cache size";
  for (const TableFormat format : {TableFormat::text, TableFormat::latex}) {
    CHECK(eval_table(some_facts(), rows, format).find("density leaves out") == std::string::npos);
    rows[2].window = 256;
    const std::string text = eval_table(some_facts(), rows, format);
    CHECK(text.find(said) != std::string::npos);
    CHECK(text.find("cache size") < text.find("density"));
    rows[2].window = 32;
  }
}

TEST_CASE("the study has the columns of a sweep, a row for each item and policy, and every answer", "[eval]") {
  EvalRequest request{.model = "m", .texts = {"/b/a.txt"}, .questions = 3, .pieces = 2, .chunk = 4};
  EvalFacts facts = some_facts();
  facts.items.emplace_back("a.txt");
  std::vector<EvalAnswer> answers = {answer_of("full", 0, true), answer_of("full", 1, true),
                                     answer_of("h2o:keep=25%,window=8", 0, true),
                                     answer_of("h2o:keep=25%,window=8", 1, false)};
  for (const std::string& policy : facts.policies) {
    answers.push_back({.item = "a.txt", .is_text = true, .policy = policy, .is_dense = policy == "full", .index = 1});
    answers.back().nll = policy == "full" ? 2 : 2.5;
  }
  const StudyTable study = eval_study(request, std::vector<EvalResult>{{facts, answers}});
  CHECK_NOTHROW(check_study(study, "s"));
  CHECK(study.kind == kEvalStudy);
  CHECK(study.texts("item", "") == std::vector<std::string>{"fact_recall", "fact_recall", "a.txt", "a.txt"});
  CHECK(study.texts("policy", "")[3] == "h2o:keep=25%,window=8");
  CHECK(study.numbers("accuracy", "")[1] == 0.5);
  CHECK(study.numbers("accuracy_low", "")[1] == Approx(wilson_95(1, 2).low));
  CHECK(study.numbers("nll_difference", "")[3] == 0.5);
  CHECK(std::isnan(study.numbers("nll", "")[1]));
  CHECK(study.numbers("is_dense", "") == std::vector<double>{1, 0, 1, 0});
  CHECK(study.numbers("n", "") == std::vector<double>{2, 2, 1, 1});
  REQUIRE(study.array("question_right")->shape == std::vector<std::int64_t>{4, 3});
  CHECK(study.array("question_right")->values[4] == 0);
  CHECK(std::isnan(study.array("question_right")->values[5]));
  CHECK(study.array("piece_nll")->values[7] == 2.5);
  for (const char* of_recipe : {"gate", "curve", "series"}) CHECK(study.column(of_recipe) == nullptr);
}

TEST_CASE("the JSON has every field of every row, null for what was not measured", "[eval]") {
  const auto json = nlohmann::json::parse(eval_table(some_facts(), rows_of_two(), TableFormat::json));
  CHECK(json["facts"]["length"] == 512);
  REQUIRE(json["rows"].size() == 2);
  CHECK(json["rows"][1]["accuracy"] == 0.5);
  CHECK(json["rows"][1]["relative"] == 0.5);
  CHECK(json["rows"][1]["recall"].is_null());
}

TEST_CASE("the LaTeX table is a tabular of booktabs with every name escaped", "[eval]") {
  const std::string text = eval_table(some_facts(), rows_of_two(), TableFormat::latex);
  CHECK(text.starts_with("\\begin{tabular}{llrrrrr}\n\\toprule\n"));
  CHECK(text.find("fact\\_recall & h2o:keep=25\\%,window=8 & 2 & 0.500") != std::string::npos);
  CHECK(text.find("95 \\%") != std::string::npos);
  CHECK(text.ends_with("\\bottomrule\n\\end{tabular}\n"));
  CHECK(latex_text("a_b%&$#{}~^\\") == "a\\_b\\%\\&\\$\\#\\{\\}\\textasciitilde{}\\textasciicircum{}\\textbackslash{}");
}

namespace {

/// Two tasks and a text under two policies, at 512 and 1,024 tokens: of `second`, the longer has no answer under h2o.
std::vector<EvalResult> two_lengths(bool is_whole = true) {
  std::vector<EvalResult> results;
  for (const int length : {512, 1024}) {
    EvalResult result{.facts = some_facts(), .answers = {}};
    result.facts.length = length;
    result.facts.items = {"first", "second", "a.txt"};
    for (const std::string& item : result.facts.items) {
      for (const std::string& policy : result.facts.policies) {
        for (int index = 0; index < 2; ++index) {
          EvalAnswer answer = answer_of(policy, index, length == 512 || index == 0);
          answer.item = item;
          answer.cache_size = answer.is_dense ? 1 : item == "first" ? 0.25 : 0.5;
          answer.is_text = item == "a.txt";
          if (answer.is_text) answer.nll = length / 512.0, answer.cache_size = 0.125;
          if (!is_whole && item == "second" && length == 1024 && !answer.is_dense) continue;
          result.answers.push_back(answer);
        }
      }
    }
    results.push_back(result);
  }
  return results;
}

}  // namespace

TEST_CASE("several lengths have a column each, and an average over the tasks alone", "[eval]") {
  const auto results = two_lengths();
  const auto all = averages(results);
  REQUIRE(all.size() == 4);  // two lengths, two policies
  CHECK(all[1].policy == "h2o:keep=25%,window=8");
  CHECK(all[1].n_tasks == 2);
  CHECK(all[1].cache_size == 0.375);
  CHECK(all[3].length == 1024);
  CHECK(all[3].accuracy == 0.5);
  const std::string text = length_table(results, TableFormat::text);
  CHECK(text.starts_with("item          policy                 accuracy 512  accuracy 1024  NLL 512  NLL 1024  cache"));
  CHECK(text.find("second        h2o:keep=25%,window=8  1.000         0.500                             0.500") !=
        std::string::npos);
  CHECK(text.find("average of 2  h2o:keep=25%,window=8  1.000         0.500                             0.375") !=
        std::string::npos);
  const std::string latex = length_table(results, TableFormat::latex);
  CHECK(latex.starts_with("\\begin{tabular}{llrrrrrr}"));
  CHECK(latex.find("a.txt & full &  &  & 1.0000 & 2.0000 &") != std::string::npos);
  CHECK(latex.find("\\midrule\naverage of 2 & full & 1.000") != std::string::npos);
  const auto json = nlohmann::json::parse(length_table(results, TableFormat::json));
  CHECK(json["lengths"][1]["facts"]["length"] == 1024);
  CHECK(json["lengths"][1]["rows"].size() == 6);
  CHECK(json["averages"][3]["accuracy"] == 0.5);
}

TEST_CASE("an average over some of the tasks is left out", "[eval]") {
  const auto results = two_lengths(false);
  CHECK(averages(results).size() == 3);
  const std::string text = length_table(results, TableFormat::text);
  CHECK(text.find("average of 2  h2o:keep=25%,window=8  1.000                                           0.375") !=
        std::string::npos);
}

TEST_CASE("the study of several lengths has the rows of each under one heading", "[eval]") {
  const EvalRequest request{.model = "m", .texts = {"/b/a.txt"}, .questions = 2, .pieces = 2};
  const StudyTable study = eval_study(request, two_lengths());
  CHECK_NOTHROW(check_study(study, "s"));
  REQUIRE(study.n_points() == 12);
  for (std::size_t row = 0; row < 12; ++row) {
    const double length = study.numbers("length", "")[row];
    const bool is_text = study.texts("item", "")[row] == "a.txt";
    CHECK((is_text ? study.numbers("nll", "")[row] == length / 512
                   : study.numbers("accuracy", "")[row] == (length == 512 ? 1 : 0.5)));
    if (!is_text) CHECK(study.array("question_right")->values[2 * row + 1] == (length == 512));
    const auto asked = nlohmann::json::parse(study.texts("asked", "")[row]);
    CHECK(nlohmann::json::parse(study.facts)["groups"][asked["group"].get<std::string>()]["length"] == length);
  }
  CHECK(nlohmann::json::parse(study.request)["length"] == nlohmann::json{512, 1024});
}

TEST_CASE("a difference in NLL has its sign, its error and a plus-minus of the form", "[eval]") {
  std::vector<EvalAnswer> answers;
  for (int i = 0; i < 2; ++i) {
    for (const char* policy : {"full", "tova"}) {
      EvalAnswer answer{
          .item = "a.txt", .is_text = true, .policy = policy, .is_dense = policy == std::string("full"), .index = i};
      answer.nll = answer.is_dense ? 2.0 : 2.5 + 0.1 * i;
      answers.push_back(answer);
    }
  }
  const auto rows = summarise(answers);
  CHECK(eval_table(some_facts(), rows, TableFormat::text).find("+0.5500 +- 0.0500") != std::string::npos);
  CHECK(eval_table(some_facts(), rows, TableFormat::latex).find("+0.5500 $\\pm$ 0.0500") != std::string::npos);
}

TEST_CASE("a file of answers goes on where it was cut, and refuses another request or model", "[eval]") {
  const TemporaryFolder folder;
  const auto path = folder / "answers.jsonl";
  const EvalRequest request{.model = "m", .tasks = {"fact_recall"}, .questions = 2};
  {
    EvalJournal file(path, request);
    CHECK(file.done().empty());
    file.begin(some_facts());
    file.append(answer_of("full", 0, true));
    file.append(answer_of("full", 1, false));
  }
  std::ofstream(path, std::ios::app) << "{\"item\":\"fact_re";  // killed in the midst of a line
  {
    EvalJournal file(path, request);
    CHECK(file.done() == std::vector<std::string>{answer_of("full", 0, true).key(), answer_of("full", 1, true).key()});
    CHECK_FALSE(file.answers()[1].is_right);
    file.begin(some_facts());
    file.append(answer_of("h2o:keep=25%,window=8", 0, true));
  }
  CHECK(EvalJournal(path, request).answers().size() == 3);
  EvalRequest other = request;
  other.seed = 9;
  {
    const std::string said = test::error_of([&] { EvalJournal(path, other); });
    CHECK(said.find("seed") != std::string::npos);
    CHECK(said.find("another request") != std::string::npos);
  }
  EvalFacts elsewhere = some_facts();
  elsewhere.weights_hash = "13";
  EvalJournal file(path, request);
  CHECK(test::error_of([&] { file.begin(elsewhere); }).find("weights_hash") != std::string::npos);
  EvalFacts changed = some_facts();
  changed.inputs = {"config.json 1", "book.txt 2"};
  CHECK(test::error_of([&] { file.begin(changed); }).find("answers from no such file; expected \"config.json 1\"") !=
        std::string::npos);
  std::ofstream(folder / "notes.txt") << "{\"a\": 1}\n";
  CHECK(test::error_of([&] { EvalJournal(folder / "notes.txt", request); }).find("not an answers file") !=
        std::string::npos);
}

TEST_CASE("what could not have been answered is refused by its line in a file of answers, and never counted",
          "[eval]") {
  const TemporaryFolder folder;
  const auto path = folder / "answers.jsonl";
  const EvalRequest request{.model = "m", .tasks = {"fact_recall"}, .questions = 2};
  {
    EvalJournal file(path, request);
    file.begin(some_facts());
    file.append(answer_of("full", 0, true));
  }
  const std::string whole = read_text(path), first = whole.substr(0, whole.find('\n') + 1),
                    line = whole.substr(first.size());
  const auto changed = [&](const char* key, const nlohmann::json& value) {
    auto answer = nlohmann::json::parse(line);
    if (value.is_discarded()) {
      answer.erase(key);
    } else {
      answer[key] = value;
    }
    return answer.dump() + "\n";
  };
  const auto none = nlohmann::json::parse("", nullptr, false);
  const std::pair<std::string, const char*> bad[] = {
      {"{}\n", "item: missing"},
      {"[]\n", "an object"},
      {"7\n", "an object"},
      {"\n", ""},
      {first, "missing"},
      {line, "a second answer to the same question; expected one"},
      {changed("index", 2), "index: 2; expected a number below 2"},
      {changed("index", 77), "index: 77; expected a number below 2"},
      {changed("index", -1), "index"},
      {changed("index", "1"), "index"},
      {changed("index", 1.5), "index"},
      {changed("index", none), "index: missing"},
      {changed("is_right", none), "is_right: missing"},
      {changed("is_right", nullptr), "is_right: missing"},
      {changed("is_right", 1), "is_right"},
      {changed("share", 1.5), "share"},
      {changed("share", "most"), "share"},
      {changed("density", 2), "density"},
      {changed("seconds", none), "seconds: missing"},
      {changed("note", "mine"), "a field \"note\""},
      {changed("policy", ""), "policy: \"\"; expected one of the request"},
      {changed("policy", "tova"), "policy: \"tova\""},
      {changed("item", "needle"), "item: \"needle\""},
      {changed("is_dense", false), "is_dense"},
      {changed("is_text", true), "nll: null"},
  };
  for (const auto& [added, said] : bad) {
    CAPTURE(added, said);
    std::ofstream(path, std::ios::trunc) << whole << added;
    const std::string error = test::error_of([&] { EvalJournal(path, request); });
    CHECK(error.find("line 3") != std::string::npos);
    CHECK(error.find(said) != std::string::npos);
    CHECK(error.find("hint: remove that line; its answer is computed again") != std::string::npos);
    CHECK(read_text(path) == whole + added);
  }
  std::ofstream(path, std::ios::trunc) << whole << changed("index", 1);
  CHECK(EvalJournal(path, request).answers().size() == 2);
  // Files from before tasks had shares go on.
  auto before = nlohmann::json::parse(line);
  CHECK(before.erase("share") == 1);
  std::ofstream(path, std::ios::trunc) << first << before.dump() << "\n";
  const EvalJournal old(path, request);
  CHECK(old.done() == std::vector<std::string>{answer_of("full", 0, true).key()});
  CHECK(old.answers()[0].mark() == 1);
}

TEST_CASE("an evaluation that answers nothing leaves no file", "[eval]") {
  const TemporaryFolder folder;
  const auto path = folder / "answers.jsonl";
  { const EvalJournal file(path, {.model = "m"}); }
  CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE("kvscope eval asks, keeps its answers, and asks nothing twice", "[eval]") {
  if (test::real_engine().empty() || !std::filesystem::exists(test::sample_model() / "model.safetensors"))
    return test::skip("kvscope-engine or the sample model is not built");
  const TemporaryFolder folder;
  const std::string study = (folder / "eval.h5").string(), path = study + ".answers";
  const std::vector<std::string> words = {"eval",        test::sample_model().string(),
                                          "--questions", "1",
                                          "--policies",  "streaming:window=60",
                                          "--device",    "cpu",
                                          "--quiet",     "-o",
                                          study};
  auto first = kvscope_run(words);
  REQUIRE(first.exit_code == 0);
  CHECK(first.out.find("reversal") != std::string::npos);
  CHECK(first.out.find("fact_recall") != std::string::npos);
  const std::string written = read_text(path);
  CHECK(count_lines(written) == 5);  // what was asked, and two tasks under two policies
  std::filesystem::resize_file(path, written.size() - 20);
  const std::string whole = read_text(study);
  const auto second = kvscope_run(words);
  REQUIRE(second.exit_code == 0);
  CHECK(count_lines(read_text(path)) == 5);
  CHECK(read_text(path).substr(0, written.size() - 200) == written.substr(0, written.size() - 200));
  CHECK(read_study(test::kvscope(), study).n_points() == 4);
  CHECK(read_text(study).size() == whole.size());  // one answer was asked again: its time is another
  std::filesystem::remove(path);
  const auto without_answers = kvscope_run(words);
  CHECK(without_answers.exit_code == 2);
  CHECK(without_answers.err.find("eval.h5: it exists; hint: use another -o") != std::string::npos);
  std::filesystem::remove(study);
  REQUIRE(kvscope_run(words).exit_code == 0);
  auto other = words;
  other[3] = "2";
  const auto refused = kvscope_run(other);
  CHECK(refused.exit_code == 1);
  CHECK(refused.err.find("questions") != std::string::npos);
}

TEST_CASE("kvscope eval goes on with the lengths that it lacks, and refuses wrong ones before it asks", "[eval]") {
  if (test::real_engine().empty() || !std::filesystem::exists(test::sample_model() / "model.safetensors"))
    return test::skip("kvscope-engine or the sample model is not built");
  const TemporaryFolder folder;
  const std::string study = (folder / "eval.h5").string(), path = study + ".answers";
  std::vector<std::string> words = {"eval",        test::sample_model().string(),
                                    "--questions", "1",
                                    "--policies",  "full",
                                    "--device",    "cpu",
                                    "--quiet",     "-o",
                                    study,         "--tasks",
                                    "needle",      "--length",
                                    "128,160"};
  REQUIRE(kvscope_run(words).exit_code == 0);
  CHECK(count_lines(read_text(path + ".128")) == 2);
  const std::string longer = read_text(path + ".160");
  std::filesystem::remove(path + ".128");
  words.back() = "128,160,192";
  const auto second = kvscope_run(words);
  INFO(second.err);
  REQUIRE(second.exit_code == 0);
  CHECK(second.out.find("accuracy 192") != std::string::npos);
  CHECK(read_text(path + ".160") == longer);
  CHECK(read_study(test::kvscope(), study).numbers("length", "") == std::vector<double>{128, 160, 192});
  const std::pair<const char*, const char*> wrong[] = {
      {"128,128", "'128'"}, {"128,x", "'x'"}, {"8,128", "'8'"}, {",", "no number"}, {"128,1000000", "model's context"}};
  for (const auto& [lengths, said] : wrong) {
    words.back() = lengths;
    const auto refused = kvscope_run(words);
    CAPTURE(lengths, refused.err);
    CHECK(refused.exit_code == 1);
    CHECK(count_lines(refused.err) == 1);
    CHECK(refused.err.find(said) != std::string::npos);
  }
}

TEST_CASE("a stopped evaluation does not go on with a text, a filler or a configuration that has changed", "[eval]") {
  if (test::real_engine().empty() || !std::filesystem::exists(test::sample_model() / "model.safetensors"))
    return test::skip("kvscope-engine or the sample model is not built");
  const TemporaryFolder folder;
  for (const char* name : {"config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"})
    std::filesystem::copy_file(test::sample_model() / name, folder / name);
  const std::string text = read_text(test::source_folder() / "samples/prompts/heldout.txt").substr(0, 20000);
  std::ofstream(folder / "book.txt") << text;
  std::ofstream(folder / "around.txt") << text;
  const std::string study = (folder / "eval.h5").string(), path = study + ".answers";
  const std::vector<std::string> words = {"eval",        folder.path().string(),
                                          "--texts",     (folder / "book.txt").string(),
                                          "--pieces",    "1",
                                          "--length",    "1024",
                                          "--tasks",     "fact_recall",
                                          "--questions", "1",
                                          "--filler",    (folder / "around.txt").string(),
                                          "--policies",  "full",
                                          "--device",    "cpu",
                                          "--quiet",     "-o",
                                          study};
  const auto first = kvscope_run(words);
  INFO(first.err);
  REQUIRE(first.exit_code == 0);
  const std::string answers = read_text(path);
  for (const char* name : {"book.txt", "around.txt", "config.json"}) {
    CAPTURE(name);
    const std::string before = read_text(folder / name);
    std::string after = before;
    after.back() = after.back() == ' ' ? '\n' : ' ';
    std::ofstream(folder / name) << after;
    const auto refused = kvscope_run(words);
    CAPTURE(refused.err);
    CHECK(refused.exit_code == 1);
    CHECK(count_lines(refused.err) == 1);
    CHECK(refused.err.find("inputs: answers from \"" + std::string(name)) != std::string::npos);
    CHECK(read_text(path) == answers);
    std::ofstream(folder / name) << before;
  }
  CHECK(kvscope_run(words).exit_code == 0);  // as they were, it goes on
}

TEST_CASE("a chat template that is not known ends an evaluation in one line that offers plain prompts", "[eval]") {
  if (test::real_engine().empty() || !std::filesystem::exists(test::sample_model() / "model.safetensors"))
    return test::skip("kvscope-engine or the sample model is not built");
  const TemporaryFolder folder;
  test::link_sample_model(folder.path(), test::kWholeModel);
  std::ofstream(folder / "chat_template.jinja") << "{{ messages.x.y }}";
  std::vector<std::string> words = {"eval",   folder.path().string(), "--tasks", "fact_recall", "--questions",
                                    "1",      "--policies",           "full",    "--device",    "cpu",
                                    "--quiet"};
  CHECK(kvscope_run(words).exit_code == 0);
  words.emplace_back("--chat");
  const auto refused = kvscope_run(words);
  CAPTURE(refused.err);
  CHECK(refused.exit_code == 2);
  CHECK(count_lines(refused.err) == 1);
  CHECK(refused.err.find("an unsupported template") != std::string::npos);
  CHECK(refused.err.find("without --chat the questions are plain prompts") != std::string::npos);
}

TEST_CASE("kvscope-reasoner solves problems of every kind densely and under its WG-KV gate, not under a short window",
          "[eval][process]") {
  const TemporaryFolder folder;
  const auto shares = [&](const std::string& policies, const char* name) {
    const auto result = kvscope_run({"eval",        "kvscope-reasoner",
                                     "--gate",      "wg-kv-0.01",
                                     "--tasks",     "reason-machine,reason-walk,reason-search,reason-sort,reason-sum",
                                     "--questions", "2",
                                     "--length",    "400",
                                     "--policies",  policies,
                                     "--device",    "cpu",
                                     "--dtype",     "bfloat16",
                                     "-o",          (folder / name).string(),
                                     "--json",      "--quiet"});
    REQUIRE(result.exit_code == 0);
    std::map<std::string, double> right;
    const nlohmann::json table = nlohmann::json::parse(result.out);
    for (const auto& row : table["rows"]) right[row["policy"]] += row["accuracy"].get<double>() / 5;
    return right;
  };
  const auto right = shares("full;streaming:sinks=4,window=32;wg-kv", "a.h5");
  CHECK(right.at("full") >= 0.8);                      // 9 of 10 when it was written
  CHECK(right.at("wg-kv") >= 0.7 * right.at("full"));  // docs/records/reasoner.md: 1.00 of dense
  CHECK(right.at("streaming:sinks=4,window=32") <= 0.2);
}
