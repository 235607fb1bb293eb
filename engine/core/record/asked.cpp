#include "engine/core/record/asked.h"

#include <nlohmann/json.hpp>

#include "engine/core/record/request_json.h"
#include "engine/core/support/hash.h"

namespace kvscope {
namespace {

void add_numbers(Fnv1a& hash, const auto& numbers) {
  hash.add_word(numbers.size());
  for (const auto number : numbers) hash.add_word(static_cast<std::uint64_t>(number));
}

}  // namespace

std::string_view to_string(RunOrigin::Kind kind) {
  constexpr std::string_view kNames[] = {"drawn", "replay", "fork", "resumed"};
  return kNames[static_cast<int>(kind)];
}

std::string key_of(const Asked& asked, std::string_view weights_hash, std::string_view started_utc) {
  const RunRequest& request = asked.request;
  Fnv1a hash;
  for (const std::string_view text : {weights_hash, started_utc, std::string_view(request.prompt),
                                      std::string_view(asked.origin.of), to_string(asked.origin.kind)}) {
    hash.add_word(text.size());
    hash.add(text);
  }
  hash.add(request_json(request).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  add_numbers(hash, request.prompt_ids);
  add_numbers(hash, request.answer_ids.value_or(std::vector<std::int32_t>{}));
  return hash.hex();
}

}  // namespace kvscope
