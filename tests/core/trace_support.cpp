#include "tests/core/trace_support.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <limits>
#include <stdexcept>

#include "engine/core/record/run_fields.h"
#include "engine/core/support/random.h"

extern char** environ;

namespace kvscope::test {

ScratchFolder::ScratchFolder(bool in_memory) {
  const bool shm = in_memory && ::access("/dev/shm", W_OK | X_OK) == 0;
  const auto parent = shm ? std::filesystem::path("/dev/shm") : std::filesystem::temp_directory_path();
  std::string name = (parent / "kvscope-trace-XXXXXX").string();
  if (!::mkdtemp(name.data())) throw std::runtime_error("cannot make " + name);
  path_ = name;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

pid_t start_process(const std::vector<std::string>& arguments, int* output, bool quiet) {
  int ends[2] = {-1, -1};
  if (output && ::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (output) {
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  } else {
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  }
  if (quiet) posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::vector<char*> argv;
  for (const auto& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  pid_t pid = -1;
  const int error = ::posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (output) {
    ::close(ends[1]);
    *output = ends[0];
  }
  if (error != 0) throw std::runtime_error("cannot start " + arguments[0]);
  return pid;
}

int wait_process(pid_t pid) {
  int status = -1;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

bool succeeds(const std::vector<std::string>& arguments, bool quiet) {
  try {
    const int status = wait_process(start_process(arguments, nullptr, quiet));
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  } catch (const std::runtime_error&) {
    return false;
  }
}

namespace {

constexpr int kLayers = 3, kHeads = 2, kPositions = 64;
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// The formula: check_trace.py has the same three lines. Series: 0 length, 1 ids, 2 logprobs, 3 piece lengths, 4 piece
/// bytes, 5 evict_at, 6 scores, 7 future mass, 8 oracle, 9 contests, 10 prompt index, 11 page reads, 12 pages, 13
/// changes, 14 damage of groups, 15 damage and 16 output of layers.
std::uint64_t cell(std::uint64_t seed, std::uint64_t series, std::uint64_t index) {
  return split_mix(seed * 1000003 + series * 500009 + index);
}

std::int32_t lifetime(int token, std::uint64_t hash) {
  if (hash % 5 < 2) return hash % 5 == 0 ? kNever : kUndecided;
  return token + 1 + static_cast<std::int32_t>(hash % static_cast<std::uint64_t>(kPositions - token));
}

/// Two runs of three read pages and change their policy. Reads may be of no page.
void add_reads_and_changes(RunRecord& run, std::uint64_t seed) {
  run.oracle.look_ahead = static_cast<int>(seed % 5);
  if (seed % 2) run.scorer = {.kind = "scorer_" + std::to_string(seed), .text = "scorer " + std::to_string(seed)};
  if (seed % 3 == 1) return;
  const int n = run.n_tokens();
  for (int t = 4; t < n; ++t) {
    const auto hash = cell(seed, 11, t);
    PageRead read{t, static_cast<std::int16_t>(hash % kLayers), static_cast<std::int16_t>(hash / 8 % kHeads), {}};
    for (std::uint64_t i = 0; i < hash / 64 % 4; ++i)
      read.pages.push_back(
          static_cast<std::int32_t>(5 * i + cell(seed, 12, 4 * static_cast<std::uint64_t>(t) + i) % 5));
    run.reads.push_back(read);
  }
  for (std::uint64_t i = 0; i < 1 + cell(seed, 13, 0) % 3; ++i)
    run.changes.push_back(
        {static_cast<std::int32_t>(10 + i),
         PolicySpec::parse("streaming:sinks=2,window=" + std::to_string(4 + cell(seed, 13, 1 + i) % 9))});
}

/// One run of four.
void add_output_error(RunRecord& run, std::uint64_t seed) {
  if (seed % 4 != 3) return;
  run.output_error = OutputError(kLayers, kHeads);
  std::uint64_t kind = 14;
  visit_fields(run.output_error, [&](const char*, HeadSeries<float>& series, auto) {
    std::uint64_t i = 0;
    for (int layer = 0; layer < kLayers; ++layer)
      for (int head = 0; head < series.n_kv_heads(); ++head)
        for (int t = 0; t < run.n_tokens(); ++t, ++i) {
          const auto hash = cell(seed, kind, i);
          series.row(layer, head)
              .push_back(hash % 7 == 0 ? kNaN : static_cast<float>(hash % 4096) / (kind < 17 ? 512 : 4096));
        }
    ++kind;
  });
}

}  // namespace

RunRecord formula_run(std::uint64_t seed) {
  RunRecord run;
  run.model = {.name = "formula",
               .architecture = "Qwen3ForCausalLM",
               .n_layers = kLayers,
               .n_heads = kHeads,
               .n_kv_heads = kHeads,
               .head_dim = 64,
               .vocab_size = 4096,
               .max_positions = 64,
               .n_parameters = 1};
  const int n = 20 + static_cast<int>(cell(seed, 0, 0) % 40);
  run.policy = PolicySpec::parse("kvpop:budget=16,sinks=2,window=4");
  run.n_positions = kPositions;
  run.prompt_len = n / 2;
  run.chunk = static_cast<int>(seed % 3);
  run.sampling.seed = seed;
  run.prompt_index = static_cast<int>(cell(seed, 10, 0) % 1000);
  run.prompt_text = "prompt " + std::to_string(seed);
  run.status = RunStatus::complete;
  for (int t = 0; t < n; ++t) {
    run.ids.push_back(static_cast<std::int32_t>(cell(seed, 1, t) % 4096));
    run.logprobs.push_back(t == 0 ? kNaN : -static_cast<float>(cell(seed, 2, t) % 1000) / 64);
    std::string piece;
    for (std::uint64_t i = 0; i < cell(seed, 3, t) % 5; ++i)
      piece.push_back(static_cast<char>(cell(seed, 4, 8 * static_cast<std::uint64_t>(t) + i) % 256));
    run.pieces.push_back(piece);
  }
  run.evict_at = LifetimeMap(kLayers, kHeads);
  run.scores = run.future_mass = run.future.rms = HeadSeries<float>(kLayers, kHeads);
  for (int head = 0; head < kLayers * kHeads; ++head)
    for (int t = 0; t < n; ++t) {
      const auto i = static_cast<std::uint64_t>(head) * n + t;
      const int l = head / kHeads, h = head % kHeads;
      run.evict_at.row(l, h).push_back(lifetime(t, cell(seed, 5, i)));
      const auto score = cell(seed, 6, i);
      run.scores.row(l, h).push_back(score % 11 == 0 ? kNaN : (static_cast<float>(score % 2001) - 1000) / 128);
      run.future_mass.row(l, h).push_back(static_cast<float>(cell(seed, 7, i) % 1024) / 1024);
      run.future.rms.row(l, h).push_back(static_cast<float>(cell(seed, 8, i) % 1024) / 1024);
    }
  for (int t = 4; t < n; ++t) {
    const auto hash = cell(seed, 9, t);
    run.contests.push_back({t, static_cast<std::int16_t>(hash % kLayers), static_cast<std::int16_t>(hash / 8 % kHeads),
                            t - 4, t - static_cast<std::int32_t>(hash / 64 % 4),
                            static_cast<float>(hash / 1024 % 100) / 8, static_cast<float>(hash / 131072 % 100) / 8,
                            hash % 2 ? t - 4 : -1});
  }
  add_reads_and_changes(run, seed);
  add_output_error(run, seed);
  return run;
}

}  // namespace kvscope::test
