#include "tests/app/broken_models.h"

#include "tests/app/model_damage.h"
#include "tests/app/process.h"

namespace kvscope::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char *kWeights = "model.safetensors", *kIndex = "model.safetensors.index.json",
                     *kConfig = "config.json", *kTokenizer = "tokenizer.json";
constexpr const char *kFirst = "model-00001-of-00002.safetensors", *kSecond = "model-00002-of-00002.safetensors";
constexpr const char* kNorm = "model.norm.weight";  // [32]

const std::string kPointer =
    "version https://git-lfs.github.com/spec/v1\noid sha256:3f2a8888deadbeef\nsize 4900000000\n";
const std::string kPage = "<!doctype html>\n<html><body>404: not found</body></html>\n";
const std::string kBomb(100'000, '[');

std::string zero_size_tensors(int n) {
  std::string text;
  for (int i = 0; i < n; ++i) {
    text += ",\"" + std::to_string(i) + R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  }
  return text;
}

/// Points the index at another file for one tensor.
Damage shard_of_norm(const std::string& shard) { return set_json(kIndex, std::string("/weight_map/") + kNorm, shard); }

}  // namespace

std::vector<BrokenModel> broken_weights() {
  const auto offsets = [](std::int64_t begin, std::int64_t end) {
    return edit_entry(kNorm, [=](json& entry) {
      entry["data_offsets"] = {entry["data_offsets"][0].get<std::int64_t>() + begin,
                               entry["data_offsets"][1].get<std::int64_t>() + end};
    });
  };
  const auto entry = [](const char* key, json value) {
    return edit_entry(kNorm, [=](json& e) { value.is_discarded() ? void(e.erase(key)) : void(e[key] = value); });
  };
  const json erased(json::value_t::discarded);
  return {
      {"no weights at all", remove_file(kWeights), "", "no weights; expected model.safetensors"},
      {"weights of another kind", after(remove_file(kWeights), put("pytorch_model.bin", "x")), "", "convert it"},
      {"weights of 0 bytes", put(kWeights, ""), kWeights, "empty file"},
      {"weights of 7 bytes", put(kWeights, "1234567"), kWeights, "7 bytes; expected a header length"},
      {"header length 0", set_header_length([](auto) { return 0; }), kWeights, "header of 0 bytes"},
      {"header length 100,000,000", set_header_length([](auto) { return 100'000'000; }), kWeights, "passes the end"},
      {"header length 100,000,001", set_header_length([](auto) { return 100'000'001; }), kWeights, "at most 100000000"},
      {"header length 2^63", set_header_length([](auto) { return 1ull << 63; }), kWeights, "header length 9223372036"},
      {"header length 2^64 - 1", set_header_length([](auto) { return ~0ull; }), kWeights, "header length 18446744"},
      {"header length that wraps", set_header_length([](auto) { return ~0ull - 7; }), kWeights, "at most 100000000"},
      {"header one longer than the file", set_header_length([](auto size) { return size - 7; }), kWeights, "passes"},
      {"header as long as the file", set_header_length([](auto size) { return size - 8; }), kWeights, "NUL byte"},
      {"big-endian header length",
       edit_bytes(kWeights, [](std::string b) { return std::string(b.rend() - 8, b.rend()) + b.substr(8); }), kWeights,
       "big-endian"},
      {"cut inside the header", edit_bytes(kWeights, [](std::string b) { return b.substr(0, 100); }), kWeights,
       "cut short"},
      {"cut by 1 byte", resize(kWeights, -1), kWeights, "past the end of the file"},
      {"cut in half", edit_bytes(kWeights, [](std::string b) { return b.substr(0, b.size() / 2); }), kWeights,
       "past the end of the file"},
      {"1 trailing byte", resize(kWeights, 1), kWeights, "1 trailing bytes"},
      {"a ZIP behind the weights", edit_bytes(kWeights, [](std::string b) { return b + "PK\3\4" + b; }), kWeights,
       "trailing bytes"},
      {"a terabyte of nothing behind the weights", resize(kWeights, 1ll << 40), kWeights, "trailing bytes"},
      {"a terabyte of nothing", after(put(kWeights, ""), resize(kWeights, 1ll << 40)), kWeights, "header of 0 bytes"},
      {"Git LFS pointer", put(kWeights, kPointer), kWeights, "Git LFS pointer"},
      {"HTML page", put(kWeights, kPage), kWeights, "HTML page"},
      {"pickle", put(kWeights, std::string("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", 15)), kWeights,
       "pickle"},
      {"GGUF", put(kWeights, "GGUF" + std::string(60, '\3')), kWeights, "GGUF"},
      {"weights a directory", put_directory(kWeights), kWeights, "a directory"},
      {"weights a FIFO", put_fifo(kWeights), kWeights, "a FIFO"},
      {"weights a link to /dev/zero", put_link(kWeights, "/dev/zero"), kWeights, "a character device"},
      {"weights a link to nothing", put_link(kWeights, "../blobs/gone"), kWeights, "No such file"},
      {"weights a link to itself", put_link(kWeights, kWeights), kWeights, "Too many levels"},
      {"header not UTF-8", add_to_header(",\"\xff\":1"), kWeights, "UTF-8"},
      {"header with a byte order mark", edit_header([](const std::string& h) { return "\xEF\xBB\xBF" + h; }), kWeights,
       "byte order mark"},
      {"header padded with NUL", edit_header([](const std::string& h) { return h + std::string(3, '\0'); }), kWeights,
       "NUL"},
      {"text behind the header", edit_header([](const std::string& h) { return h + "x"; }), kWeights, "not valid JSON"},
      {"header a list", edit_header([](const std::string& h) { return "[" + h + "]"; }), kWeights, "begins with ["},
      {"header a depth bomb", edit_header([](auto) { return "{\"a\":{\"x\":" + kBomb; }), kWeights, "deep"},
      {"a million tensors", add_to_header(zero_size_tensors(1'000'000)), kWeights, "tensors"},
      {"a name of 50 MB", add_to_header(",\"" + std::string(50'000'000, 'n') + "\":1"), kWeights,
       "name of 50000000 bytes"},
      {"a tensor twice", add_to_header(R"(,"model.norm.weight":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})"),
       kWeights, "twice"},
      {"a trailing comma", add_to_header(","), kWeights, "not valid JSON"},
      {"a tensor without dtype", entry("dtype", erased), kWeights, kNorm},
      {"a tensor without shape", entry("shape", erased), kWeights, kNorm},
      {"a tensor without offsets", entry("data_offsets", erased), kWeights, kNorm},
      {"an unknown dtype", entry("dtype", "F31"), kWeights, "F31"},
      {"a dimension of -1", entry("shape", {-1}), kWeights, "-1"},
      {"a shape whose product overflows", entry("shape", {1ll << 32, 1ll << 32}), kWeights, "overflows"},
      {"a shape of another size", entry("shape", {33}), kWeights, "expected 132"},
      {"10,000 dimensions", entry("shape", json(std::vector<int>(10'000, 1))), kWeights, "dimensions"},
      {"a hole between tensors", offsets(4, 4), kWeights, "hole"},
      {"tensors that overlap", offsets(-4, -4), kWeights, "overlap"},
      {"an end before its begin", offsets(200, 0), kWeights, "after end"},
      {"an end past the file", offsets(0, 1ll << 40), kWeights, "expected 128"},
      {"a tensor under another name",
       edit_header([](std::string h) { return h.replace(h.find(kNorm), 10, "model.nrom"); }), kWeights,
       "model.norm.weight: tensor missing", false, false},
      {"a tensor of a type that is not computed with",
       edit_entry(kNorm,
                  [](json& e) {
                    e = {{"dtype", "I32"}, {"shape", {32}}, {"data_offsets", e["data_offsets"]}};
                  }),
       kWeights, "dtype I32 is not supported", false, false},
  };
}

std::vector<BrokenModel> broken_indexes() {
  const auto outside = [](const fs::path& folder) {
    shard_of_norm((folder.parent_path() / "outside.safetensors").string())(folder);
  };
  const auto both = [](const fs::path& folder) {  // the copy ends in another byte
    fs::copy_file(folder / kFirst, folder / "again.safetensors");
    edit_bytes("again.safetensors", [](std::string b) { return b.back() ^= 1, b; })(folder);
  };
  std::vector<BrokenModel> cases = {
      {"a shard of ../", shard_of_norm("../outside.safetensors"), kIndex, "points outside the model's folder"},
      {"a shard by absolute path", outside, kIndex, "points outside the model's folder"},
      {"a shard that goes down and up again", shard_of_norm("x/../../outside.safetensors"), kIndex, "points outside"},
      {"a shard without name", shard_of_norm(""), kIndex, "points outside the model's folder"},
      {"a shard with NUL in its name", shard_of_norm(std::string("a\0b", 3)), kIndex, "points outside"},
      {"a shard that is missing", remove_file(kSecond), kSecond, "No such file"},
      {"a shard that is a directory", put_directory(kSecond), kSecond, "a directory"},
      {"a shard that is a FIFO", put_fifo(kSecond), kSecond, "a FIFO"},
      {"a shard that is a Git LFS pointer", put(kSecond, kPointer), kSecond, "Git LFS pointer"},
      {"two shards with different tensors of one name",
       after(both, set_json(kIndex, "/weight_map/extra", "again.safetensors")), kFirst,
       "another tensor of that name is in again.safetensors"},
      {"a shard cut short", resize(kSecond, -5), kSecond, "past the end of the file"},
      {"an index without map", edit_json(kIndex, [](json& i) { i.erase("weight_map"); }), kIndex, "missing"},
      {"an index of a list", put(kIndex, R"({"weight_map":[]})"), kIndex, "expected an object"},
      {"an index of nothing", put(kIndex, R"({"weight_map":{}})"), kIndex, "empty"},
      {"an index with a tensor twice", put(kIndex, R"({"weight_map":{"a":"x","a":"y"}})"), kIndex, "twice"},
      {"an index that is an HTML page", put(kIndex, kPage), kIndex, "HTML page"},
      {"an index that is a depth bomb", put(kIndex, kBomb), kIndex, "deep"},
      {"an index that is a link to /dev/zero", put_link(kIndex, "/dev/zero"), kIndex, "a character device"},
      {"an index of a terabyte", resize(kIndex, 1ll << 40), kIndex, "expected at most"},
  };
  for (BrokenModel& c : cases) c.sharded = true;
  return cases;
}

std::vector<BrokenModel> broken_configurations() {
  const auto config = [](const char* key, json value) { return set_json(kConfig, std::string("/") + key, value); };
  return {
      {"no configuration", remove_file(kConfig), kConfig, "No such file"},
      {"an empty configuration", put(kConfig, ""), kConfig, "unexpected end of input"},
      {"half a configuration", edit_bytes(kConfig, [](std::string b) { return b.substr(0, b.size() / 2); }), kConfig,
       "line"},
      {"a configuration that is a list", put(kConfig, "[]"), kConfig, "expected an object"},
      {"a configuration that is a depth bomb", put(kConfig, kBomb), kConfig, "deep"},
      {"a configuration in UTF-16", put(kConfig, std::string("\xff\xfe{\0}\0", 6)), kConfig, "NUL byte"},
      {"a configuration that is a Git LFS pointer", put(kConfig, kPointer), kConfig, "Git LFS pointer"},
      {"a configuration that is a link to /dev/zero", put_link(kConfig, "/dev/zero"), kConfig, "a character device"},
      {"a configuration that is a FIFO", put_fifo(kConfig), kConfig, "a FIFO"},
      {"a configuration of a terabyte", resize(kConfig, 1ll << 40), kConfig, "expected at most"},
      {"a key twice", edit_bytes(kConfig, [](std::string b) { return b.insert(1, "\"vocab_size\":1,"); }), kConfig,
       "twice"},
      {"no architecture", edit_json(kConfig, [](json& c) { c.erase("architectures"); }), kConfig, "missing"},
      {"an architecture of others", config("architectures", {"MambaForCausalLM"}), kConfig,
       "\"MambaForCausalLM\" is not supported; expected NAMEForCausalLM, where NAME is one of: Qwen3, Qwen2, Llama, Mistral"},
      {"a billion layers", config("num_hidden_layers", 1'000'000'000), kConfig, "num_hidden_layers: 1000000000"},
      {"a vocabulary of 2^64", config("vocab_size", 18446744073709551615u), kConfig,
       "vocab_size: 18446744073709551615"},
      {"-1 heads", config("num_attention_heads", -1), kConfig, "num_attention_heads: -1"},
      {"0 KV heads", config("num_key_value_heads", 0), kConfig, "num_key_value_heads: 0"},
      {"KV heads that do not divide", config("num_key_value_heads", 3), kConfig, "num_key_value_heads: 3"},
      {"an odd head_dim", config("head_dim", 15), kConfig, "head_dim: 15"},
      {"a head_dim that no kernel takes", config("head_dim", 100), kConfig, "head_dim: 100"},
      {"rows that no kernel takes", config("intermediate_size", 65536), kConfig, "intermediate_size: 65536"},
      {"an eps that is no number",
       edit_bytes(kConfig, [](std::string b) { return b.replace(b.find("1e-06"), 5, "NaN"); }), kConfig,
       "rms_norm_eps: \"NaN\"; expected a number"},
      {"a theta of 1e999", edit_bytes(kConfig, [](std::string b) { return b.insert(1, "\"x\":1e999,"); }), kConfig,
       "number overflow"},
      {"a rotary scaling that is not computed", config("rope_scaling", {{"rope_type", "dynamic"}, {"factor", 2}}),
       kConfig, "\"dynamic\" is not supported"},
      {"YaRN without factor", config("rope_scaling", {{"rope_type", "yarn"}}), kConfig, "rope_scaling.factor: missing"},
      {"quantized weights", config("quantization_config", {{"quant_method", "awq"}}), kConfig, "quantized"},
      {"a sliding window", config("layer_types", {"full_attention", "sliding_attention"}), kConfig, "sliding"},
      {"one layer more than there is", config("num_hidden_layers", 3), kWeights, "model.layers.2.", false, false},
      {"another width", config("hidden_size", 64), kWeights, "different models", false, false},
      {"a width of a machine's whole memory",
       edit_json(kConfig,
                 [](json& c) {
                   c["hidden_size"] = 1 << 14;
                   c["vocab_size"] = 1 << 22;
                   c["intermediate_size"] = 57344;
                   c["num_hidden_layers"] = 1000;
                 }),
       kWeights, "expected [4194304, 16384]", false, false},
      {"a head that is not tied", config("tie_word_embeddings", false), kWeights, "lm_head.weight: tensor missing",
       false, false},
      {"biases that are not there", config("architectures", {"Qwen2ForCausalLM"}), kWeights,
       "q_proj.bias: tensor missing", false, false},
      {"a model type that is no text", config("model_type", 7), kConfig, "model_type: 7; expected text"},
      {"a model type of another family", config("model_type", "gpt2"), kConfig,
       "model_type: \"gpt2\"; expected \"qwen3"},
      {"layer types of more layers", config("layer_types", std::vector<std::string>(99, "full_attention")), kConfig,
       "layer_types: 99 layers; expected 2"},
      {"an epsilon of null", config("rms_norm_eps", nullptr), kConfig, "rms_norm_eps: null"},
  };
}

std::vector<BrokenModel> broken_tokenizers() {
  const auto tokenizer = [](const char* pointer, json value) { return set_json(kTokenizer, pointer, value); };
  return {
      {"no tokenizer", remove_file(kTokenizer), kTokenizer, "No such file"},
      {"an empty tokenizer", put(kTokenizer, ""), kTokenizer, "unexpected end of input"},
      {"half a tokenizer", edit_bytes(kTokenizer, [](std::string b) { return b.substr(0, b.size() / 2); }), kTokenizer,
       "column"},
      {"a tokenizer that is a Git LFS pointer", put(kTokenizer, kPointer), kTokenizer, "Git LFS pointer"},
      {"a tokenizer that is a depth bomb", put(kTokenizer, "{\"model\":" + kBomb), kTokenizer, "deeper"},
      {"a tokenizer that is a FIFO", put_fifo(kTokenizer), kTokenizer, "a FIFO"},
      {"a tokenizer that is a directory", put_directory(kTokenizer), kTokenizer, "a directory"},
      {"a tokenizer of a terabyte", resize(kTokenizer, 1ll << 40), kTokenizer, "expected at most"},
      {"a tokenizer of another kind", tokenizer("/model/type", "Unigram"), kTokenizer, "\"Unigram\" is not supported"},
      {"an id of 2^32", tokenizer("/model/vocab/!", 4294967296), kTokenizer, "4294967296"},
      {"an id of -1", tokenizer("/model/vocab/!", -1), kTokenizer, "-1"},
      {"a merge of an unknown token", tokenizer("/model/merges/0", {"!", "nobody"}), kTokenizer,
       "not in the vocabulary"},
      {"a merge of three parts", tokenizer("/model/merges/0", {"a", "b", "c"}), kTokenizer, "model.merges[0]"},
      {"a pattern that is not known",
       tokenizer("/pre_tokenizer", {{"type", "Split"}, {"pattern", {{"Regex", "(a+)+b"}}}}), kTokenizer,
       "pre_tokenizer"},
      {"a normalizer that is not known", tokenizer("/normalizer", {{"type", "NFKC"}}), kTokenizer, "\"NFKC\""},
      {"byte fallback that is no flag", tokenizer("/model/byte_fallback", "yes"), kTokenizer, "byte_fallback: \"yes\""},
      {"an unknown token that is no text", tokenizer("/model/unk_token", 5), kTokenizer, "unk_token: 5"},
  };
}

}  // namespace kvscope::test
