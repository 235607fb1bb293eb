// kvscope-fake-scorer keys|hidden|ahead CHANNEL [FAULT FRAME]
//
//     keys     the score of a token is a channel of its key; hidden: of what enters attention, the same for all heads
//     ahead    the score of a token is the channel of the token behind it: known two tokens late
//     FAULT    at the FRAME-th frame that asks for scores, 0 instead of the greeting:
//              die, hang, flood (an answer without end), more (one byte too many), nan, noise (text)
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace {

struct Shape {
  int n_kv_heads, head_dim, hidden_size;
};

bool read_words(std::uint32_t* words, std::size_t n) { return std::fread(words, 4, n, stdin) == n; }

void fail(const std::string& fault) {
  if (fault == "die") {
    std::fputs("a first line\nValueError: the scorer broke\n\n", stderr);
    std::exit(3);
  }
  if (fault == "hang") ::pause();
  const std::string bytes(1 << 16, 'x');
  if (fault == "noise") return void(std::puts("loading the weights ..."));  // the greeting comes in the same bytes
  while (fault == "flood" && std::fwrite(bytes.data(), 1, bytes.size(), stdout) > 0) {
  }
  std::fflush(stdout);
}

/// [n_kv_heads, n] of a layer's tensor: [n_kv_heads, n, head_dim] or [n, hidden_size].
std::vector<float> channel_of(const std::vector<float>& values, const Shape& shape, std::uint32_t n, bool hidden,
                              int channel) {
  std::vector<float> scores;
  for (int head = 0; head < shape.n_kv_heads; ++head) {
    for (std::uint32_t i = 0; i < n; ++i) {
      const std::size_t row = hidden ? i : static_cast<std::size_t>(head) * n + i;
      scores.push_back(values[row * static_cast<std::size_t>(hidden ? shape.hidden_size : shape.head_dim) +
                              static_cast<std::size_t>(channel)]);
    }
  }
  return scores;
}

/// Float32 alone: tests have models of that type.
bool answer(const Shape& shape, bool hidden, int channel, const std::string& fault) {
  std::array<std::uint32_t, 6> frame{};
  if (!read_words(frame.data(), frame.size())) return false;
  const auto [kind, sequence, first, n, n_layers, reserved] = frame;
  std::vector<std::uint32_t> layers(n_layers);
  if (!read_words(layers.data(), n_layers)) return false;
  if (kind != 1) return true;
  if (fault == "die" || fault == "hang" || fault == "flood" || fault == "noise") fail(fault);
  const std::size_t size = static_cast<std::size_t>(n) *
                           static_cast<std::size_t>(hidden ? shape.hidden_size : shape.n_kv_heads * shape.head_dim);
  for (std::uint32_t i = 0; i < n_layers; ++i) {
    std::vector<float> values(size);
    if (std::fread(values.data(), 4, size, stdin) != size) return false;
    std::vector<float> scores = channel_of(values, shape, n, hidden, channel);
    if (fault == "nan") scores[scores.size() / 2] = std::nanf("");
    std::fwrite(scores.data(), 4, scores.size(), stdout);
  }
  if (fault == "more") std::fputc('x', stdout);
  return std::fflush(stdout) == 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 && argc != 5) return 1;
  const std::string reads = argv[1], fault = argc == 5 ? argv[3] : "";
  const int at = argc == 5 ? std::atoi(argv[4]) : -1;
  std::string line;
  std::getline(std::cin, line);
  const nlohmann::json greeting = nlohmann::json::parse(line);
  const Shape shape{greeting.at("n_kv_heads"), greeting.at("head_dim"), greeting.at("hidden_size")};
  if (at == 0) fail(fault);
  const nlohmann::json offer = {{"kvscope_scorer", 1},
                                {"name", "fake"},
                                {"reads", {reads == "hidden" ? "hidden" : "keys"}},
                                {"delay", reads == "ahead" ? 2 : 1}};
  std::puts(offer.dump().c_str());
  std::fflush(stdout);
  int frame = 0;
  while (answer(shape, reads == "hidden", std::atoi(argv[2]), ++frame == at ? fault : "")) {
  }
  return 0;
}
