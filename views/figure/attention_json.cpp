#include "views/figure/attention_json.h"

#include <limits>

#include "engine/core/support/error.h"
#include "engine/core/support/json_file.h"

namespace kvscope::views {
namespace {

constexpr std::size_t kMostValues = std::size_t{1} << 26;  // 256 MiB

[[noreturn]] void refuse(const std::string& file, const std::string& key, const std::string& found) {
  throw Error(
      {ExitCode::bad_input, file, key, found, "a list of shares for each query head, as an export writes it", ""});
}

}  // namespace

nlohmann::ordered_json to_json(const TokenAttention& attention) {
  nlohmann::ordered_json heads = nlohmann::ordered_json::array();
  const int token = attention.tokens.at(0);
  for (int head = 0; head < attention.n_heads; ++head) {
    const float* row = attention.row(0, head);
    heads.push_back(std::vector<float>(row + token, row + attention.n_queries));
  }
  return {{"layer", attention.layer}, {"token", token}, {"heads", std::move(heads)}};
}

std::shared_ptr<const TokenAttention> parse_attention(const nlohmann::json& json, const std::string& file,
                                                      const std::string& key) {
  if (!json.is_object()) refuse(file, key, "not an object");
  const JsonObject object(json, file);
  const auto heads = json.find("heads");
  if (heads == json.end() || !heads->is_array() || heads->empty() || !(*heads)[0].is_array())
    refuse(file, key, "no heads");
  auto attention = std::make_shared<TokenAttention>();
  attention->layer = static_cast<int>(object.integer("layer", 0, 1 << 16));
  const int token = static_cast<int>(object.integer("token", 0, 1 << 24));
  attention->tokens = {token};
  attention->n_heads = static_cast<int>(heads->size());
  attention->n_queries = token + static_cast<int>((*heads)[0].size());
  const auto n = static_cast<std::size_t>(attention->n_queries);
  if (n > kMostValues / heads->size()) refuse(file, key, "too many numbers");
  attention->probability.assign(heads->size() * n, std::numeric_limits<float>::quiet_NaN());
  float* row = attention->probability.data();
  for (const nlohmann::json& head : *heads) {
    if (!head.is_array() || head.size() != (*heads)[0].size()) refuse(file, key, "heads of different lengths");
    float* out = row + token;
    for (const nlohmann::json& share : head) {
      if (!share.is_number() || !(share.get<double>() >= 0 && share.get<double>() <= 1.0001))
        refuse(file, key, share.dump());
      *out++ = share.get<float>();
    }
    row += n;
  }
  return attention;
}

}  // namespace kvscope::views
