#pragma once
// A run's tokens as flowing text: measured once a token, broken into lines again only when tokens or width change.

#include <cstdint>
#include <string>
#include <vector>

#include "views/frame/theme.h"
#include "views/frame/view.h"
#include "views/widgets/rebuild.h"

namespace kvscope::views {

class TokenLines {
 public:
  struct Measured {
    bool same_text = true;  // it begins with the tokens that were measured before
    bool other = false;     // than those: another run, or more of this one
  };
  /// All lengths in pixels; `pad` is what a token takes beside its text, `gap` what parts it from the next.
  Measured measure(const Theme& theme, const ShownRun* shown);
  void break_at(const RunRecord& run, float width, float pad, float gap);

  int n_tokens() const { return static_cast<int>(text_.size()); }
  int n_lines() const { return static_cast<int>(starts_.size()); }
  /// break_at() has had all tokens.
  bool are_broken() const { return x_.size() == text_.size() && !x_.empty(); }
  int begin(int line) const { return starts_[static_cast<std::size_t>(line)]; }
  int end(int line) const { return line + 1 < n_lines() ? begin(line + 1) : n_tokens(); }
  int line_of(int token) const;
  /// The token of that line at x from its left edge; -1 if there is none.
  int token_at(int line, float x) const;

  ImFont* font() const { return font_; }
  float font_size() const { return size_; }
  const std::string& text(int token) const { return text_[static_cast<std::size_t>(token)]; }  // as shown
  float x(int token) const { return x_[static_cast<std::size_t>(token)]; }
  float width(int token) const { return advance_[static_cast<std::size_t>(token)] + pad_; }

 private:
  RunKey measured_;
  void measure_token(const RunRecord& run, std::size_t t);

  std::string bytes_;  // of the tokens that were measured
  std::vector<std::int32_t> ids_;
  ImFont* font_ = nullptr;
  float size_ = 0, width_ = 0, pad_ = 0;
  std::vector<std::string> text_;
  std::vector<float> advance_, x_;
  std::vector<int> starts_;  // first token of each line
};

}  // namespace kvscope::views
