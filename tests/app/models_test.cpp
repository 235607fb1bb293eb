// Models by name, and how the first of them is fetched.

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/app/process.h"
#include "tests/support/folders.h"
#include "tests/support/skip.h"

using namespace kvscope;
using nlohmann::json;
using test::TemporaryFolder;

namespace {

namespace fs = std::filesystem;

/// kvscope on a machine whose caches are `cache`.
test::Result kvscope_with(const TemporaryFolder& cache, std::vector<std::string> words) {
  words.insert(words.begin(), test::kvscope().string());
  return test::run(
      {.argv = std::move(words),
       .environment = {
           {"XDG_CACHE_HOME", cache.path().string()}, {"HF_HOME", ""}, {"HF_HUB_CACHE", (cache / "hub").string()}}});
}

/// The sample's files under another name: what a cache would hold.
void copy_sample(const fs::path& to) { test::link_sample_model(to, test::kWholeModel); }

std::vector<json> models(const TemporaryFolder& cache) {
  const auto result = kvscope_with(cache, {"models", "--json"});
  REQUIRE(result.exit_code == 0);
  std::vector<json> found;
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) found.push_back(json::parse(line));
  return found;
}

}  // namespace

TEST_CASE("models lists what set-up fetched, the samples, and the Hugging Face cache, and says what could be fetched") {
  const TemporaryFolder cache;
  std::vector<json> found = models(cache);
  REQUIRE(found.size() == 4);
  CHECK(found[0]["name"] == "smollm2-135m");
  CHECK(found[0]["path"].is_null());
  CHECK(found[0]["how"].get<std::string>().find("./setup") != std::string::npos);
  CHECK(found[1]["name"] == "gemma3-270m");
  CHECK(found[1]["path"].is_null());
  CHECK(found[1]["how"].get<std::string>().find("./setup --model gemma3-270m") != std::string::npos);
  CHECK(found[2]["name"] == "kvscope-tiny");
  CHECK(found[2]["kv_heads"] == 4);
  CHECK(found[3]["name"] == "kvscope-reasoner");
  CHECK(found[3]["origin"] == "sample");

  for (const char* name : {"smollm2-135m", "gemma3-270m"}) copy_sample(cache / "kvscope/models" / name);
  const fs::path repository = cache / "hub/models--Some-Lab--Tiny-1B";
  copy_sample(repository / "snapshots/aaaa");
  copy_sample(repository / "snapshots/bbbb");
  fs::create_directories(repository / "refs");
  std::ofstream(repository / "refs/main") << "bbbb\n";
  fs::create_directories(cache / "hub/models--no--weights/snapshots/cccc");  // only begun
  fs::create_directories(cache / "hub/datasets--a--b/snapshots/dddd");
  found = models(cache);
  REQUIRE(found.size() == 5);
  CHECK(found[0]["path"] == (cache / "kvscope/models/smollm2-135m").string());
  CHECK(found[1]["path"] == (cache / "kvscope/models/gemma3-270m").string());
  CHECK(found[4]["name"] == "Some-Lab/Tiny-1B");
  CHECK(found[4]["path"] == (repository / "snapshots/bbbb").string());
  CHECK(found[4]["origin"] == "Hugging Face cache");
}

TEST_CASE(
    "the Hugging Face cache is where huggingface_hub looks for it: by four variables, in its order, with ~ and $NAME") {
  const TemporaryFolder cache;
  for (const char* place : {"first", "second", "third", "home/hub"})
    copy_sample(cache / (std::string(place) + "/models--a--" + std::string(place).substr(0, 4) + "/snapshots/aaaa"));
  const std::string root = cache.path().string();
  const auto names = [&](std::map<std::string, std::string> environment) {
    environment["XDG_CACHE_HOME"] = environment["HOME"] = root;
    for (const char* name : {"HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "TRANSFORMERS_CACHE"})
      environment[name];
    const auto result =
        test::run({.argv = {test::kvscope().string(), "models", "--json"}, .environment = std::move(environment)});
    REQUIRE(result.exit_code == 0);
    std::string found;
    for (const char* name : {"a/firs", "a/seco", "a/thir", "a/home"}) {
      if (result.out.find(name) != std::string::npos) found += name;
    }
    return found;
  };
  const std::string first = root + "/first", second = root + "/second", third = root + "/third";
  CHECK(names({{"HF_HUB_CACHE", first}, {"HUGGINGFACE_HUB_CACHE", second}}) == "a/firs");
  CHECK(names({{"HUGGINGFACE_HUB_CACHE", second}, {"TRANSFORMERS_CACHE", third}, {"HF_HOME", root + "/home"}}) ==
        "a/seco");
  CHECK(names({{"TRANSFORMERS_CACHE", third}, {"HF_HOME", root + "/home"}}) == "a/thir");
  CHECK(names({{"HF_HOME", root + "/home"}}) == "a/home");
  CHECK(names({{"HF_HOME", "~/home"}}) == "a/home");
  CHECK(names({{"HUGGINGFACE_HUB_CACHE", "~/second"}}) == "a/seco");
  CHECK(names({{"HF_HUB_CACHE", "$XDG_CACHE_HOME/first"}}) == "a/firs");
  CHECK(names({{"HF_HUB_CACHE", "${HOME}/first"}}) == "a/firs");
}

TEST_CASE("a snapshot with weights goes before the one of refs/main with config.json alone") {
  const TemporaryFolder cache;
  const fs::path repository = cache / "hub/models--a--b";
  copy_sample(repository / "snapshots/whole");
  fs::create_directories(repository / "snapshots/begun");
  fs::copy(test::sample_model() / "config.json", repository / "snapshots/begun/config.json");
  fs::create_directories(repository / "refs");
  std::ofstream(repository / "refs/main") << "begun";
  for (const json& model : models(cache)) {
    if (model["name"] == "a/b") CHECK(model["path"] == (repository / "snapshots/whole").string());
  }
  CHECK(kvscope_with(cache, {"inspect", "a/b"}).exit_code == 0);
}

TEST_CASE("a name stands wherever a model is asked for, in any case, and a wrong one is answered with those that are") {
  const TemporaryFolder cache;
  copy_sample(cache / "hub/models--Some-Lab--Tiny-1B/snapshots/aaaa");
  const std::string by_path = kvscope_with(cache, {"tokenize", test::sample_model().string(), "--text", "a cache"}).out;
  for (const char* name : {"kvscope-tiny", "KVscope-Tiny", "Some-Lab/Tiny-1B", "tiny-1b"}) {
    CAPTURE(name);
    CHECK(kvscope_with(cache, {"tokenize", name, "--text", "a cache"}).out == by_path);
    const auto run = kvscope_with(cache, {"run", name, "--prompt", "x", "--max-tokens", "2", "--quiet", "--engine",
                                          test::fake_engine().string()});
    INFO(run.err);
    CHECK(run.exit_code == 0);
    CHECK(kvscope_with(cache, {"inspect", name}).exit_code == 0);
  }
  const auto wrong = kvscope_with(cache, {"run", "tiny-2b", "--prompt", "x"});
  CHECK(wrong.exit_code == 2);
  CHECK(test::count_lines(wrong.err) == 1);
  CHECK(wrong.err.find("kvscope-tiny, kvscope-reasoner, Some-Lab/Tiny-1B") != std::string::npos);
  CHECK(kvscope_with(cache, {"run", "smollm2-135m", "--prompt", "x"}).err.find("./setup") != std::string::npos);
  const std::string gemma = kvscope_with(cache, {"run", "gemma3-270m", "--prompt", "x"}).err;
  CHECK(gemma.find("not fetched") != std::string::npos);
  CHECK(gemma.find("hint: ./setup --model gemma3-270m (238 MB)") != std::string::npos);
}

TEST_CASE("A model is fetched whole or not at all, and goes on where it stopped") {
  const char* python = std::getenv("KVSCOPE_PYTHON");
  if (!python) return test::skip("KVSCOPE_PYTHON is not set");
  const std::string script = GENERATE("smollm2_135m", "gemma3_270m");
  const std::string name =
      GENERATE("fetches once", "goes on after a broken connection", "goes on after kill -9", "refuses a wrong hash",
               "no network", "no room", "refuses parts that do not make the GGUF");
  const auto result = test::run({.argv = {python, test::in_source("tests/app/check_fetch_model.py"), script, name}});
  INFO(script << ": " << name << "\n" << result.err);
  CHECK(result.out == "good\n");
}
