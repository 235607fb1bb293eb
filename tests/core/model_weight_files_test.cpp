// A model's weights over one file or many.
#include <catch2/catch.hpp>

#include "engine/core/files/weights/safetensors.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace fs = std::filesystem;
using kvscope::WeightFiles;
using kvscope::test::error_of;
using kvscope::test::TempFolder;

namespace {

const float kOne[4] = {1, 2, 3, 4};

void write(const fs::path& path, const std::vector<std::string>& names, std::span<const float> values = kOne) {
  std::vector<kvscope::TensorToWrite> tensors;
  for (const auto& name : names) tensors.push_back({name, kvscope::TensorType::f32, {2, 2}, std::as_bytes(values)});
  kvscope::write_safetensors(path, tensors);
}

void write_index(const TempFolder& folder, const std::string& map) {
  folder.write("model.safetensors.index.json", R"({"metadata":{"total_size":32},"weight_map":)" + map + "}");
}

std::string open_error(const TempFolder& folder) {
  return error_of([&] { WeightFiles::open(folder.path()); });
}

}  // namespace

TEST_CASE("Shards named by an index are found, links out of a cache included") {
  const TempFolder folder, cache;
  write(cache / "blob", {"a", "extra"});
  fs::create_symlink(cache / "blob", folder / "m-1.safetensors");
  fs::create_directory(folder / "sub");
  write(folder / "sub/m-2.safetensors", {"b"});
  write_index(folder, R"({"a":"m-1.safetensors","b":"sub/m-2.safetensors"})");
  const WeightFiles weights = WeightFiles::open(folder.path());
  CHECK(weights.find("a", {2, 2}).first->path() == folder / "m-1.safetensors");
  CHECK(weights.find("b", {2, 2}).first->path() == folder / "sub/m-2.safetensors");
  CHECK(weights.has("a"));
  CHECK(weights.has("extra"));  // not in the index; transformers finds it too
}

TEST_CASE("A single file goes before an index") {
  const TempFolder folder;
  write(folder / "model.safetensors", {"a"});
  write_index(folder, R"({"a":"none.safetensors"})");
  CHECK(WeightFiles::open(folder.path()).has("a"));
}

TEST_CASE("A tensor that is absent or of another shape is refused by name") {
  const TempFolder folder;
  write(folder / "model.safetensors", {"a"});
  const WeightFiles weights = WeightFiles::open(folder.path());
  const std::string file = (folder / "model.safetensors").string();
  CHECK(error_of([&] { weights.find("b", {2, 2}); }) == file + ": b: tensor missing; expected shape [2, 2]");
  CHECK_THAT(error_of([&] { weights.find("a", {4}); }), Catch::Contains(file + ": a: shape [2, 2]; expected [4]"));
  CHECK_THAT(error_of([&] { weights.find("a", {2, 3}); }), Catch::Contains("shape [2, 2]; expected [2, 3]"));
}

TEST_CASE("An index that names a file out of the folder is refused before that file is touched") {
  const std::string shard = GENERATE(as<std::string>{}, "../secret", "/etc/passwd", "sub/../../secret", "..", "");
  const TempFolder folder;
  write_index(folder, R"({"a":")" + shard + "\"}");
  CHECK_THAT(open_error(folder), Catch::Contains("weight_map.a: \"" + shard + "\" points outside the model's folder"));
}

TEST_CASE("An index that names a file of more bytes than any has is refused with its beginning") {
  const TempFolder folder;
  write_index(folder, R"({"a":")" + std::string(1200, 'x') + "\"}");
  const std::string line = open_error(folder);
  CHECK_THAT(line, Catch::Contains("a name of 1200 bytes; expected at most 255"));
  CHECK(line.size() < folder.path().string().size() + 250);
}

TEST_CASE("A malformed index is refused with its reason") {
  struct Case {
    std::string text, reason;
  };
  const auto c = GENERATE(values<Case>({
      {"{}", "weight_map: missing"},
      {R"({"weight_map":null})", "weight_map: missing"},
      {R"({"weight_map":[]})", "weight_map: an array; expected an object"},
      {R"({"weight_map":{}})", "weight_map: empty"},
      {R"({"weight_map":{"a":1}})", "weight_map.a: 1; expected text"},
      {R"({"weight_map":{"a":"x","a":"y"}})", "key \"a\" twice"},
      {R"({"weight_map":{"a":"absent.safetensors"}})", "absent.safetensors: cannot be read: No such file"},
      {"<html>", "HTML page"},
      {"[]", "an array; expected an object"},
  }));
  const TempFolder folder;
  folder.write("model.safetensors.index.json", c.text);
  CHECK_THAT(open_error(folder), Catch::Contains(c.reason));
}

TEST_CASE("What the shards have counts, whatever the index says of them") {
  const TempFolder folder;
  write(folder / "1", {"a"});
  write(folder / "2", {"a", "b"});
  write_index(folder, R"({"b":"1","gone":"2"})");
  const WeightFiles weights = WeightFiles::open(folder.path());
  CHECK(weights.find("b", {2, 2}).first->path() == folder / "2");
  CHECK(weights.has("a"));  // in both, and the same
  CHECK_FALSE(weights.has("gone"));
  CHECK_THAT(error_of([&] { weights.find("gone", {2, 2}); }), Catch::Contains("gone: tensor missing"));
  CHECK(weights.same("a", "b"));
}

TEST_CASE("Two shards with different tensors of one name are refused by that name") {
  const TempFolder folder;
  const float other[4] = {1, 2, 3, 5};
  write(folder / "1", {"a"});
  write(folder / "2", {"a", "b"}, other);
  write_index(folder, R"({"a":"1","b":"2"})");
  CHECK_THAT(open_error(folder), Catch::Contains("/2: a: another tensor of that name is in 1; expected every tensor "
                                                 "once"));
}

TEST_CASE("A folder without weights says what it has instead") {
  const TempFolder folder;
  CHECK_THAT(open_error(folder),
             Catch::Contains("no weights; expected model.safetensors or model.safetensors.index.json"));
  folder.write("pytorch_model.bin", "x");
  CHECK_THAT(open_error(folder), Catch::Contains("there is pytorch_model.bin; convert it"));
  CHECK_THAT(error_of([&] { WeightFiles::open(folder / "none"); }), Catch::Contains("no such folder"));
  CHECK_THAT(error_of([&] { WeightFiles::open(folder / "pytorch_model.bin"); }), Catch::Contains("not a folder"));
  fs::create_symlink("gone", folder / "model.safetensors");
  CHECK_THAT(open_error(folder), Catch::Contains("model.safetensors: cannot be read: No such file"));
}

TEST_CASE("The hash is of names, shapes and sizes, and does not depend on the folder") {
  const TempFolder one, two;
  write(one / "model.safetensors", {"a"});
  write(two / "model.safetensors", {"a"});
  const std::string hash = WeightFiles::open(one.path()).hash();
  CHECK_THAT(hash, Catch::Matches("[0-9a-f]{16}"));
  CHECK(WeightFiles::open(two.path()).hash() == hash);
  write(two / "model.safetensors", {"b"});
  CHECK(WeightFiles::open(two.path()).hash() != hash);
}
