#include "views/figure/head_set.h"

#include <algorithm>
#include <charconv>
#include <iterator>

#include "engine/core/support/error.h"
#include "engine/core/support/text.h"

namespace kvscope::views {
namespace {

constexpr std::size_t kMostHeads = 1 << 20;  // of a text

/// A number below kMostSide that takes up `text` from its start; the rest stays. -1: there is none.
int take_number(std::string_view& text) {
  int value = -1;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end.ec != std::errc() || value < 0 || value >= HeadSet::kMostSide) return -1;
  text.remove_prefix(static_cast<std::size_t>(end.ptr - text.data()));
  return value;
}

bool take(std::string_view& text, char c) {
  if (!text.starts_with(c)) return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace

HeadSet::HeadSet(std::initializer_list<KvHead> heads) {
  for (const KvHead head : heads) add(head);
}

bool HeadSet::contains(KvHead head) const { return std::ranges::binary_search(heads_, head); }

void HeadSet::add(KvHead head) {
  const auto at = std::ranges::lower_bound(heads_, head);
  if (at == heads_.end() || *at != head) heads_.insert(at, head);
}

void HeadSet::remove(KvHead head) {
  const auto at = std::ranges::lower_bound(heads_, head);
  if (at != heads_.end() && *at == head) heads_.erase(at);
}

void HeadSet::add(const HeadSet& other) {
  std::vector<KvHead> both;
  std::ranges::set_union(heads_, other.heads_, std::back_inserter(both));
  heads_ = std::move(both);
}

void HeadSet::remove(const HeadSet& other) {
  std::vector<KvHead> left;
  std::ranges::set_difference(heads_, other.heads_, std::back_inserter(left));
  heads_ = std::move(left);
}

HeadSet HeadSet::within(int n_layers, int n_kv_heads) const {
  HeadSet result;
  std::ranges::copy_if(heads_, std::back_inserter(result.heads_),
                       [&](KvHead h) { return h.layer < n_layers && h.kv_head < n_kv_heads; });
  return result;
}

std::string to_text(const HeadSet& heads) {
  std::string text;
  for (auto at = heads.begin(); at != heads.end();) {
    auto last = at;
    while (last + 1 != heads.end() && *(last + 1) == KvHead{at->layer, last->kv_head + 1}) ++last;
    text += (text.empty() ? "" : " ") + std::to_string(at->layer) + "." + std::to_string(at->kv_head);
    if (last != at) text += "-" + std::to_string(last->kv_head);
    at = last + 1;
  }
  return text;
}

HeadSet parse_heads(std::string_view text, const std::string& file, const std::string& where) {
  const std::string_view all = text;
  HeadSet heads;
  std::size_t n = 0;
  while (true) {
    while (take(text, ' ')) {
    }
    if (text.empty()) return heads;
    const int layer = take_number(text);
    const int first = layer >= 0 && take(text, '.') ? take_number(text) : -1;
    const int last = first >= 0 && take(text, '-') ? take_number(text) : first;
    const bool ends = text.empty() || text.front() == ' ';
    n += static_cast<std::size_t>(std::max(0, last - first + 1));
    if (first < 0 || last < first || !ends || n > kMostHeads)
      throw Error({.file = file,
                   .where = where,
                   .found = in_quotes(std::string(all), 40),
                   .expected = "heads as layer.head or layer.first-last, with spaces between"});
    HeadSet run;
    for (int head = first; head <= last; ++head) run.add({layer, head});
    heads.add(run);
  }
}

HeadSet global_heads_of(const std::vector<std::uint8_t>& local, int n_kv_heads) {
  HeadSet heads;
  for (int i = 0; i < static_cast<int>(local.size()); ++i) {
    if (local[static_cast<std::size_t>(i)] == 0) heads.add({i / n_kv_heads, i % n_kv_heads});
  }
  return heads;
}

std::vector<std::uint8_t> local_heads_of(const HeadSet& global, int n_layers, int n_kv_heads) {
  std::vector<std::uint8_t> local(static_cast<std::size_t>(n_layers) * static_cast<std::size_t>(n_kv_heads), 1);
  for (const KvHead head : global.within(n_layers, n_kv_heads))
    local[static_cast<std::size_t>(head.layer) * static_cast<std::size_t>(n_kv_heads) +
          static_cast<std::size_t>(head.kv_head)] = 0;
  return local;
}

}  // namespace kvscope::views
