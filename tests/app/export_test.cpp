// kvscope export, read back by h5py and by eye.

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/core/trace/trace_file.h"
#include "tests/app/process.h"
#include "tests/support/random_run.h"
#include "tests/support/skip.h"

using namespace kvscope;
using kvscope::test::kvscope_run;
using kvscope::test::TemporaryFolder;

namespace {

void check_error_line(const test::Result& result, int exit_code, const std::string& contains) {
  INFO(result.err);
  CHECK(result.exit_code == exit_code);
  CHECK(result.err.starts_with("error: "));
  CHECK(test::count_lines(result.err) == 1);
  CHECK(result.err.find(contains) != std::string::npos);
}

RunRecord second_run() { return test::random_run(2, {.output_error = true}); }

std::string two_runs(const TemporaryFolder& folder) {
  TraceWriter writer(folder / "a.h5", test::random_run(1).model, {.max_runs = 2, .max_positions = 200});
  writer.add(test::random_run(1));
  writer.add(second_run());
  writer.finish();
  return (folder / "a.h5").string();
}

}  // namespace

TEST_CASE("export writes the run that was asked for, and says so") {
  const TemporaryFolder folder;
  const std::string trace = two_runs(folder), csv = (folder / "a.csv").string();
  const auto result = kvscope_run({"export", trace, "-o", csv, "--run", "1", "--what", "tokens", "--json"});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  const auto summary = nlohmann::json::parse(result.out);
  CHECK(summary["run"] == 1);
  CHECK(summary["bytes"] == std::filesystem::file_size(csv));
  const RunRecord run = second_run();
  CHECK(test::read_text(csv).starts_with("token,id,logprob,piece\n0," + std::to_string(run.ids[0]) + ","));
  check_error_line(kvscope_run({"export", trace, "-o", csv}), 2, "it exists");
  CHECK(kvscope_run({"export", trace, "-o", csv, "--overwrite"}).exit_code == 0);
  CHECK(
      test::read_text(csv).starts_with("layer,kv_head,token,text,evict_at,score,future_mass,eviction_verdict\n0,0,0,"));
}

TEST_CASE("a netCDF file has the arrays of its run, as h5py reads both") {
  const char* named = std::getenv("KVSCOPE_PYTHON");
  const std::string python = named && *named ? named : "/usr/bin/python3";
  if (test::run({.argv = {python, "-c", "import h5py, numpy"}}).exit_code != 0)
    return test::skip("no Python with h5py (set KVSCOPE_PYTHON)");
  const TemporaryFolder folder;
  const std::string trace = two_runs(folder), nc = (folder / "a.nc").string();
  const auto result = kvscope_run({"export", trace, "-o", nc, "--run", "1"});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(result.out.empty());
  const auto read = test::run({.argv = {python, "-c", R"(
import sys, h5py, numpy as np
z, f = h5py.File(sys.argv[1]), h5py.File(sys.argv[2])
a, b = f["runs/token_span"][1]
c, d = f["runs/contest_span"][1]
same = lambda name, want: z[name].dtype == want.dtype and np.array_equal(z[name], want, equal_nan=want.dtype.kind == "f")
for name in ("evict_at", "score", "future_mass", "future_rms", "future_max", "value_norm", "output_mean", "output_rms",
             "output_max", "group_damage", "read_mass", "best_read_mass", "eviction_verdict"):
    assert same(name, f["heads/" + name][:, :, a:b]), name
for name in ("damage", "output"):
    assert same("layer_" + name, f["layers/" + name][:, a:b]), name
assert same("token_id", f["tokens/id"][a:b]) and same("token_logprob", f["tokens/logprob"][a:b])
for name in f["contests"]:
    assert np.array_equal(z["contest_" + name], f["contests/" + name][c:d]), name
assert same("density", f["runs/density"][1])
assert z.attrs["policy"].startswith(b"kvpop:") and z.attrs["prompt_len"] == f["runs/prompt_len"][1]
pieces = [bytes(f["tokens/piece_bytes"][i:j]).decode("utf-8", "replace") for i, j in f["tokens/piece_span"][a:b]]
texts = z["token_text"].asstr()[:]
assert len(pieces) == len(texts) and all(p == q or "�" in q for p, q in zip(pieces, texts))
)",
                                        nc, trace}});
  INFO(read.err);
  CHECK(read.exit_code == 0);
}

TEST_CASE("a netCDF file leaves out what its run has not") {
  const TemporaryFolder folder;
  const std::string trace = (folder / "a.h5").string(), nc = (folder / "a.nc").string();
  const bool all = GENERATE(true, false);
  save_trace(trace, test::random_run(3, {.oracle = all, .output_error = all}), false);
  REQUIRE(kvscope_run({"export", trace, "-o", nc}).exit_code == 0);
  const std::string bytes = test::read_text(nc);
  CHECK(bytes.find("evict_at") != std::string::npos);
  for (const char* name : {"future_mass", "eviction_verdict", "group_damage", "layer_output"}) {
    CAPTURE(name);
    CHECK((bytes.find(name) != std::string::npos) == all);
  }
}

TEST_CASE("export refuses bad usage and bad traces in one line, and writes nothing then") {
  const TemporaryFolder folder;
  const std::string trace = two_runs(folder);
  check_error_line(kvscope_run({"export", trace}), 1, "-o: not given");
  for (const char* name : {"a.xlsx", "a.npz"})
    check_error_line(kvscope_run({"export", trace, "-o", name}), 1, "a name that ends in .csv, .nc or .html");
  const std::string out = (folder / "b.csv").string();
  check_error_line(kvscope_run({"export", trace, "-o", out, "--what", "tokens,metrics"}), 1, "one .csv");
  check_error_line(kvscope_run({"export", trace, "-o", out, "--what", "heads"}), 1, "lifetimes, scores, contests");
  check_error_line(kvscope_run({"export", trace, "-o", out, "--run", "2"}), 1, "there is no run 2");
  check_error_line(kvscope_run({"export", (folder / "no.h5").string(), "-o", out}), 2, "no.h5");
  check_error_line(kvscope_run({"export", trace, "-o", (folder / "no/b.csv").string()}), 2, "b.csv");
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}
