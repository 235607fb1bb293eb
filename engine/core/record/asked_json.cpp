#include "engine/core/record/asked_json.h"

#include <algorithm>
#include <array>
#include <bit>
#include <span>

#include "engine/core/record/pipe_gate.h"
#include "engine/core/record/request_json.h"
#include "engine/core/record/run_fields.h"
#include "engine/core/support/checked_fields.h"
#include "engine/core/support/json_file.h"

namespace kvscope {
namespace {

using nlohmann::json;
using namespace fields;

constexpr std::array kOriginKinds = {RunOrigin::Kind::drawn, RunOrigin::Kind::replay, RunOrigin::Kind::fork,
                                     RunOrigin::Kind::resumed};

/// Tokens of the run from `begin` on; none where there are fewer.
std::span<const std::int32_t> ids_from(const RunRecord& run, int begin, std::size_t n) {
  if (begin < 0 || begin > run.n_tokens() || n > run.ids.size() - static_cast<std::size_t>(begin)) return {};
  return std::span(run.ids).subspan(static_cast<std::size_t>(begin), n);
}

json ids_json(const RunRecord& run, int begin, const std::vector<std::int32_t>& ids) {
  const auto own = ids_from(run, begin, ids.size());
  return std::ranges::equal(own, ids) ? json(ids.size()) : json(ids);
}

std::vector<std::int32_t> ids_of_json(const RunRecord& run, int begin, const json& object, const char* key) {
  std::vector<std::int32_t> ids;
  if (object[key].is_array()) {
    for (const json& id : object[key]) {
      if (!id.is_number_integer() || id.get<std::int64_t>() < 0 || id.get<std::int64_t>() > INT32_MAX)
        bad_field(object, key, id.dump(), "token ids");
      ids.push_back(id.get<std::int32_t>());
    }
    return ids;
  }
  const auto n = static_cast<std::size_t>(integer(object, key, 0, std::max(0, run.n_tokens() - begin)));
  const auto own = ids_from(run, begin, n);
  return {own.begin(), own.end()};
}

/// Bits, because a threshold may be infinite, which JSON cannot say.
json bits_json(const std::vector<float>& values) {
  json list = json::array();
  for (const float value : values) list.push_back(std::bit_cast<std::uint32_t>(value));
  return list;
}

/// The list under `key`, read number by number; `own`, the run's, where anything else is there; empty without the key.
template <typename T, typename Read>
std::vector<T> own_or_list(const json& request, const char* key, std::vector<T> own, Read&& read) {
  if (!request.contains(key)) return {};
  if (!request[key].is_array()) return own;
  std::vector<T> list;
  for (const json& one : request[key]) list.push_back(read(one));
  return list;
}

json origin_json(const RunOrigin& origin) {
  json object = {{"kind", to_string(origin.kind)}};
  if (!origin.of.empty()) object["of"] = origin.of;
  if (!origin.title.empty()) object["title"] = origin.title;
  if (origin.q >= 0) object["q"] = origin.q;
  return object;
}

RunOrigin origin_of_json(const json& object) {
  RunOrigin origin{.of = text_or_empty(object, "of"), .title = text_or_empty(object, "title")};
  const std::string kind = text(object, "kind");
  const auto* found = std::ranges::find(kOriginKinds, kind, [](RunOrigin::Kind one) { return to_string(one); });
  if (found == kOriginKinds.end()) bad_field(object, "kind", kind, "drawn, replay, fork or resumed");
  origin.kind = *found;
  if (object.contains("q")) origin.q = static_cast<int>(integer(object, "q", 0, kMaxPositions));
  return origin;
}

}  // namespace

std::string asked_text(const RunRecord& run) {
  if (run.asked == nullptr) return "";
  const RunRequest& r = run.asked->request;
  json request = request_json(r);
  if (r.prompt != run.prompt_text) request["prompt"] = r.prompt;
  if (!r.prompt_ids.empty()) request["prompt_ids"] = ids_json(run, 0, r.prompt_ids);
  if (r.answer_ids) request["answer_ids"] = ids_json(run, run.prompt_len, *r.answer_ids);
  if (!r.thresholds.empty())
    request["threshold_bits"] = r.thresholds == run.thresholds() ? json("own") : bits_json(r.thresholds);
  if (!r.budgets.empty()) request["budgets"] = r.budgets == run.budgets() ? json("own") : json(r.budgets);
  json gates = json::array();
  for (const GateRef& gate : run.asked->gates)
    gates.push_back({{"given", gate_in_files(gate.given)}, {"name", gate.name}, {"hash", gate.hash}});
  const json object = {{"key", run.asked->key},
                       {"request", std::move(request)},
                       {"by_text", run.asked->by_text},
                       {"origin", origin_json(run.asked->origin)},
                       {"gates", std::move(gates)}};
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

Asked asked_of_text(const RunRecord& run, std::string_view text) {
  const json object = parse_json(text, "asked");
  const json& request = field(object, "request", json::value_t::object);
  Asked asked{.key = fields::text(object, "key"),
              .request = request_of_json(request, run.policy.declared),
              .by_text = boolean(object, "by_text"),
              .origin = origin_of_json(field(object, "origin", json::value_t::object)),
              .gates = {}};
  RunRequest& r = asked.request;
  r.prompt = request.contains("prompt") ? fields::text(request, "prompt") : run.prompt_text;
  if (request.contains("prompt_ids")) r.prompt_ids = ids_of_json(run, 0, request, "prompt_ids");
  if (request.contains("answer_ids")) r.answer_ids = ids_of_json(run, run.prompt_len, request, "answer_ids");
  r.thresholds = own_or_list(request, "threshold_bits", run.thresholds(), [&](const json& one) {
    if (!one.is_number_unsigned()) bad_field(request, "threshold_bits", one.dump(), "numbers of 32 bits");
    return std::bit_cast<float>(one.get<std::uint32_t>());
  });
  r.budgets = own_or_list(request, "budgets", run.budgets(), [&](const json& one) {
    if (!one.is_number_integer()) bad_field(request, "budgets", one.dump(), "numbers of tokens");
    return one.get<std::int32_t>();
  });
  for (const json& gate : field(object, "gates", json::value_t::array)) {
    asked.gates.push_back({text_or_empty(gate, "given"), text_or_empty(gate, "name"), text_or_empty(gate, "hash")});
    if (asked.gates.back().given != kPipeInFiles) refuse_pipe(asked.gates.back().given, "asked");
  }
  return asked;
}

}  // namespace kvscope
