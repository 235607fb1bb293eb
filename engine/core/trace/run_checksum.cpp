#include "engine/core/record/run_fields.h"
#include "engine/core/support/hash.h"
#include "engine/core/trace/run_block.h"

namespace kvscope::trace {

std::uint64_t checksum(const RunBlock& block, const ModelInfo& model) {
  Fnv1a hash;
  visit_fields(model, [&]<typename T>(std::string_view name, const T& value, auto) {
    if constexpr (std::is_same_v<T, std::string>) {
      if (name == "scorer") return;
      hash.add(value);
      hash.add({"", 1});  // texts end in a zero, so that none can pass a letter to the next
    } else {
      const std::int64_t number = value;
      hash.add({reinterpret_cast<const char*>(&number), sizeof number});
    }
  });
  for (const auto& dataset : datasets_of(block.version)) {
    const auto& column = block[dataset.id];
    if (dataset.id != Dataset::checksum) hash.add({reinterpret_cast<const char*>(column.data()), column.size()});
  }
  return hash.value();
}

}  // namespace kvscope::trace
