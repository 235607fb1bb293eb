#include "tests/app/writers.h"

#include "tests/app/capture_support.h"

namespace kvscope::test {

namespace {

Words engine_words(Words words) {
  words.insert(words.end(), {"--engine", fake_engine().string(), "--max-tokens", "3", "--policy",
                             "kvpop:budget=12,sinks=2,window=4", "--quiet"});
  return words;
}

void prepare(const TemporaryFolder& folder) {
  write_prompts(folder, 3);
  const auto capture = [&](const char* to, Words more, const char* engine = "") {
    Capture c{folder, to, {"--quiet"}, engine, 3};
    c.options.insert(c.options.end(), more.begin(), more.end());
    return c.run().exit_code;
  };
  REQUIRE(capture("whole.h5", {}) == 0);
  REQUIRE(capture("s0.h5", {"--shard", "0/2"}) == 0);
  REQUIRE(capture("s1.h5", {"--shard", "1/2"}) == 0);
  const RunRecord first = load_trace(folder / "whole.h5", 0);
  const TraceInfo info = inspect_trace(folder / "whole.h5");
  TraceWriter(folder / "partial.h5", first.model, {.max_runs = 3, .max_positions = 60, .capture = info.capture})
      .add(first);
  fs::copy_file(folder / "s0.h5", folder / "old.h5");
  for (const char* name : {"old.svg", "old.figure.csv", "old.nc", "old.json", "old.tex"})
    std::ofstream(folder / name) << name;
  std::ofstream(folder / "a.txt") << "a text";
  std::ofstream(folder / "r.json") << json{
      {"model", sample_model().string()}, {"texts", {"a.txt"}}, {"pieces", 2}, {"policies", {"tova:keep=50%"}}};
  REQUIRE(
      kvscope_run({"gate", "convert", sample_model().string(), "-o", (folder / "old-gate").string(), "--sinks", "9"})
          .exit_code == 0);
}

}  // namespace

Bytes files_of(const fs::path& folder) {
  Bytes files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) files[fs::relative(entry.path(), folder).string()] = read_text(entry.path());
  return files;
}

std::vector<Writer> writers() {
  const std::string model = sample_model().string();
  return {
      {"export .csv", {"export", "whole.h5", "-o", "new.csv"}},
      {"export .html", {"export", "whole.h5", "-o", "new.html"}},
      {"export .nc", {"export", "whole.h5", "-o", "new.nc"}},
      {"export .nc --overwrite", {"export", "whole.h5", "-o", "old.nc", "--overwrite"}},
      {"figure", {"figure", "--preset", "kvpop-fig6", "whole.h5", "-o", "new.svg"}},
      {"figure --overwrite", {"figure", "--preset", "kvpop-fig6", "whole.h5", "-o", "old.svg", "--overwrite"}},
      {"heads", {"heads", "whole.h5", "--strategy", "b", "--export", "duo:heads"}},
      {"heads in two formats",
       {"heads", "whole.h5", "--strategy", "b", "--export", "duo:heads", "--export", "json:new.json"}},
      {"gate convert", {"gate", "convert", model, "-o", "gate"}},
      {"gate convert --overwrite", {"gate", "convert", model, "-o", "old-gate", "--overwrite"}},
      {"sweep", {"sweep", "r.json", "-o", "sweep.h5", "--engine", fake_engine().string(), "--quiet"}},
      {"eval",
       {"eval", model, "--tasks", "needle", "--policies", "tova:keep=50%", "--questions", "3", "-o", "eval.h5",
        "--engine", fake_engine().string(), "--quiet"}},
      {"merge", {"merge", "s0.h5", "s1.h5", "-o", "new.h5", "--quiet"}},
      {"merge --copy", {"merge", "s0.h5", "s1.h5", "-o", "old.h5", "--copy", "--overwrite", "--quiet"}},
      {"run --trace", engine_words({"run", model, "--prompt", "one two", "--trace", "new.h5"})},
      {"run --trace --overwrite", engine_words({"run", model, "--prompt", "x", "--trace", "old.h5", "--overwrite"})},
      {"capture", engine_words({"capture", model, "p.jsonl", "-o", "new.h5"}), {"--resume"}},
      {"capture --overwrite", engine_words({"capture", model, "p.jsonl", "-o", "old.h5", "--overwrite"})},
      {"capture --resume", engine_words({"capture", model, "p.jsonl", "-o", "partial.h5", "--resume"})},
  };
}

WritersFolder::WritersFolder() { prepare(good_); }

void WritersFolder::copy_to(const TemporaryFolder& folder) const {
  fs::copy(good_.path(), folder.path(), fs::copy_options::recursive);
}

Result WritersFolder::run(const Words& words, const fs::path& folder, std::map<std::string, std::string> environment) {
  Words argv = {test::kvscope().string()};
  argv.insert(argv.end(), words.begin(), words.end());
  return test::run({.argv = argv, .environment = std::move(environment), .folder = folder});
}

const Bytes& WritersFolder::result_of(const Writer& writer) {
  Bytes& files = results_[writer.name];
  if (!files.empty()) return files;
  const TemporaryFolder folder;
  copy_to(folder);
  CHECK(run(writer.words, folder.path(), {}).exit_code == 0);
  return files = files_of(folder.path());
}

void WritersFolder::check_files(const Bytes& before, const fs::path& folder, const Bytes& result, bool killed) {
  const Bytes now = files_of(folder);
  for (const auto& [name, bytes] : before) {
    CAPTURE(name);
    CHECK(now.contains(name));
  }
  for (const auto& [name, bytes] : now) {
    CAPTURE(name);
    if (killed && fs::path(name).filename().string().starts_with('.')) continue;
    CHECK(result.contains(name));  // no other name than those of a success
    const auto old = before.find(name);
    if (old != before.end() && old->second == bytes) continue;
    const bool is_trace = name.ends_with(".h5") && name != "sweep.h5" && name != "eval.h5";
    if (name.ends_with(".answers")) {
      CHECK(result.at(name).starts_with(bytes));  // as far as it came
    } else if (is_trace) {
      CHECK(inspect_trace(folder / name).n_runs >= (name == "partial.h5" ? 1 : 0));
    } else {
      CHECK(result.at(name) == bytes);
    }
  }
}

}  // namespace kvscope::test
