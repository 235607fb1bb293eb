#include "views/widgets/token_finder.h"

#include <algorithm>

#include "engine/core/support/error.h"

namespace kvscope::views {

void TokenFinder::update(ViewContext& context) {
  context.hits = nullptr;
  const std::string& text = context.selection->find;
  if (!drawable(context.a) || text.empty()) {
    hits_ = {}, wrong_.clear(), text_.clear(), query_ = {};
    return;
  }
  const bool new_text = text != text_;
  const Cursor at = context.cursor_in(*context.a->run);
  try {
    if (new_text) {
      text_ = text, hits_ = {}, readable_ = false;
      query_ = TokenQuery::parse(text);
      readable_ = true;
    }
    if (!readable_) return;
    const std::int32_t q = query_.depends_on_query() ? at.q : 0;  // else scrubbing finds nothing new
    if (rebuild_.due({RunKey(context.a), at.layer, at.kv_head, q, text}, new_text)) {
      wrong_.clear();
      hits_ = query_.find(*context.a->run, at.layer, at.kv_head, at.q);
      rebuild_.done();
    }
  } catch (const Error& error) {
    hits_ = {};
    const Error::Parts& parts = error.parts();
    wrong_ = parts.expected.empty() ? parts.found : parts.found + ": expected " + parts.expected;
    if (readable_) rebuild_.done();
  }
  context.hits = &hits_.tokens;
}

std::string TokenFinder::line(const Selection& selection) const {
  if (selection.find.empty()) return "";
  if (!wrong_.empty()) return wrong_;
  if (hits_.starts.empty()) return "no matches";
  const auto at = std::ranges::lower_bound(hits_.starts, selection.token);
  std::string text;
  if (at != hits_.starts.end() && *at == selection.token) text = std::to_string(at - hits_.starts.begin() + 1) + " of ";
  text += std::to_string(hits_.starts.size());
  if (hits_.tokens.size() != hits_.starts.size())
    return text + " matches, " + std::to_string(hits_.tokens.size()) + " tokens";
  return text + (hits_.starts.size() == 1 ? " token" : " tokens");
}

}  // namespace kvscope::views
