#include "app/window/palette_cut.h"

#include <algorithm>
#include <array>

namespace kvscope::app {
namespace {

struct Counted {
  std::uint32_t colour;
  std::int64_t n;  // pixels
};

int channel(std::uint32_t colour, int which) { return static_cast<int>(colour >> (16 - 8 * which) & 255); }

/// Colours [begin, end) of a list, and the channel in which they differ most.
struct Box {
  std::size_t begin, end;
  int widest = 0, width = 0;
};

Box box_of(std::span<const Counted> colours, std::size_t begin, std::size_t end) {
  Box box{begin, end};
  for (int which = 0; which < 3; ++which) {
    const auto [low, high] = std::ranges::minmax(colours.subspan(begin, end - begin), {},
                                                 [&](const Counted& one) { return channel(one.colour, which); });
    const int width = channel(high.colour, which) - channel(low.colour, which);
    if (width > box.width) box.widest = which, box.width = width;
  }
  return box;
}

/// Where half of the pixels are on each side, and a colour at least.
std::size_t median(std::span<const Counted> colours, const Box& box) {
  std::int64_t all = 0, before = 0;
  for (std::size_t i = box.begin; i < box.end; ++i) all += colours[i].n;
  std::size_t at = box.begin;
  while (at + 1 < box.end && 2 * (before += colours[at].n) < all) ++at;
  return std::clamp(at + 1, box.begin + 1, box.end - 1);
}

std::uint32_t mean(std::span<const Counted> colours) {
  std::array<std::int64_t, 3> sums{};
  std::int64_t n = 0;
  for (const Counted& one : colours) {
    n += one.n;
    for (int which = 0; which < 3; ++which) sums[static_cast<std::size_t>(which)] += one.n * channel(one.colour, which);
  }
  std::uint32_t colour = 0;
  for (const std::int64_t sum : sums) colour = colour << 8 | static_cast<std::uint32_t>((2 * sum + n) / (2 * n));
  return colour;
}

}  // namespace

PaletteCut::PaletteCut(std::span<const std::uint32_t> pixels, int most) {
  std::unordered_map<std::uint32_t, std::int64_t> counts;
  for (std::size_t i = 0, next; i < pixels.size(); i = next) {  // runs of one colour are long
    for (next = i + 1; next < pixels.size() && pixels[next] == pixels[i];) ++next;
    counts[pixels[i]] += static_cast<std::int64_t>(next - i);
  }
  std::vector<Counted> colours;
  for (const auto& [colour, n] : counts) colours.push_back({colour, n});
  std::ranges::sort(colours, {}, &Counted::colour);  // the same pixels, the same bytes
  std::vector<Box> boxes;
  if (!colours.empty()) boxes.push_back(box_of(colours, 0, colours.size()));
  while (std::ssize(boxes) < most) {
    const auto widest = std::ranges::max_element(boxes, {}, &Box::width);
    if (widest == boxes.end() || widest->width == 0) break;
    const Box box = *widest;
    std::ranges::stable_sort(colours.begin() + static_cast<std::ptrdiff_t>(box.begin),
                             colours.begin() + static_cast<std::ptrdiff_t>(box.end), {},
                             [&](const Counted& one) { return channel(one.colour, box.widest); });
    const std::size_t middle = median(colours, box);
    *widest = box_of(colours, box.begin, middle);
    boxes.push_back(box_of(colours, middle, box.end));
  }
  for (const Box& box : boxes) {
    const std::span<const Counted> inside = std::span(colours).subspan(box.begin, box.end - box.begin);
    for (const Counted& one : inside) index_[one.colour] = static_cast<unsigned char>(colours_.size());
    colours_.push_back(mean(inside));
  }
}

}  // namespace kvscope::app
