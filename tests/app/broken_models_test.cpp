// Broken model folders against the real programs: one line that names the file, exit code 2, within seconds and a
// gigabyte, nothing written, nothing outside the folder opened. And odd folders that must load.

#include "tests/app/broken_models.h"

#include <sys/inotify.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <set>

#include "tests/app/model_damage.h"
#include "tests/app/process.h"
#include "tests/support/model_folder.h"
#include "tests/support/skip.h"

namespace kvscope {
namespace {

namespace fs = std::filesystem;

// Of the processor, not of the clock: beside 27 others that read LibTorch's gigabyte from disk a good model took 5 s too.
constexpr double kSeconds = 5 * test::kSlowdown, kKilledAfter = 4 * kSeconds;
constexpr std::int64_t kMaxBytes = (test::kShadow > 1 ? 8ll : 1ll) << 30;

/// Hears whether anybody opens one file.
class OpenWatch {
 public:
  explicit OpenWatch(const fs::path& path) : fd_(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
    REQUIRE(::inotify_add_watch(fd_, path.c_str(), IN_OPEN | IN_ACCESS) >= 0);
  }
  ~OpenWatch() { ::close(fd_); }
  OpenWatch(const OpenWatch&) = delete;
  OpenWatch& operator=(const OpenWatch&) = delete;
  bool heard() const {
    char events[4096];
    return ::read(fd_, events, sizeof events) > 0;
  }

 private:
  int fd_;
};

/// Names, kinds, sizes and times of everything below a folder.
std::set<std::string> listing(const fs::path& folder) {
  std::set<std::string> out;
  for (const auto& item : fs::recursive_directory_iterator(folder)) {
    std::string line = item.path().string() + " " + std::to_string(static_cast<int>(item.symlink_status().type()));
    if (item.symlink_status().type() == fs::file_type::regular) {
      line += " " + std::to_string(item.file_size()) + " " +
              std::to_string(item.last_write_time().time_since_epoch().count());
    }
    out.insert(line);
  }
  return out;
}

nlohmann::json tiny_config() {
  nlohmann::json config = test::small_model_config();
  config["hidden_size"] = 32;
  return config;
}

/// A good model folder to be damaged, a stranger's weights beside it, and an empty home for what must not be written.
class Scene {
 public:
  explicit Scene(bool sharded) {
    fs::create_directory(home_);
    test::write_model_folder(model_, tiny_config(), 3, {TensorType::f32, sharded ? 2 : 1});
    test::write_model_folder(folder_ / "other", tiny_config(), 4);
    fs::rename(folder_ / "other/model.safetensors", outside_);
    fs::remove_all(folder_ / "other");
  }
  const fs::path& model() const { return model_; }
  const fs::path& outside() const { return outside_; }

  test::Result run(std::vector<std::string> words) const {
    words.insert(words.begin(), test::kvscope().string());
    return test::run({.argv = words,
                      .environment = {{"HOME", home_},
                                      {"XDG_STATE_HOME", ""},
                                      {"XDG_CONFIG_HOME", ""},
                                      {"XDG_CACHE_HOME", ""},
                                      {"CUDA_CACHE_DISABLE", "1"},  // the driver would make ~/.nv
                                      {"TMPDIR", home_}},
                      .folder = home_,
                      .timeout = kKilledAfter});
  }
  std::set<std::string> everything() const { return listing(folder_.path()); }

 private:
  test::TemporaryFolder folder_;
  fs::path home_ = folder_ / "home", model_ = folder_ / "models/m", outside_ = folder_ / "models/outside.safetensors";
};

std::vector<std::string> score_words(const fs::path& model) {
  return {"score", model.string(), "--text", "the code of the falcon", "--json", "--device", "cpu", "--quiet"};
}

void check_refused(const test::BrokenModel& c, const test::Result& result, const fs::path& model) {
  CAPTURE(c.name, result.err, result.out, result.cpu_seconds);
  CHECK(result.exit_code == 2);
  CHECK(result.out.empty());
  CHECK(test::count_lines(result.err) == 1);
  CHECK(result.err.starts_with("error: " + (*c.file ? model / c.file : model).string() + ": "));
  CHECK(result.err.find(c.reason) != std::string::npos);
  CHECK(result.cpu_seconds < kSeconds);
  CHECK(result.max_rss_bytes < kMaxBytes);  // resident, the greatest of the program and its engine
}

void check_broken(const std::vector<test::BrokenModel>& cases) {
  if (test::real_engine().empty()) return test::skip("kvscope-engine is not built");
  int n = 0;
  for (const test::BrokenModel& c : cases) {
    const Scene scene(c.sharded);
    c.damage(scene.model());
    const std::set<std::string> before = scene.everything();
    const OpenWatch outside(scene.outside());
    // inspect and score read with the same code, and score starts LibTorch, which costs 0.5 s: it takes every fourth.
    if (!c.found_by_inspect || n++ % 4 == 0) check_refused(c, scene.run(score_words(scene.model())), scene.model());
    if (c.found_by_inspect) check_refused(c, scene.run({"inspect", scene.model().string()}), scene.model());
    CAPTURE(c.name);
    CHECK_FALSE(outside.heard());
    CHECK(scene.everything() == before);
  }
}

}  // namespace

TEST_CASE("Broken weights end inspect and score in one line, exit code 2, in seconds and a gigabyte", "[broken]") {
  check_broken(test::broken_weights());
}

TEST_CASE("A broken index ends in one line, and leads nobody out of the model's folder", "[broken]") {
  check_broken(test::broken_indexes());
}

TEST_CASE("A broken configuration ends in one line before memory is taken for what it claims", "[broken]") {
  check_broken(test::broken_configurations());
}

TEST_CASE("A broken tokenizer ends in one line", "[broken]") { check_broken(test::broken_tokenizers()); }

TEST_CASE("A weight that is no number is bad input, found when the model first says a number", "[broken]") {
  if (test::real_engine().empty()) return test::skip("kvscope-engine is not built");
  const Scene scene(false);
  test::edit_bytes("model.safetensors",
                   [](std::string b) { return b.replace(b.size() - 4, 4, "\0\0\xC0\x7F", 4); })(scene.model());
  check_refused({"a weight that is no number", {}, "", "weights that are not finite numbers"},
                scene.run(score_words(scene.model())), scene.model());
}

TEST_CASE("Weights that are numbers, and too large to compute with, are bad input that names what is not finite",
          "[broken]") {
  if (test::real_engine().empty()) return test::skip("kvscope-engine is not built");
  const Scene scene(false);
  test::edit_bytes("model.safetensors", [](std::string b) {
    std::uint64_t header = 0;
    std::memcpy(&header, b.data(), sizeof header);
    // 1e18, in either half too: squares and products are finite, their products are not. Greater weights overflow in
    // the norms, whose reciprocal is 0, and every logit is 0.
    constexpr std::uint32_t kHuge = 0x5D5E5D5E;
    for (std::size_t at = 8 + header; at + 4 <= b.size(); at += 4) std::memcpy(b.data() + at, &kHuge, 4);
    return b;
  })(scene.model());
  check_refused({"weights of 1e18", {}, "", "logits after position"}, scene.run(score_words(scene.model())),
                scene.model());
  const test::Result run = scene.run(
      {"run", scene.model().string(), "--prompt", "the code", "--temperature", "1e-308", "--device", "cpu", "--quiet"});
  INFO(run.err);
  CHECK(run.exit_code == 2);
  CHECK(run.err.find("values that are not finite numbers; expected weights small enough for float32") !=
        std::string::npos);
}

TEST_CASE("The broken model folders are more than eighty", "[broken]") {
  CHECK(test::broken_weights().size() + test::broken_indexes().size() + test::broken_configurations().size() +
            test::broken_tokenizers().size() >
        80);
}

TEST_CASE("Odd but valid model folders load, and all score alike", "[broken]") {
  if (test::real_engine().empty()) return test::skip("kvscope-engine is not built");
  std::string scored;
  for (const test::OddModel& c : test::odd_models()) {
    const Scene scene(c.sharded);
    c.change(scene.model());
    const test::Result result = scene.run(score_words(scene.model())),
                       inspected = scene.run({"inspect", scene.model().string()});
    CAPTURE(c.name, result.err, inspected.err);
    CHECK(result.exit_code == 0);
    CHECK(inspected.exit_code == 0);
    if (scored.empty()) scored = result.out;
    CHECK(result.out == scored);
  }
}

TEST_CASE("The watch that hears nothing in broken folders hears a model whose link leads outside", "[broken]") {
  if (test::real_engine().empty()) return test::skip("kvscope-engine is not built");
  const Scene scene(false);
  fs::remove(scene.model() / "model.safetensors");
  fs::create_symlink(scene.outside(), scene.model() / "model.safetensors");
  const OpenWatch outside(scene.outside());
  CHECK(scene.run(score_words(scene.model())).exit_code == 0);
  CHECK(outside.heard());
}

}  // namespace kvscope
