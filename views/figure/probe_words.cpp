#include "views/figure/probe_words.h"

#include <cmath>
#include <limits>

#include "views/figure/fonts.h"
#include "views/figure/token_text.h"

namespace kvscope::views {
namespace {

constexpr double kWordPitch = 1.7, kWordHeight = 1.4, kWordGap = 1;  // of the letters' size; points
constexpr std::size_t kLongestWord = 24;

}  // namespace

std::vector<ProbeWord> probe_words(const ProbeSummary& probes, const Box& box, double size) {
  std::vector<ProbeWord> words;
  double x = 0, y = 0;
  for (int t = 0; t < probes.n_tokens; ++t) {
    std::string label = token_label(probes.pieces[static_cast<std::size_t>(t)], kLongestWord);
    const double width = std::min(box.w, text_width(label, FontRole::mono, size) + 2);
    if (x > 0 && x + width > box.w) x = 0, y += size * kWordPitch;
    if (y + size * kWordHeight > box.h) break;
    words.push_back({t, std::move(label), {box.x + x, box.y + y, width, size * kWordHeight}});
    x += width + kWordGap;
  }
  return words;
}

double probe_words_height(const ProbeSummary& probes, double width, double size) {
  const auto words = probe_words(probes, {0, 0, width, std::numeric_limits<double>::infinity()}, size);
  return words.empty() ? 0 : words.back().box.bottom();
}

void draw_probe_words(FigureBuilder& b, const ProbeSummary& probes, std::size_t probe, const Box& box,
                      const ColourScale& scale) {
  const FigureStyle& s = b.style();
  for (const ProbeWord& word : probe_words(probes, box, s.tick_size)) {
    const float score =
        probes.token_score[probe * static_cast<std::size_t>(probes.n_tokens) + static_cast<std::size_t>(word.token)];
    const Colour colour = std::isnan(score) ? s.paper : scale(score);
    if (!std::isnan(score)) b.add(FillBox{word.box, colour, 1.5});
    b.text(shortened(word.label, FontRole::mono, s.tick_size, word.box.w), {word.box.x + 1, word.box.centre().y},
           s.tick_size, std::isnan(score) ? s.muted : ink_on(colour), Anchor::start, Baseline::middle, 0,
           FontRole::mono);
  }
  b.figure().panels.push_back({"text", box, 0, 0});
}

}  // namespace kvscope::views
