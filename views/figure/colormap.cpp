#include "views/figure/colormap.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "engine/core/support/error.h"
#include "views/figure/colormap_tables.h"

namespace kvscope::views {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"viridis", "cividis", "diverging", "grey"};

constexpr Colour from_hex(std::uint32_t rgb) {
  return {static_cast<std::uint8_t>(rgb >> 16), static_cast<std::uint8_t>(rgb >> 8), static_cast<std::uint8_t>(rgb),
          255};
}

// Blue - white - orange: hues that stay apart for every kind of colour vision; lightness falls alike on both sides.
constexpr std::array<std::uint32_t, 7> kDiverging = {0x0b4a82, 0x3f86bd, 0x9cc6e3, 0xf6f6f4,
                                                     0xf6c08a, 0xdd832f, 0x8f4700};

Colour sample_stops(std::span<const std::uint32_t> stops, double x) {
  const double at = x * (stops.size() - 1);
  const std::size_t i = std::min<std::size_t>(static_cast<std::size_t>(at), stops.size() - 2);
  return mix(from_hex(stops[i]), from_hex(stops[i + 1]), at - i);
}

double luminance(Colour c) {
  const auto linear = [](std::uint8_t v) {
    const double s = v / 255.0;
    return s <= 0.03928 ? s / 12.92 : std::pow((s + 0.055) / 1.055, 2.4);
  };
  return 0.2126 * linear(c.r) + 0.7152 * linear(c.g) + 0.0722 * linear(c.b);
}

}  // namespace

std::string_view to_string(Colormap map) { return kNames[static_cast<std::size_t>(map)]; }

Colormap parse_colormap(std::string_view name) {
  const auto it = std::find(kNames.begin(), kNames.end(), name);
  if (it != kNames.end()) return static_cast<Colormap>(it - kNames.begin());
  std::string all;
  for (std::string_view n : kNames) all += (all.empty() ? "" : ", ") + std::string(n);
  throw Error({ExitCode::usage, "", "colormap", "\"" + std::string(name) + "\"", "one of " + all, ""});
}

Colour mix(Colour a, Colour b, double t) {
  const auto channel = [t](std::uint8_t x, std::uint8_t y) {
    return static_cast<std::uint8_t>(std::lround(x + (y - x) * t));
  };
  return {channel(a.r, b.r), channel(a.g, b.g), channel(a.b, b.b), channel(a.a, b.a)};
}

Colour sample(Colormap map, double x) {
  if (std::isnan(x)) return {0, 0, 0, 0};
  x = std::clamp(x, 0.0, 1.0);
  const auto entry = static_cast<std::size_t>(std::min(255.0, std::floor(x * 256)));
  switch (map) {
    case Colormap::viridis:
      return from_hex(kViridis[entry]);
    case Colormap::cividis:
      return from_hex(kCividis[entry]);
    case Colormap::diverging:
      return sample_stops(kDiverging, x);
    case Colormap::grey:
      break;
  }
  return mix(from_hex(0xf4f4f4), from_hex(0x1a1a1a), x);
}

Colour ColourScale::operator()(double value) const {
  if (std::isnan(value)) return {0, 0, 0, 0};
  if (steps > 1) {
    // Classes centred on lo ... hi: with lo = 0, hi = H, steps = H + 1 every count has its own swatch, ends at both
    // ends.
    const double k = std::clamp(std::round((value - lo) / (hi - lo) * (steps - 1)), 0.0, steps - 1.0);
    return sample(map, k / (steps - 1));
  }
  return sample(map, hi > lo ? (value - lo) / (hi - lo) : 0.5);
}

double contrast(Colour a, Colour b) {
  const double la = luminance(a), lb = luminance(b);
  return (std::max(la, lb) + 0.05) / (std::min(la, lb) + 0.05);
}

Colour ink_on(Colour background) {
  const Colour black{17, 17, 17, 255}, white{255, 255, 255, 255};
  return contrast(black, background) >= contrast(white, background) ? black : white;
}

}  // namespace kvscope::views
