// kvscope-engine: speaks the protocol on its standard streams. Started by kvscope, or through a pipe by anything that
// can.

#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "engine/core/protocol/channel.h"
#include "engine/core/support/error.h"
#include "engine/core/support/std_failure.h"
#include "engine/core/support/version.h"
#include "engine/server/engine_server.h"

namespace {

constexpr char kHelp[] =
    "kvscope-engine: the part of KVScope that runs the model.\n\n  kvscope-engine              use the engine "
    "protocol on standard input and output\n  kvscope-engine --help       print this text\n  kvscope-engine "
    "--version    print the version\n\nkvscope starts it, also on another machine: kvscope --engine \"ssh HOST "
    "kvscope-engine\".\nEnvironment: CUDA_VISIBLE_DEVICES chooses devices; OMP_NUM_THREADS limits threads on the "
    "CPU,\nKVSCOPE_THREADS limits those of KVScope's kernels only;\nKVSCOPE_ENGINE_CRASH_AT_TOKEN=N aborts at the "
    "N-th new token of a run (for tests).\n";

/// Moves the real standard output out of reach: whatever a library prints goes to standard error, not into the
/// messages.
int take_stdout() {
  // Not for a scorer over a pipe: what it starts may live on, and the client would wait for the end of the messages.
  const int private_fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  dup2(STDERR_FILENO, STDOUT_FILENO);
  return private_fd;
}

/// OpenMP's threads wait by spinning unless its library is told otherwise before it is loaded: on a machine that does
/// anything else beside, a product then takes a time slice instead of microseconds. So this program starts itself once
/// more, with the word in its environment (0.2 s; whoever starts it can save them by setting it).
///
/// And the math library may not choose its number of threads by the load: another split is another rounding, and the same
/// input must give the same bytes.
void settle_threads(char** argv) {
  setenv("MKL_DYNAMIC", "FALSE", 0);
  if (std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  setenv("OMP_WAIT_POLICY", "passive", 1);
  execv("/proc/self/exe", argv);  // if this fails, it is only slower
}

/// Facts of a long prompt take tens of megabytes, again and again. Memory that goes back to the system each time has to be
/// cleared before its next use: 2,048 tokens of Qwen3-8B's shape then take 24 ms to note, not 8.
void keep_freed_memory() {
  mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the most that it can be
  mallopt(M_TRIM_THRESHOLD, 512 << 20);
}

int serve() {
  std::signal(SIGPIPE, SIG_IGN);
  keep_freed_memory();
  kvscope::Channel channel(STDIN_FILENO, take_stdout());
  // Never destroyed: the client may go in the middle of an answer while the reader still waits for its next word, and
  // only _exit ends that.
  auto* server = new kvscope::engine::EngineServer(channel);
  int code = static_cast<int>(kvscope::ExitCode::resource);
  try {
    code = server->serve();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", kvscope::error_of(error).what());
  }
  std::fflush(nullptr);
  _exit(code);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--help") == 0) {
    std::fputs(kHelp, stdout);
    return 0;
  }
  if (argc == 2 && std::strcmp(argv[1], "--version") == 0) {
    std::printf("kvscope-engine %s (%s)\n", std::string(kvscope::version()).c_str(),
                std::string(kvscope::git_revision()).c_str());
    return 0;
  }
  if (argc > 1) {
    std::fprintf(stderr, "error: %s: unknown argument; hint: kvscope-engine --help\n",
                 kvscope::escape_for_terminal(argv[1]).c_str());
    return 1;
  }
  if (isatty(STDIN_FILENO) || isatty(STDOUT_FILENO)) {
    std::fputs(
        "kvscope-engine uses a binary protocol and is not meant for a terminal.\nStart kvscope instead (or see "
        "kvscope-engine --help).\n",
        stderr);
    return 1;
  }
  settle_threads(argv);
  return serve();
}
