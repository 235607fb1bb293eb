#include "engine/model/formula_weights.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "engine/core/support/hash.h"

namespace kvscope::engine {
namespace {

// As KVSCOPE_CLONES (kernels/cpu/clones.h) and for AVX-512, which multiplies 64-bit words; several elements at once
// take a third of the time.
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define KVSCOPE_FORMULA_CLONES \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"), optimize("O3")))
#else
#define KVSCOPE_FORMULA_CLONES
#endif

constexpr std::int64_t kPartOfThread = 1 << 20;
constexpr std::int64_t kPartOfDevice = 1 << 24;  // elements at a time: 128 MiB of 64-bit words
constexpr std::int64_t kPartInCache = 1024;

/// scale * u of elements start, start + 1, ... No clone may round otherwise: 2^-23 bits - 1 is exact, fused or not.
KVSCOPE_FORMULA_CLONES void draw(std::uint64_t start, std::int64_t n, float scale, float* out) {
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint64_t bits = split_mix(start + static_cast<std::uint64_t>(i)) >> 40;
    // Through a signed number: processors have no instruction for unsigned ones.
    out[i] = scale * (static_cast<float>(static_cast<std::int32_t>(bits)) * 0x1p-23f - 1.0f);
  }
}

/// kernels::to_bfloat16() of finite numbers.
KVSCOPE_FORMULA_CLONES void round_all(const float* from, std::int64_t n, std::uint16_t* out) {
  for (std::int64_t i = 0; i < n; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(from[i]);
    out[i] = static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
  }
}

void fill_on_cpu(const at::Tensor& out, std::uint64_t start, float scale) {
  const bool is_float = out.scalar_type() == at::kFloat;
  auto* floats = is_float ? out.data_ptr<float>() : nullptr;
  auto* halves = is_float ? nullptr : reinterpret_cast<std::uint16_t*>(out.data_ptr<at::BFloat16>());
  at::parallel_for(0, out.numel(), kPartOfThread, [=](std::int64_t begin, std::int64_t end) {
    if (floats != nullptr) return draw(start + static_cast<std::uint64_t>(begin), end - begin, scale, floats + begin);
    float part[kPartInCache];
    for (std::int64_t i = begin; i < end; i += kPartInCache) {
      const std::int64_t n = std::min(kPartInCache, end - i);
      draw(start + static_cast<std::uint64_t>(i), n, scale, part);
      round_all(part, n, halves + i);
    }
  });
}

/// x >> bits of words without a sign.
at::Tensor shifted(const at::Tensor& x, int bits) {
  return at::bitwise_right_shift(x, bits).bitwise_and_((std::int64_t{1} << (64 - bits)) - 1);
}

}  // namespace

at::Tensor formula_elements(std::uint64_t start, std::int64_t begin, std::int64_t n, float scale, c10::Device device) {
  constexpr std::uint64_t kIncrement = 0x9e3779b97f4a7c15u;  // of split_mix(), as its factors
  const auto first = static_cast<std::int64_t>(start + static_cast<std::uint64_t>(begin) + kIncrement);
  at::Tensor x = at::arange(n, at::TensorOptions().dtype(at::kLong).device(device)).add_(first);
  x = x.bitwise_xor_(shifted(x, 30)).mul_(static_cast<std::int64_t>(0xbf58476d1ce4e5b9u));
  x = x.bitwise_xor_(shifted(x, 27)).mul_(static_cast<std::int64_t>(0x94d049bb133111ebu));
  x = x.bitwise_xor_(shifted(x, 31));
  return shifted(x, 40).to(at::kFloat).mul_(0x1p-23).sub_(1).mul_(scale);
}

void fill_by_formula(const at::Tensor& out, const std::string& name, std::uint64_t seed) {
  const std::uint64_t start = fnv1a64(name) + seed;
  const std::int64_t n = out.numel();
  if (out.dim() == 1) {  // few; 1 + u / 10 is rounded twice, which a device may not do
    at::Tensor host = at::empty(out.sizes(), at::kFloat);
    const bool is_norm = !name.ends_with("bias");
    float* data = host.data_ptr<float>();
    draw(start, n, is_norm ? 0.1f : 1.0f, data);
    if (is_norm) std::for_each(data, data + n, [](float& value) { value += 1; });
    out.copy_(host);
    return;
  }
  const bool is_embedding = name == "model.embed_tokens.weight";
  const float scale = is_embedding ? 1.0f : static_cast<float>(std::sqrt(3.0 / static_cast<double>(out.size(-1))));
  if (out.device().is_cpu()) return fill_on_cpu(out, start, scale);
  const at::Tensor flat = out.view({-1});
  for (std::int64_t begin = 0; begin < n; begin += kPartOfDevice) {
    const std::int64_t part = std::min(kPartOfDevice, n - begin);
    flat.narrow(0, begin, part).copy_(formula_elements(start, begin, part, scale, out.device()));
  }
}

TensorSource formula_source(std::uint64_t seed) {
  return [seed](const std::string& name, const std::vector<std::int64_t>& shape) {
    at::Tensor out = at::empty(shape, at::kFloat);
    fill_by_formula(out, name, seed);
    return out;
  };
}

void FormulaReader::read(const std::vector<TensorTarget>& targets) {
  for (const TensorTarget& target : targets) fill_by_formula(target.to, target.name, seed_);
}

}  // namespace kvscope::engine
