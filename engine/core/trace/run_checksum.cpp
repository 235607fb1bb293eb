#include <algorithm>
#include <bit>

#include "engine/core/record/run_fields.h"
#include "engine/core/support/hash.h"
#include "engine/core/trace/run_block.h"
#include "engine/core/trace/run_table.h"

namespace kvscope::trace {

namespace {

/// Of a column of four-byte values: which column says whether the run has it, and what stands there if not.
struct Padding {
  bool known = false;
  Dataset said_by{};
  std::int32_t none = 0;  // what is said by it then
  std::uint32_t mark = 0;
};

std::array<Padding, kDatasets> padding_table() {
  std::array<Padding, kDatasets> table;
  const RunRecord run;
  visit_series(run, [&](const auto&, Dataset values, Dataset lengths, auto mark) {
    table[static_cast<int>(values)] = {true, lengths, -1, std::bit_cast<std::uint32_t>(mark)};
  });
  visit_output_error(run.output_error, [&](const auto&, Dataset values) {
    constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
    table[static_cast<int>(values)] = {true, Dataset::output_error_queries, 0, std::bit_cast<std::uint32_t>(kNaN)};
  });
  return table;
}

const Padding& padding_of(Dataset id) {
  static const std::array<Padding, kDatasets> table = padding_table();
  return table[static_cast<int>(id)];
}

void add_padding(Fnv1a& hash, std::uint32_t mark, std::int64_t n) {
  const std::vector<std::uint32_t> marks(static_cast<std::size_t>(std::min<std::int64_t>(n, 1 << 14)), mark);
  for (; n > 0; n -= static_cast<std::int64_t>(marks.size()))
    hash.add({reinterpret_cast<const char*>(marks.data()),
              4 * static_cast<std::size_t>(std::min<std::int64_t>(n, static_cast<std::int64_t>(marks.size())))});
}

}  // namespace

bool is_padding(const RunBlock& block, Dataset id) {
  const Padding& padding = padding_of(id);
  if (!padding.known) return false;
  const auto said = block.values<std::int32_t>(padding.said_by);
  return !said.empty() && std::ranges::all_of(said, [&](std::int32_t value) { return value == padding.none; });
}

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
    if (dataset.id == Dataset::checksum) continue;
    if (column.empty() && is_padding(block, dataset.id)) {
      add_padding(hash, padding_of(dataset.id).mark, n_elements(dataset, block.slice.count));
    } else {
      hash.add({reinterpret_cast<const char*>(column.data()), column.size()});
    }
  }
  return hash.value();
}

}  // namespace kvscope::trace
