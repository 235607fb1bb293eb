// kvscope import: a recording of another program's run as a trace.

#include <cstdio>
#include <filesystem>

#include "app/cli/arguments.h"
#include "app/cli/array_recording.h"
#include "app/cli/engine_options.h"
#include "app/cli/output.h"
#include "app/support/interrupt.h"
#include "engine/core/protocol/recording.h"
#include "engine/core/support/error.h"
#include "engine/core/support/file.h"
#include "engine/core/trace/trace_file.h"

namespace kvscope::app {
namespace {

constexpr OptionSpec kImportOptions[] = {
    {"o", "FILE", "the trace to write (HDF5)"},
    {"overwrite", "", "overwrite FILE if it exists"},
    kQuietOption,
    {"json", "", "one object: trace, recorder, policy, tokens, layers, kv_heads"},
};

int import_recording(const Arguments& arguments) {
  if (!arguments.has("o")) usage_error("kvscope import", "no -o FILE", "", "give the trace to write");
  const std::filesystem::path from = arguments.positionals()[0];
  const std::filesystem::path inputs[] = {from};
  const std::filesystem::path to = writable_target(arguments.text("o"), arguments.has("overwrite"), inputs,
                                                   "choose another name or give --overwrite");
  Progress progress(arguments.has("quiet"));
  const auto show = [&](std::uint64_t read, std::uint64_t size) {
    catch_interrupts();
    if (interrupted()) throw Error({.code = ExitCode::cancelled, .found = "cancelled; nothing was written"});
    progress.update("import", static_cast<double>(read), static_cast<double>(size));
  };
  const RunRecord run =
      from.extension() == ".npz" ? read_array_recording(from, show) : protocol::read_recording(from, show);
  save_trace(to, run, arguments.has("overwrite"));
  progress.clear();
  if (arguments.has("json")) {
    write_json_line(nlohmann::ordered_json{{"trace", arguments.text("o")},
                                           {"recorder", run.recorder},
                                           {"policy", run.policy.to_string()},
                                           {"tokens", run.n_tokens()},
                                           {"layers", run.model.n_layers},
                                           {"kv_heads", run.model.n_kv_heads}});
  } else if (!arguments.has("quiet")) {
    std::fprintf(stderr, "%s: %d tokens, %d layers of %d KV heads, recorded by %s\n",
                 escape_for_terminal(arguments.text("o")).c_str(), run.n_tokens(), run.model.n_layers,
                 run.model.n_kv_heads, escape_for_terminal(run.recorder).c_str());
  }
  return 0;
}

}  // namespace

extern const CommandSpec import_command = {
    "import",
    "RECORDING -o FILE",
    "write a recording of another program's run as a trace",
    "A recording contains one run of any program: tokens, when each token left each head's cache, and as far as they are "
    "known log-probabilities, scores and attention. It has messages (.kvs) or arrays (.npz, which needs Python with NumPy). "
    "The Python package kvscope writes both from your own loop. Every message is checked as one from an engine is. The trace "
    "names the program that recorded the run.",
    "  kvscope import mine.kvs -o mine.h5\n  kvscope import mine.npz -o mine.h5",
    {1, 1},
    kImportOptions,
    import_recording};

}  // namespace kvscope::app
