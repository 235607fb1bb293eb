// What other programs make of our files: recipes and classes of the documentation, run as they stand there.

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/core/study/table/export_run.h"
#include "engine/core/trace/study_file.h"
#include "engine/core/trace/trace_file.h"
#include "tests/app/process.h"
#include "tests/support/random_run.h"
#include "tests/support/skip.h"

using namespace kvscope;
using kvscope::test::kvscope_run;
using kvscope::test::TemporaryFolder;

namespace {

std::string python() {
  const char* named = std::getenv("KVSCOPE_PYTHON");
  return named && *named ? named : "/usr/bin/python3";
}

bool imports(const std::string& modules) {
  return test::run({.argv = {python(), "-c", "import " + modules}}).exit_code == 0;
}

/// The block of Python of a page that has `mark` in it.
std::string recipe(const std::string& page, const std::string& mark) {
  const std::string text = test::read_text(test::source_folder() / "docs" / page), fence = "```python\n";
  for (std::size_t at = 0; (at = text.find(fence, at)) != std::string::npos;) {
    at += fence.size();
    const std::string block = text.substr(at, text.find("```", at) - at);
    if (block.find(mark) != std::string::npos) return block;
  }
  FAIL("no recipe with " << mark << " in " << page);
  return "";
}

/// Its last line is a JSON of what `result` is.
nlohmann::json run_recipe(const TemporaryFolder& folder, const std::string& code, const std::string& result) {
  const auto ran = test::run(
      {.argv = {python(), "-c", code + "\nimport json\nprint(json.dumps(" + result + "))"}, .folder = folder.path()});
  INFO(ran.err);
  REQUIRE(ran.exit_code == 0);
  const std::string out = ran.out.substr(0, ran.out.size() - 1);
  return nlohmann::json::parse(out.substr(out.rfind('\n') + 1));
}

RunRecord some_run() { return test::random_run(6, {.n_layers = 3, .output_error = true}); }

void write_exports(const TemporaryFolder& folder) {
  save_trace(folder / "a.h5", some_run(), false);
  for (const char* name : {"a.nc", "a.csv"}) {
    const auto result = kvscope_run({"export", (folder / "a.h5").string(), "-o", (folder / name).string()});
    INFO(result.err);
    REQUIRE(result.exit_code == 0);
  }
}

void check_densities(const nlohmann::json& found) {
  const RunRecord run = some_run();
  const HeadMap map = head_metric(run, Metric::density, run.queries() - 1);
  for (int layer = 0; layer < 3; ++layer) {
    for (int head = 0; head < 3; ++head) CHECK(found[layer][head].get<double>() == Approx(map.at(layer, head)));
  }
}

}  // namespace

TEST_CASE("recipes: h5py gives every head's density from a trace") {
  if (!imports("h5py, numpy")) return test::skip("no Python with h5py (set KVSCOPE_PYTHON)");
  const TemporaryFolder folder;
  write_exports(folder);
  check_densities(run_recipe(folder, recipe("how-to/export-data.md", "import h5py"), "density.tolist()"));
}

TEST_CASE("recipes: xarray opens an export, counts heads and has the run's facts") {
  if (!imports("xarray, h5netcdf, pandas"))
    return test::skip("no Python with xarray and h5netcdf (set KVSCOPE_PYTHON)");
  const TemporaryFolder folder;
  write_exports(folder);
  const auto found = run_recipe(folder, recipe("how-to/export-data.md", "import xarray"),
                                "[density.values.tolist(), kept.values.tolist(), run.attrs['policy'], "
                                "int(run.attrs['prompt_len']), str(run.evict_at.dtype), list(run.evict_at.dims), "
                                "sorted(run.score.coords), str(run.score.encoding['_FillValue'])]");
  const RunRecord run = some_run();
  check_densities(found[0]);
  for (int token = 0; token < run.n_tokens(); ++token) {
    int kept = 0;
    for (int head = 0; head < 9; ++head) kept += run.evict_at.row(head / 3, head % 3)[token] == kNever;
    REQUIRE(found[1][token] == kept);
  }
  CHECK(found[2].get<std::string>() == run.policy.to_string());
  CHECK(found[3] == run.prompt_len);
  CHECK(found[4] == "int32");
  CHECK(found[5] == nlohmann::json{"layer", "kv_head", "token"});
  CHECK(found[6] == nlohmann::json{"kv_head", "layer", "token", "token_text"});
  CHECK(found[7] == "nan");
}

TEST_CASE("recipes: pandas reads the flat table, whatever words the tokens are") {
  if (!imports("pandas")) return test::skip("no Python with pandas (set KVSCOPE_PYTHON)");
  const TemporaryFolder folder;
  RunRecord run = some_run();
  BytePool pieces;
  const std::string words[] = {"null", "NA", "a,\"b\"\n", "\xe4\xbd", "", "nan", std::string("x\0y", 3), "\r"};
  for (int i = 0; i < run.n_tokens(); ++i) pieces.push_back(words[i % 8]);
  run.pieces = pieces;
  save_trace(folder / "a.h5", run, false);
  REQUIRE(kvscope_run({"export", (folder / "a.h5").string(), "-o", (folder / "a.csv").string()}).exit_code == 0);
  const auto found = run_recipe(folder, recipe("how-to/export-data.md", "import pandas"),
                                "[len(table), table.text[:8].tolist(), means[True].tolist(), list(table.columns)[:8]]");
  CHECK(found[0] == 9 * run.n_tokens());
  CHECK(found[1] == nlohmann::json{"null", "NA", "a,\"b\"\n", "\uFFFD\uFFFD", "", "nan", "x\uFFFDy", "\r"});
  for (int layer = 0; layer < 3; ++layer) {
    double sum = 0;
    int n = 0;
    for (int head = 0; head < 3; ++head) {
      for (int token = 0; token < run.n_tokens(); ++token) {
        const float score = run.scores.row(layer, head)[token];
        const bool kept = run.evict_at.row(layer, head)[token] >= kUndecided && !std::isnan(score);
        if (kept) sum += score, ++n;
      }
    }
    CHECK(found[2][layer].get<double>() == Approx(sum / n));
  }
  CHECK(found[3] ==
        nlohmann::json{"layer", "kv_head", "token", "text", "evict_at", "score", "future_mass", "eviction_verdict"});
}

TEST_CASE("export: a netCDF file keeps its rules, and is the same twice") {
  if (!imports("h5py, numpy")) return test::skip("no Python with h5py (set KVSCOPE_PYTHON)");
  const TemporaryFolder folder;
  write_exports(folder);
  const auto again = kvscope_run({"export", (folder / "a.h5").string(), "-o", (folder / "b.nc").string()});
  REQUIRE(again.exit_code == 0);
  CHECK(test::read_text(folder / "a.nc") == test::read_text(folder / "b.nc"));
  const auto ran = test::run({.argv = {python(), "-c", R"(
import h5py, numpy as np
f = h5py.File("a.nc")
scales = [name for name in f if h5py.h5ds.is_scale(f[name].id)]
assert sorted(scales) == ["contest", "kv_head", "layer", "query", "token"], scales
for name, d in f.items():
    assert d.maxshape == d.shape, name            # nothing unlimited
    if name in scales:
        assert (d[:] == np.arange(len(d))).all() and d.attrs["NAME"] == name.encode()
        uses = {(f[ref].name, int(i)) for ref, i in d.attrs["REFERENCE_LIST"]}
        assert uses == {(v.name, i) for v in f.values() if "DIMENSION_LIST" in v.attrs
                        for i, (ref,) in enumerate(v.attrs["DIMENSION_LIST"]) if f[ref] == d}, name
        continue
    assert [len(dim) for dim in d.dims] == [1] * d.ndim, name
    assert all(dim[0].shape == (n,) for dim, n in zip(d.dims, d.shape)), name
    assert d.attrs["long_name"], name
    if d.dtype.kind == "f": assert np.isnan(d.attrs["_FillValue"]).all() and d.attrs["_FillValue"].dtype == d.dtype
)"},
                              .folder = folder.path()});
  INFO(ran.err);
  CHECK(ran.exit_code == 0);
}

namespace {

std::string write_some_study(const TemporaryFolder& folder) {
  StudyTable study{.kind = "sweep", .request = R"({"a": 1})", .facts = "{}"};
  study.columns.push_back(
      {.name = "policy", .meaning = "policy", .is_text = true, .texts = {"full", "kvpop:keep=1%,x"}});
  study.columns.push_back({.name = "nll", .units = "nats/token", .meaning = "mean", .numbers = {2.5, std::nan("")}});
  study.arrays.push_back({.name = "density",
                          .units = "1",
                          .meaning = "d",
                          .axes = {"point", "layer"},
                          .shape = {2, 3},
                          .values = {1, 2, 3, 4, 5, 6}});
  write_study(folder / "s.h5", study, false);
  return (folder / "s.h5").string();
}

}  // namespace

TEST_CASE("export: a study is a table, and what a study has not is refused") {
  const TemporaryFolder folder;
  const std::string source = write_some_study(folder), csv = (folder / "s.csv").string();
  const auto result = kvscope_run({"export", source, "-o", csv, "--json"});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(nlohmann::json::parse(result.out)["points"] == 2);
  CHECK(test::read_text(csv) == "policy,nll\nfull,2.5\n\"kvpop:keep=1%,x\",\n");
  CHECK(kvscope_run({"export", source, "-o", csv}).exit_code == 2);
  const auto refused = kvscope_run({"export", source, "-o", (folder / "s.npz").string()});
  CHECK(refused.exit_code == 1);
  CHECK(test::count_lines(refused.err) == 1);
  CHECK(kvscope_run({"export", source, "-o", (folder / "t.csv").string(), "--what", "tokens"}).exit_code == 1);
  CHECK(kvscope_run({"export", source, "-o", (folder / "t.csv").string(), "--run", "0"}).exit_code == 1);
  CHECK_FALSE(std::filesystem::exists(folder / "s.npz"));
  CHECK_FALSE(std::filesystem::exists(folder / "t.csv"));
}

TEST_CASE("export: xarray opens a study by points and axes") {
  if (!imports("xarray, h5netcdf")) return test::skip("no Python with xarray and h5netcdf (set KVSCOPE_PYTHON)");
  const TemporaryFolder folder;
  const std::string source = write_some_study(folder);
  REQUIRE(kvscope_run({"export", source, "-o", (folder / "s.nc").string()}).exit_code == 0);
  const auto found = run_recipe(folder, "import xarray\ns = xarray.open_dataset('s.nc')",
                                "[s.policy.values.tolist(), s.density.values.tolist(), list(s.density.dims), "
                                "s.nll.attrs['units'], s.attrs['request'], float(s.nll[0]), bool(s.nll.isnull()[1])]");
  CHECK(
      found ==
      nlohmann::json::parse(
          R"([["full", "kvpop:keep=1%,x"], [[1, 2, 3], [4, 5, 6]], ["point", "layer"], "nats/token", "{\"a\": 1}", 2.5, true])"));
}

TEST_CASE("recipes: the press of docs/how-to/export-heads.md has exactly the chosen heads global") {
  if (!imports("numpy")) return test::skip("no Python with NumPy (set KVSCOPE_PYTHON)");
  const TemporaryFolder folder;
  RunRecord run =
      test::random_run(4, {.policy = "threshold:threshold=0,sinks=4,window=16", .n_layers = 4, .n_kv_heads = 3});
  run.scorer.kind = "sp_kv";
  save_trace(folder / "a.h5", run, false);
  const auto chosen = kvscope_run({"heads", (folder / "a.h5").string(), "--count", "5", "--json", "--export",
                                   "duo:" + (folder / "heads").string()});
  REQUIRE(chosen.exit_code == 0);
  const bool real = imports("kvpress");
  // The press's own rule, where kvpress is not here: the lowest values are streaming heads.
  if (!real) {
    std::filesystem::create_directory(folder / "kvpress");
    std::ofstream(folder / "kvpress/__init__.py") << R"(
from dataclasses import dataclass, field
import numpy as np

@dataclass
class DuoAttentionPress:
    head_compression_ratio: float = 0.0
    streaming_mask: np.ndarray = field(init=False, default=None)

    def __post_init_from_model__(self, model):
        self.sink_size, self.recent_size, scores = self.load_attention_pattern(model)
        lowest = np.argsort(scores, axis=None)[: round(scores.size * self.head_compression_ratio)]
        self.streaming_mask = np.zeros(scores.shape, dtype=bool)
        self.streaming_mask.reshape(-1)[lowest] = True
)";
  }
  const auto found =
      run_recipe(folder, recipe("how-to/export-heads.md", "DuoAttentionPress") + R"(
from types import SimpleNamespace as Some
model = Some(config=Some(num_hidden_layers=4, num_key_value_heads=3), device="cpu")
press = DirectoryDuoPress(directory="heads")
press.__post_init_from_model__(model)
model.config.num_hidden_layers = 5
try:
    press.__post_init_from_model__(model)
    refused = False
except ValueError:
    refused = True
)",
                 "[(1 - press.streaming_mask * 1).tolist(), press.sink_size, press.recent_size, refused]");
  CHECK(found[0] == nlohmann::json::parse(chosen.out)["full"]);
  CHECK(found[1] == 4);
  CHECK(found[2] == 16);
  CHECK(found[3] == true);
}
