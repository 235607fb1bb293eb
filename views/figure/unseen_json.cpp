#include "views/figure/unseen_json.h"

#include <cmath>

#include "engine/core/support/error.h"
#include "engine/core/support/json_file.h"

namespace kvscope::views {
namespace {

[[noreturn]] void refuse_unseen(const std::string& file, const std::string& key, const std::string& found) {
  throw Error({ExitCode::bad_input, file, key, found, "shares of each token and head, as an export writes them", ""});
}

/// Numbers from 0 to 1; `or_null`: null is NaN.
std::vector<float> shares_of(const nlohmann::json& list, bool or_null, const std::string& file,
                             const std::string& key) {
  if (!list.is_array()) refuse_unseen(file, key, "no list");
  std::vector<float> shares;
  for (const nlohmann::json& share : list) {
    if (or_null && share.is_null()) {
      shares.push_back(std::nanf(""));
      continue;
    }
    if (!share.is_number() || !(share.get<double>() >= 0 && share.get<double>() <= 1.01))
      refuse_unseen(file, key, share.dump());
    shares.push_back(share.get<float>());
  }
  return shares;
}

const nlohmann::json& member(const nlohmann::json& json, const char* name, const std::string& file,
                             const std::string& key) {
  const auto found = json.find(name);
  if (found == json.end()) refuse_unseen(file, key, "no " + std::string(name));
  return *found;
}

}  // namespace

nlohmann::ordered_json to_json(const UnseenAttention& unseen) {
  nlohmann::ordered_json missing = nlohmann::ordered_json::array();
  for (int layer = 0; layer < unseen.n_layers; ++layer) {
    nlohmann::ordered_json heads = nlohmann::ordered_json::array();
    for (int head = 0; head < unseen.n_kv_heads; ++head) {
      const float share = unseen.missing[static_cast<std::size_t>(layer * unseen.n_kv_heads + head)];
      heads.push_back(std::isnan(share) ? nlohmann::ordered_json() : nlohmann::ordered_json(share));
    }
    missing.push_back(std::move(heads));
  }
  return {{"query", unseen.query}, {"layer", unseen.scope.layer}, {"kv_head", unseen.scope.kv_head},
          {"held", unseen.held},   {"evicted", unseen.evicted},   {"missing", std::move(missing)}};
}

std::shared_ptr<const UnseenAttention> parse_unseen(const nlohmann::json& json, const std::string& file,
                                                    const std::string& key) {
  if (!json.is_object()) refuse_unseen(file, key, "not an object");
  const JsonObject object(json, file);
  auto unseen = std::make_shared<UnseenAttention>();
  unseen->query = static_cast<int>(object.integer("query", 0, 1 << 24));
  unseen->scope.layer = static_cast<int>(object.integer("layer", -1, 1 << 16));
  unseen->scope.kv_head = static_cast<int>(object.integer("kv_head", -1, 1 << 16));
  unseen->held = shares_of(member(json, "held", file, key), false, file, key);
  unseen->evicted = shares_of(member(json, "evicted", file, key), false, file, key);
  const auto n = static_cast<std::size_t>(unseen->query) + 1;
  if (unseen->held.size() != n || unseen->evicted.size() != n)
    refuse_unseen(file, key, "another number of shares than of tokens up to the query");
  const nlohmann::json& missing = member(json, "missing", file, key);
  if (!missing.is_array()) refuse_unseen(file, key, "no list of layers");
  unseen->n_layers = static_cast<int>(missing.size());
  for (const nlohmann::json& layer : missing) {
    const std::vector<float> heads = shares_of(layer, true, file, key);
    if (&layer == &missing[0]) unseen->n_kv_heads = static_cast<int>(heads.size());
    if (static_cast<int>(heads.size()) != unseen->n_kv_heads) refuse_unseen(file, key, "layers of different lengths");
    unseen->missing.insert(unseen->missing.end(), heads.begin(), heads.end());
  }
  return unseen;
}

}  // namespace kvscope::views
