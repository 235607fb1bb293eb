// kvscope heads with head files, in and out.

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/core/trace/trace_file.h"
#include "tests/app/process.h"
#include "tests/support/random_run.h"

using namespace kvscope;
using kvscope::test::kvscope_run;
using kvscope::test::TemporaryFolder;
using nlohmann::json;

namespace {

constexpr char kThreshold[] = "threshold:threshold=0,sinks=4,window=16";

void check_error_line(const test::Result& result, int exit_code, const std::string& contains) {
  INFO(result.err);
  CHECK(result.exit_code == exit_code);
  CHECK(result.err.starts_with("error: "));
  CHECK(test::count_lines(result.err) == 1);
  CHECK(result.err.find(contains) != std::string::npos);
}

/// Two runs of the shape of the sample model, whose heads differ.
std::string trace_in(const TemporaryFolder& folder) {
  const auto run = [](int seed) {
    RunRecord record = test::random_run(static_cast<std::uint64_t>(seed),
                                        {.policy = kThreshold, .n_layers = 6, .n_kv_heads = 4, .group_size = 2});
    record.scorer.kind = "sp_kv";
    return record;
  };
  TraceWriter writer(folder / "a.h5", run(1).model, {.max_runs = 2, .max_positions = 200});
  writer.add(run(1));
  writer.add(run(2));
  writer.finish();
  return (folder / "a.h5").string();
}

json heads_of(std::vector<std::string> words) {
  words.insert(words.begin(), "heads");
  words.push_back("--json");
  const auto result = kvscope_run(words);
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  return json::parse(result.out);
}

int files_in(const std::filesystem::path& folder) {
  return static_cast<int>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

}  // namespace

TEST_CASE("heads writes several formats at once, and each comes back as the heads that were chosen") {
  const TemporaryFolder folder;
  const std::string model = test::sample_model().string();
  const auto at = [&](const std::string& name) { return (folder / name).string(); };
  const json chosen = heads_of({trace_in(folder), "--count", "7", "--export", "duo:" + at("duo"), "--export",
                                "json:" + at("heads.json"), "--export", "headkv:" + at("scores.json")});
  CHECK(chosen["selected"] == 7);
  CHECK(chosen["warnings"].size() == 2);  // HeadKV-SGLang's ratio, HeadKV's sizes
  for (const char* source : {"duo:duo", "json:heads.json", "headkv:scores.json"}) {
    const std::string text = source, format = text.substr(0, text.find(':') + 1);
    const json back = heads_of({"--import", format + at(text.substr(format.size())), model});
    CHECK(back["full"] == chosen["full"]);
    CHECK(back["coverage"].is_null() == (format != "json:"));
  }
  const json file = json::parse(test::read_text(folder / "heads.json"));
  CHECK(file["runs"] == 2);
  CHECK(file["policies"] == json{PolicySpec::parse(kThreshold).to_string()});
  CHECK(file["sinks"] == 4);
  CHECK(file["window"] == 16);
  // The densest are those of greatest density in the file, which others can be chosen by.
  const json three = heads_of({"--import", "json:" + at("heads.json"), model, "--count", "3"});
  double least = 1, most = 0;
  for (int i = 0; i < 24; ++i) {
    const double value = file["value"][i / 4][i % 4];
    (three["full"][i / 4][i % 4] == 1.0 ? least : most) =
        three["full"][i / 4][i % 4] == 1.0 ? std::min(least, value) : std::max(most, value);
  }
  CHECK(least >= most);
  CHECK(three["selected"] == 3);
}

TEST_CASE("heads refuses what cannot be said, read or written in one line, and writes nothing then") {
  const TemporaryFolder folder;
  const std::string trace = trace_in(folder), model = test::sample_model().string();
  const auto at = [&](const std::string& name) { return (folder / name).string(); };
  std::filesystem::create_directory(folder / "w");
  std::ofstream(folder / "w/adapter_weights.tsv") << "0.1\t0.2\n0.3\t0.4\n";
  std::filesystem::create_directory(folder / "lone");
  std::ofstream(folder / "lone/full_attention_heads.tsv") << "0.1\t0.2\n0.3\t0.4\n";
  const int n = files_in(folder.path());
  check_error_line(
      kvscope_run({"heads", trace, "--count", "7", "--export", "duo:" + at("duo"), "--export", "hf:" + at("hf.json")}),
      1, "heads are global; expected all or none");
  check_error_line(kvscope_run({"heads", trace, "--export", "tsv:x"}), 1,
                   "--export: 'tsv:x'; expected one of duo:FOLDER");
  check_error_line(kvscope_run({"heads", trace, "--export", "kvzip:x"}), 1, "--export: 'kvzip:x'");
  check_error_line(kvscope_run({"heads", trace, "--window", "4"}), 1, "--window: no --export");
  check_error_line(kvscope_run({"heads", "--import", "rlkv:" + at("w"), model}), 2, "2 x 2 heads; expected 6 x 4");
  check_error_line(kvscope_run({"heads", "--import", "json:" + trace, model}), 2, "a.h5");
  check_error_line(kvscope_run({"heads", "--import", "duo:" + at("none"), model}), 2, "config.json");
  check_error_line(kvscope_run({"heads", "--import", "duo:" + at("lone"), model}), 2,
                   "full_attention_heads.tsv: no config.json next to it; expected one that gives the tokens its local");
  check_error_line(kvscope_run({"heads", "--import", "duo:" + at("none"), model, trace}), 1, "only MODEL");
  check_error_line(kvscope_run({"heads", "--import", "duo:" + at("none"), at("no-model")}), 2, "no-model");
  check_error_line(kvscope_run({"heads", trace, "--strategy", "b", "--export", "json:" + trace, "--overwrite"}), 2,
                   "a.h5");
  CHECK(files_in(folder.path()) == n);
  std::ofstream(folder / "w/adapter_weights.tsv") << "0.1\t0.2\t0\t0\n0.3\t0.4\t0\t0\n0\t0\t0\t0\n"
                                                     "0\t0\t0\t0\n0\t0\t0\t0\n0\t0\t0\t0.5\n";
  const std::vector<std::string> words = {"heads",   "--import", "rlkv:" + at("w"), model,
                                          "--count", "3",        "--export",        "duo:" + at("duo")};
  check_error_line(kvscope_run(words), 1, "--sinks: not given; expected a number of tokens");
  CHECK(files_in(folder.path()) == n);
  auto sized = words;
  sized.insert(sized.end(), {"--sinks", "2", "--window", "8"});
  CHECK(kvscope_run(sized).exit_code == 0);
  CHECK(heads_of({"--import", "duo:" + at("duo"), model})["full"][5] == json{0, 0, 0, 1});
}

TEST_CASE("heads: a head file of our own is a gate, which inspect reads as the folder of DuoAttention") {
  const TemporaryFolder folder;
  const auto at = [&](const std::string& name) { return (folder / name).string(); };
  heads_of({trace_in(folder), "--count", "7", "--export", "duo:" + at("duo"), "--export", "json:" + at("h.json")});
  const json duo = json::parse(kvscope_run({"inspect", at("duo"), "--json"}).out);
  const json own = json::parse(kvscope_run({"inspect", at("h.json"), "--json"}).out);
  CHECK(own["format"] == "kvscope-heads");
  for (const char* key : {"hash", "policy_defaults", "sinks", "window", "threshold"}) CHECK(own[key] == duo[key]);
  CHECK(own["policy_defaults"]["duo"].get<std::string>().ends_with("sinks=4,window=16"));
}
