// A whole decode step on the CPU by the kernels alone, with random weights of the sample model's shape: 64 tokens from
// position 64 on, dense, as llama-bench would time them. Prints, asserts nothing:
//   kernel_tests 'decode step on CPU: all of it'
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdio>

#include "kernels/admit_step.h"
#include "kernels/cpu/gemv.h"
#include "kernels/decode_attention.h"
#include "kernels/embed_row.h"
#include "kernels/logit_summary.h"
#include "kernels/project.h"
#include "tests/kernels/cache_fixture.h"
#include "tests/kernels/numbers.h"

using namespace kvscope::kernels;
using namespace kvscope::test;

namespace {

constexpr int kLayers = 6, kHidden = 256, kFf = 768, kHeads = 8, kKvHeads = 4, kDim = 64, kVocabulary = 4096;
constexpr int kFirst = 64, kTokens = 64;

class Model {
 public:
  explicit Model(DType dtype) : dtype_(dtype), memory_(Backend::cpu) {
    head_ = weights(kVocabulary * kHidden);
    hidden_norm_ = memory_.put(pack(std::vector<float>(kHidden, 1.0f), dtype));
    head_norm_ = memory_.put(pack(std::vector<float>(kDim, 1.0f), dtype));
    inv_freq_ = memory_.put(std::vector<float>(kDim / 2, 0.01f));
    for (int i = 0; i < kLayers; ++i) {
      HostCache cache =
          empty_cache(std::vector<int>(kKvHeads, kFirst + kTokens), kDim, (kFirst + kTokens) / 16, dtype, i);
      cache.k_pool = random_normal(cache.k_pool.size(), 1);
      cache.v_pool = random_normal(cache.v_pool.size(), 2);
      std::fill(cache.slot_position.begin(), cache.slot_position.end(), 0);
      layers_.push_back({weights(kHidden * (kHeads + 2 * kKvHeads) * kDim), weights(kHidden * kHeads * kDim),
                         weights(2 * kHidden * kFf), weights(kHidden * kFf), upload(cache, memory_)});
    }
  }

  void begin() {
    for (Layer& layer : layers_) std::fill_n(layer.cache.n_slots, kKvHeads, kFirst);
    position_ = kFirst;
  }

  /// Greedy: the next token is the likeliest.
  void step() {
    embed_row({head_, &id_, x_, kVocabulary, kHidden, dtype_}, {});
    for (Layer& layer : layers_) {
      project(layer.qkv, true, x_, wide_, (kHeads + 2 * kKvHeads) * kDim, kHidden, Epilogue::store);
      admit_step({.cache = layer.cache,
                  .qkv = wide_,
                  .q_norm = head_norm_,
                  .k_norm = head_norm_,
                  .inv_freq = inv_freq_,
                  .position = &position_,
                  .q = q_,
                  .n_heads = kHeads,
                  .decision = decision_},
                 {});
      decode_attention({.cache = layer.cache, .q = q_, .o = o_, .lse = nullptr, .n_heads = kHeads, .scale = 0.125f},
                       {});
      project(layer.o, false, o_, x_, kHidden, kHeads * kDim, Epilogue::add);
      project(layer.gate_up, true, x_, wide_, 2 * kFf, kHidden, Epilogue::swiglu);
      project(layer.down, false, wide_, x_, kHidden, kFf, Epilogue::add);
    }
    project(head_, true, x_, logits_, kVocabulary, kHidden, Epilogue::logits);
    LogitSummary summary;
    logit_summary({.logits = logits_, .out = &summary, .n = kVocabulary}, {});
    id_ = summary.best;
    ++position_;
  }

 private:
  struct Layer {
    const void *qkv, *o, *gate_up, *down;
    SlotCacheView cache;
  };

  const void* weights(std::size_t n) { return memory_.put(pack(random_normal(n, 3, 0.02f), dtype_)); }

  void project(const void* weight, bool has_norm, const void* x, void* out, int n_rows, int dim, Epilogue epilogue) {
    kvscope::kernels::project({.weight = weight,
                               .x = x,
                               .norm_weight = has_norm ? hidden_norm_ : nullptr,
                               .out = out,
                               .n_rows = n_rows,
                               .dim = dim,
                               .eps = 1e-6f,
                               .epilogue = epilogue,
                               .dtype = dtype_},
                              {});
  }

  DType dtype_;
  Memory memory_;
  const void *head_, *hidden_norm_, *head_norm_;
  const float* inv_freq_;
  std::vector<Layer> layers_;
  std::int32_t id_ = 1, position_ = 0;
  RetainDecision decision_[kKvHeads];
  float x_[kHidden], wide_[2 * kFf], q_[kHeads * kDim], o_[kHeads * kDim], logits_[kVocabulary];
};

}  // namespace

TEST_CASE("decode step on CPU: all of it, sample model", "[.bench]") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const auto model = std::make_unique<Model>(dtype);
    std::vector<double> ms;  // a token, over kTokens of them
    for (int round = 0; round < 60; ++round) {
      model->begin();
      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < kTokens; ++i) model->step();
      ms.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count() /
                   kTokens);
    }
    std::sort(ms.begin(), ms.end());
    std::printf("%s, %s: %.3f ms a token at best, %.3f in the median of 60 answers of %d tokens\n",
                cpu::best_gemv().name, dtype == DType::f32 ? "f32" : "bf16", ms[0], ms[30], kTokens);
  }
}
