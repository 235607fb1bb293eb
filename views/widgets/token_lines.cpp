#include "views/widgets/token_lines.h"

#include <algorithm>
#include <utility>

#include "views/figure/token_text.h"
#include "views/widgets/imgui_compat.h"
#include "views/widgets/known_glyphs.h"

namespace kvscope::views {

void TokenLines::measure_token(const RunRecord& run, std::size_t t) {
  text_[t] = with_visible_characters(token_text(run.pieces[t]));
  advance_[t] = text_width(font_, text_[t].data(), text_[t].data() + text_[t].size());
}

TokenLines::Measured TokenLines::measure(const Theme& theme, const ShownRun* shown) {
  const RunRecord& run = *shown->run;
  ImFont* font = theme.fonts.mono ? theme.fonts.mono : ImGui::GetFont();
  const bool same_font = font == font_ && size_ == views::font_size(font);
  if (same_font && measured_ == RunKey(shown)) return {};
  measured_ = RunKey(shown);
  // A run that grew, or a preview of it, begins with the tokens that were measured: only the new ones cost time.
  const bool same_text = ids_.size() <= run.ids.size() && std::equal(ids_.begin(), ids_.end(), run.ids.begin()) &&
                         run.pieces.bytes().starts_with(bytes_);
  const Measured result{.same_text = same_text, .other = !same_text || ids_.size() != run.ids.size()};
  if (!same_font || !same_text) text_.clear(), advance_.clear(), ids_.clear();
  if (same_font && !result.other) return result;
  font_ = font, size_ = views::font_size(font), width_ = 0;
  text_.resize(run.ids.size()), advance_.resize(run.ids.size());
  for (std::size_t t = ids_.size(); t < run.ids.size(); ++t) measure_token(run, t);
  ids_.insert(ids_.end(), run.ids.begin() + static_cast<std::ptrdiff_t>(ids_.size()), run.ids.end());
  bytes_ = run.pieces.bytes();
  return result;
}

void TokenLines::break_at(const RunRecord& run, float width, float pad, float gap) {
  if (width == width_ && x_.size() == text_.size()) return;
  width_ = width, pad_ = pad;
  x_.resize(text_.size());
  starts_.assign(1, 0);
  float x = 0;
  for (std::size_t t = 0; t < text_.size(); ++t) {
    const float w = advance_[t] + pad + gap;
    const bool after_newline = t > 0 && ends_line(run.pieces[t - 1]);
    if (t > 0 && (after_newline || x + w > width)) {
      starts_.push_back(static_cast<int>(t));
      x = 0;
    }
    x_[t] = x;
    x += w;
  }
}

int TokenLines::line_of(int token) const {
  return static_cast<int>(std::ranges::upper_bound(starts_, token) - starts_.begin()) - 1;
}

int TokenLines::token_at(int line, float x) const {
  if (line < 0 || line >= n_lines() || x < 0) return -1;
  const auto after = std::upper_bound(x_.begin() + begin(line), x_.begin() + end(line), x);
  const int token = static_cast<int>(after - x_.begin()) - 1;
  return x <= x_[static_cast<std::size_t>(token)] + width(token) ? token : -1;
}

}  // namespace kvscope::views
