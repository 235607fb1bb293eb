#include "engine/core/study/heads/head_choice.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "engine/core/policy/head_strategy.h"
#include "engine/core/policy/policy.h"
#include "engine/core/support/error.h"
#include "engine/core/support/text.h"

namespace kvscope {
namespace {

[[noreturn]] void refuse(const std::string& found, const std::string& expected, const std::string& hint = "") {
  throw Error(
      {.code = ExitCode::usage, .file = "heads", .where = "share", .found = found, .expected = expected, .hint = hint});
}

GlobalHeads capped(const HeadShape& shape, const HeadValues& values, int n_global, int cap) {
  if (cap == 0) cap = (n_global + shape.n_layers - 1) / shape.n_layers;
  if (std::min(cap, shape.n_kv_heads) * shape.n_layers < n_global)
    refuse(std::to_string(n_global) + " heads under a cap of " + std::to_string(cap) + " per layer",
           "at most " + std::to_string(std::min(cap, shape.n_kv_heads) * shape.n_layers), "raise --cap");
  GlobalHeads heads(values.size(), 0);
  std::vector<int> in_layer(static_cast<std::size_t>(shape.n_layers), 0);
  for (const int head : ranking(values)) {
    int& n = in_layer[static_cast<std::size_t>(head / shape.n_kv_heads)];
    if (n_global == 0 || n == cap) continue;
    heads[static_cast<std::size_t>(head)] = 1;
    ++n, --n_global;
  }
  return heads;
}

GlobalHeads layers(const HeadShape& shape, const HeadValues& values, int n_global) {
  HeadValues of_layer(static_cast<std::size_t>(shape.n_layers), 0);
  for (std::size_t i = 0; i < values.size(); ++i) of_layer[i / static_cast<std::size_t>(shape.n_kv_heads)] += values[i];
  const auto n_layers = static_cast<std::size_t>(std::lround(static_cast<double>(n_global) / shape.n_kv_heads));
  const std::vector<int> order = ranking(of_layer);
  GlobalHeads heads(values.size(), 0);
  for (std::size_t i = 0; i < n_layers; ++i)
    std::fill_n(heads.begin() + order[i] * shape.n_kv_heads, shape.n_kv_heads, std::uint8_t{1});
  return heads;
}

/// Of a to d as policies have them, who take values as float: places in the order are exact there.
GlobalHeads by_strategy(const HeadShape& shape, const HeadValues& values, const ChoiceQuestion& question) {
  HeadsOfModel heads{.n_layers = shape.n_layers, .n_kv_heads = shape.n_kv_heads};
  const std::set<double> places(values.begin(), values.end());
  for (const double value : values)
    heads.alpha.push_back(static_cast<float>(std::distance(places.begin(), places.find(value))));
  GlobalHeads chosen =
      local_heads_by(static_cast<HeadStrategy>(question.rule), heads, question.n_global, question.seed);
  for (std::uint8_t& head : chosen) head = head == 0;
  return chosen;
}

}  // namespace

std::optional<int> own_count(ChoiceRule rule, const HeadShape& shape) {
  if (rule > ChoiceRule::d) return std::nullopt;
  return own_global_heads(static_cast<HeadStrategy>(rule),
                          {.n_layers = shape.n_layers, .n_kv_heads = shape.n_kv_heads});
}

HeadValues proportional_shares(const HeadValues& values, double total) {
  const auto n = static_cast<double>(values.size());
  if (!(total >= 0 && total <= n)) refuse(number_text(total) + " heads", "0 to " + number_text(n));
  HeadValues shares(values.size(), 0);
  std::vector<int> order = ranking(values);
  std::erase_if(order, [&](int head) { return !(values[static_cast<std::size_t>(head)] > 0); });
  HeadValues from(order.size());  // sum of the values from each place of the order on
  double sum = 0, left = total;
  for (std::size_t i = order.size(); i-- > 0;) from[i] = sum += values[static_cast<std::size_t>(order[i])];
  // From the greatest value down: once one is below 1, all after it are.
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto head = static_cast<std::size_t>(order[i]);
    shares[head] = std::clamp(left * (values[head] / from[i]), 0.0, 1.0);
    left -= shares[head];
  }
  const auto n_without = static_cast<double>(values.size() - order.size());
  for (std::size_t head = 0; head < values.size(); ++head)
    if (!(values[head] > 0)) shares[head] = std::clamp(left / n_without, 0.0, 1.0);
  return shares;
}

GlobalHeads choose_global(const HeadShape& shape, const HeadValues& values, const ChoiceQuestion& question) {
  if (question.n_global < 0 || question.n_global > shape.count())
    refuse(std::to_string(question.n_global) + " heads", "0 to " + std::to_string(shape.count()));
  switch (question.rule) {
    case ChoiceRule::capped:
      return capped(shape, values, question.n_global, question.cap);
    case ChoiceRule::layers:
      return layers(shape, values, question.n_global);
    default:
      return by_strategy(shape, values, question);
  }
}

}  // namespace kvscope
