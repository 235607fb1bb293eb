#include "tests/app/broken_models.h"
#include "tests/app/model_damage.h"

namespace kvscope::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char *kIndex = "model.safetensors.index.json", *kConfig = "config.json",
                     *kGeneration = "generation_config.json", *kSecond = "model-00002-of-00002.safetensors",
                     *kNorm = "model.norm.weight", *kTokenizer = "tokenizer.json";

}  // namespace

std::vector<OddModel> odd_models() {
  const auto hub = [](const fs::path& folder) {  // snapshots of links into blobs, as a download cache has them
    const fs::path blobs = folder.parent_path() / "blobs";
    fs::create_directory(blobs);
    int i = 0;
    std::vector<fs::path> files;
    for (const auto& item : fs::directory_iterator(folder)) files.push_back(item.path());
    for (const fs::path& file : files) {
      const std::string hash = "3f2a8888deadbeef" + std::to_string(i++);
      fs::rename(file, blobs / hash);
      fs::create_symlink("../blobs/" + hash, file);
    }
  };
  const auto in_folder = [](const fs::path& folder) {
    fs::create_directory(folder / "deep");
    fs::rename(folder / kSecond, folder / "deep/b.safetensors");
    edit_bytes(kIndex, [](std::string text) {
      for (auto at = text.find(kSecond); at != text.npos; at = text.find(kSecond)) {
        text.replace(at, std::string(kSecond).size(), "deep/b.safetensors");
      }
      return text;
    })(folder);
  };
  return {
      {"as it is", [](const fs::path&) {}},
      {"links into a cache of blobs", hub},
      {"shards that are links into a cache of blobs", hub, true},
      {"a shard in a folder of its own", in_folder, true},
      {"white space before the header", edit_header([](const std::string& h) { return " \r\n\t" + h; })},
      {"a header of odd length, so that no tensor is aligned",
       edit_header([](const std::string& h) { return h + std::string(h.size() % 2 ? 2 : 1, ' '); })},
      {"unknown keys in an entry", edit_entry(kNorm,
                                              [](json& e) {
                                                e["why"] = {{"nested", {1, nullptr}}};
                                              })},
      {"tensors that nobody asks for",
       add_to_header(R"(,"a\u0000\u001b\u202e":{"dtype":"C64","shape":[0],"data_offsets":[0,0]})")},
      {"metadata of a megabyte", edit_header([](const std::string& h) {
         json whole = json::parse(h);
         whole["__metadata__"] = {{"note", std::string(1'000'000, 'm')}};
         return whole.dump();
       })},
      {"unknown keys in the configuration",
       set_json(kConfig, "/auto_map", {{"AutoModel", "modeling.Evil"}, {"deep", {{{"deeper", {1, 2}}}}}})},
      {"both styles of rotary parameters",
       set_json(kConfig, "/rope_parameters", {{"rope_type", "default"}, {"rope_theta", 10000}})},
      {"a configuration with Windows line ends",
       edit_bytes(kConfig, [](const std::string& b) { return "\r\n" + json::parse(b).dump(2) + "\r\n"; })},
      {"an index with remarks", set_json(kIndex, "/metadata/remark", {{"x", {1}}}), true},
      {"a generation configuration with unknown keys",
       put(kGeneration, R"({"eos_token_id":[0,1],"temperature":0.6,"top_k":20,"future":{"x":1}})")},
      {"a generation configuration that cannot be used",
       put(kGeneration, R"({"do_sample":true,"temperature":"hot","top_k":-1,"top_p":7,"eos_token_id":[0,99999]})")},
      {"numbers that JSON lacks, where nobody reads them",
       edit_bytes(kConfig, [](std::string b) { return b.insert(1, "\"x\":[NaN,Infinity,-Infinity],"); })},
      {"a model type without an architecture", edit_json(kConfig,
                                                         [](json& c) {
                                                           c["architectures"] = nullptr;
                                                           c["model_type"] = "qwen3";
                                                         })},
      {"an end of text past the vocabulary", set_json(kConfig, "/eos_token_id", {0, 4096})},
      {"an added token twice",
       edit_json(kTokenizer, [](json& t) { t["added_tokens"].push_back(t["added_tokens"].front()); })},
      {"a token past the embedding",
       edit_json(kTokenizer,
                 [](json& t) {
                   t["added_tokens"].push_back({{"id", 4096}, {"content", "[PAD]"}, {"special", true}});
                 })},
      {"an index that names a tensor too many", set_json(kIndex, "/weight_map/extra", kSecond), true},
      {"an index that leaves a tensor out", edit_json(kIndex, [](json& i) { i["weight_map"].erase(kNorm); }), true},
      {"a tensor in two shards",
       after([](const fs::path& folder) { fs::copy_file(folder / kSecond, folder / "again.safetensors"); },
             set_json(kIndex, "/weight_map/extra", "again.safetensors")),
       true},
      {"other files beside it",
       [](const fs::path& folder) {
         write_bytes(folder / "README.md", "x");
         write_bytes(folder / "pytorch_model.bin", "x");
         fs::create_directory(folder / ".cache");
         fs::create_symlink("gone", folder / "dangling.txt");
       }},
  };
}

}  // namespace kvscope::test
