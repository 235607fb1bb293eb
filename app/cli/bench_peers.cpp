#include "app/cli/bench_peers.h"

#include "app/support/python.h"
#include "engine/core/support/child_process.h"
#include "engine/core/support/error.h"

namespace kvscope::app {

std::span<const Peer> bench_peers() {
  static constexpr Peer kPeers[] = {
      {"transformers",
       "python3 engine/jobs/bench/peer_transformers.py --shape qwen3-8b --context 1024 --compile --prefill 32768"},
      {"torch", "python3 engine/jobs/bench/peer_attention.py --shape qwen3-8b --context 16384 --batch 16"},
      {"flashinfer", "python3 engine/jobs/bench/peer_attention.py --shape qwen3-8b --context 16384 --batch 16"},
      {"llama_cpp", "python3 engine/jobs/bench/peer_llama_cpp.py --shape sample --dtype bf16 --threads 2"},
  };
  return kPeers;
}

bool is_importable(const std::string& module) {
  try {
    ChildProcess child = ChildProcess::start(
        {python_program(), "-c", "import importlib.util, sys; sys.exit(importlib.util.find_spec(sys.argv[1]) is None)",
         module});
    return child.wait(std::chrono::seconds(20)) == 0;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace kvscope::app
