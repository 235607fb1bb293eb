// The rules of heads in a message: one column per field.
#include <algorithm>

#include "engine/core/protocol/events.h"
#include "engine/core/protocol/fields.h"
#include "engine/core/record/run_fields.h"

namespace kvscope::protocol {

using nlohmann::json;

namespace {

/// How a column is packed: whole numbers as i32.
template <typename T>
using Packed = std::conditional_t<std::is_same_v<T, float>, float, std::int32_t>;

/// Calls visit(name, member pointer) for each field of a rule.
template <typename Visit>
void visit_columns(Visit&& visit) {
  visit("n_sink", &HeadRule::n_sink);
  visit("window", &HeadRule::window);
  visit("top_k", &HeadRule::top_k);
  visit("log_gamma", &HeadRule::log_gamma);
  visit("threshold", &HeadRule::threshold);
  visit("locality", &HeadRule::locality);
}

}  // namespace

json to_json(const HeadRules& heads) {
  json object = json::object();
  visit_columns([&]<typename T>(const char* name, T HeadRule::*member) {
    std::vector<Packed<T>> column;
    for (const HeadRule& head : heads) column.push_back(static_cast<Packed<T>>(head.*member));
    object[name] = pack(column);
  });
  return object;
}

HeadRules head_rules_from_json(const json& event) {
  const json& object = field(event, "heads", json::value_t::object);
  HeadRules heads(unpack_i32(object, "n_sink").size());
  visit_columns([&]<typename T>(const char* name, T HeadRule::*member) {
    std::vector<Packed<T>> column;
    if constexpr (std::is_same_v<T, float>) {
      column = unpack_f32(object, name);
    } else {
      column = unpack_i32(object, name);
    }
    if (column.size() != heads.size())
      bad_field(event, "heads", std::to_string(column.size()) + " numbers of " + name,
                std::to_string(heads.size()) + ", as of n_sink");
    for (std::size_t i = 0; i < heads.size(); ++i) {
      if constexpr (std::is_enum_v<T>) {
        if (column[i] < 0 || column[i] > static_cast<int>(Locality::model))
          bad_field(event, "heads", std::string(name) + " " + std::to_string(column[i]), "0, 1 or 2");
      }
      heads[i].*member = static_cast<T>(column[i]);
    }
  });
  return heads;
}

}  // namespace kvscope::protocol
