// Facts as messages and back. Every size and index is checked against what the message itself says; what
// the model and the run allow is checked by engine/core/record/check.h.
#include "engine/core/protocol/protocol.h"

#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "engine/core/protocol/events.h"
#include "engine/core/protocol/fields.h"
#include "engine/core/support/error.h"

namespace kvscope::protocol {

using nlohmann::json;

namespace {

constexpr double kMaxSeconds = 1e9;

/// A table of int32 with `width` columns.
std::vector<std::int32_t> unpack_table(const json& message, const char* key, std::size_t width) {
  std::vector<std::int32_t> cells = unpack_i32(message, key);
  if (cells.size() % width != 0) {
    bad_field(message, key, std::to_string(cells.size()) + " numbers", "rows of " + std::to_string(width));
  }
  return cells;
}

/// The cells of each row, one after the other, as bytes.
template <typename Row, typename Cells>
json pack_table(const std::vector<Row>& rows, const Cells& cells_of) {
  using Array = decltype(cells_of(rows.front()));
  std::vector<std::uint8_t> bytes(rows.size() * sizeof(Array));
  std::uint8_t* to = bytes.data();
  for (const Row& row : rows) {
    const Array cells = cells_of(row);
    std::memcpy(to, cells.data(), sizeof cells);
    to += sizeof cells;
  }
  return json::binary(std::move(bytes));
}

using Ints = std::int32_t;

std::array<Ints, 4> lifetime_cells(const StepFacts::Lifetime& l) { return {l.layer, l.kv_head, l.token, l.evict_at}; }

std::array<Ints, 3> score_cells(const StepFacts::Score& s) { return {s.layer, s.kv_head, s.token}; }

std::array<Ints, 8> contest_cells(const Contest& c) {
  return {c.q,
          c.layer,
          c.kv_head,
          c.newcomer,
          c.boundary,
          c.evicted,
          std::bit_cast<Ints>(c.newcomer_effective),
          std::bit_cast<Ints>(c.boundary_effective)};
}

/// They would change when narrowed.
void check_narrow(const json& message, const char* key, std::int32_t layer, std::int32_t head) {
  constexpr std::int32_t kMaxHead = std::numeric_limits<std::int16_t>::max();
  if (layer >= 0 && layer <= kMaxHead && head >= 0 && head <= kMaxHead) return;
  bad_field(message, key, "layer " + std::to_string(layer) + ", head " + std::to_string(head),
            "indices from 0 to 32767");
}

std::vector<Contest> unpack_contests(const json& message) {
  const std::vector<std::int32_t> cells = unpack_table(message, "contests", 8);
  std::vector<Contest> contests;
  contests.reserve(cells.size() / 8);
  for (std::size_t i = 0; i < cells.size(); i += 8) {
    const std::int32_t* c = cells.data() + i;
    check_narrow(message, "contests", c[1], c[2]);
    contests.push_back({.q = c[0],
                        .layer = static_cast<std::int16_t>(c[1]),
                        .kv_head = static_cast<std::int16_t>(c[2]),
                        .newcomer = c[3],
                        .boundary = c[4],
                        .newcomer_effective = std::bit_cast<float>(c[6]),
                        .boundary_effective = std::bit_cast<float>(c[7]),
                        .evicted = c[5]});
  }
  return contests;
}

/// (q, layer, kv_head, n, n pages), one after the other.
json pack_reads(const std::vector<PageRead>& reads) {
  std::vector<std::int32_t> cells;
  for (const PageRead& read : reads) {
    cells.insert(cells.end(), {read.q, read.layer, read.kv_head, static_cast<std::int32_t>(read.pages.size())});
    cells.insert(cells.end(), read.pages.begin(), read.pages.end());
  }
  return pack(cells);
}

std::vector<PageRead> unpack_reads(const json& message) {
  const std::vector<std::int32_t> cells = unpack_i32(message, "reads");
  std::vector<PageRead> reads;
  for (std::size_t i = 0; i < cells.size();) {
    const std::int32_t* c = cells.data() + i;
    const bool whole = i + 4 <= cells.size() && c[3] >= 0 && i + 4 + static_cast<std::size_t>(c[3]) <= cells.size();
    if (!whole) bad_field(message, "reads", "an entry that ends in the middle", "q, layer, head, n and n pages");
    check_narrow(message, "reads", c[1], c[2]);
    reads.push_back({c[0], static_cast<std::int16_t>(c[1]), static_cast<std::int16_t>(c[2]), {c + 4, c + 4 + c[3]}});
    i += 4 + static_cast<std::size_t>(c[3]);
  }
  return reads;
}

}  // namespace

json to_json(const ModelInfo& info) { return fields_to_json(info); }
ModelInfo model_info_from_json(const json& j) { return fields_from_json<ModelInfo>(j); }
json to_json(const SamplingSpec& sampling) { return fields_to_json(sampling); }
SamplingSpec sampling_from_json(const json& j) { return fields_from_json<SamplingSpec>(j); }

std::size_t bulk_bytes(const StepFacts& facts) {
  std::size_t n_lifetimes = facts.lifetimes.size(), n_scores = facts.scores.size(), n_contests = facts.contests.size();
  for (const HeadDecisions& head : facts.decisions) {
    n_lifetimes += head.evictions.size();
    n_scores += head.scores.size();
    n_contests += head.contests.size();
  }
  const std::size_t of_tokens = facts.ids.size() * sizeof(Ints) + facts.logprobs.size() * sizeof(float);
  return of_tokens + n_lifetimes * sizeof(lifetime_cells({})) + n_scores * (sizeof(score_cells({})) + sizeof(float)) +
         n_contests * sizeof(contest_cells({}));
}

json to_json(StepFacts facts, int id) {
  spread(facts);
  json event = {{"type", "step"},
                {"id", id},
                {"n_tokens", facts.n_tokens},
                {"ids", pack(facts.ids)},
                {"pieces", pack(facts.pieces)},
                {"logprobs_from", facts.logprobs_from},
                {"logprobs", pack(facts.logprobs)},
                {"lifetimes", pack_table(facts.lifetimes, lifetime_cells)},
                {"score_index", pack_table(facts.scores, score_cells)},
                {"score_value", pack_table(facts.scores, [](const auto& s) { return std::array{s.value}; })},
                {"contests", pack_table(facts.contests, contest_cells)},
                {"seconds", facts.seconds}};
  if (!facts.reads.empty()) event["reads"] = pack_reads(facts.reads);
  if (!facts.heads.empty()) event["heads"] = to_json(facts.heads);
  return event;
}

StepFacts step_facts_from_json(const json& j) {
  StepFacts facts;
  facts.n_tokens = static_cast<int>(integer(j, "n_tokens", 0, kMaxPositions));
  facts.ids = unpack_i32(j, "ids");
  facts.pieces = unpack_pool(j, "pieces");
  if (facts.pieces.size() != facts.ids.size()) {
    bad_field(j, "pieces", std::to_string(facts.pieces.size()) + " pieces",
              std::to_string(facts.ids.size()) + ", one per token");
  }
  facts.logprobs_from = static_cast<int>(integer(j, "logprobs_from", 0, kMaxPositions));
  facts.logprobs = unpack_f32(j, "logprobs");
  const std::vector<std::int32_t> lifetimes = unpack_table(j, "lifetimes", 4);
  for (std::size_t i = 0; i < lifetimes.size(); i += 4) {
    facts.lifetimes.push_back({lifetimes[i], lifetimes[i + 1], lifetimes[i + 2], lifetimes[i + 3]});
  }
  const std::vector<std::int32_t> index = unpack_table(j, "score_index", 3);
  const std::vector<float> value = unpack_f32(j, "score_value");
  if (index.size() != 3 * value.size()) {
    bad_field(j, "score_value", std::to_string(value.size()) + " scores",
              std::to_string(index.size() / 3) + ", one per index");
  }
  for (std::size_t i = 0; i < value.size(); ++i) {
    facts.scores.push_back({index[3 * i], index[3 * i + 1], index[3 * i + 2], value[i]});
  }
  facts.contests = unpack_contests(j);
  if (j.contains("reads")) facts.reads = unpack_reads(j);
  if (j.contains("heads")) facts.heads = head_rules_from_json(j);
  facts.seconds = number(j, "seconds", 0, kMaxSeconds);
  return facts;
}

}  // namespace kvscope::protocol
