#include "app/cli/remote_traces.h"

#include <cstdint>
#include <string>

#include "app/catalog/remote_file.h"
#include "app/engine_client/progress.h"
#include "app/support/interrupt.h"
#include "engine/core/support/error.h"

namespace kvscope::app {

void copy_remote_traces(Arguments& arguments) {
  for (std::size_t i = 0; i < arguments.positionals().size(); ++i) {
    const auto file = remote_file(arguments.positionals()[i]);
    if (!file || !file->is_trace()) continue;
    // The merged trace may point into its shards, and a copy may be removed.
    if (arguments.spec().name == "merge")
      usage_error(file->word, "a shard on another machine", "shards on this machine",
                  "copy them into one folder first");
    Progress progress(arguments.has("quiet"));
    catch_interrupts();
    const auto show = [&](std::uint64_t done, std::uint64_t total) {
      const bool is_large = total >= 10'000'000;
      const double unit = is_large ? 1e6 : 1e3;
      if (total == 0) {
        progress.update("connecting to " + file->host, 0, 0);
      } else {
        progress.update("copying " + file->word, static_cast<double>(done) / unit, static_cast<double>(total) / unit,
                        is_large ? "MB" : "kB");
      }
      return !interrupted();
    };
    arguments.set_positional(i, copy_remote(*file, show).string());
    release_interrupts();
  }
}

}  // namespace kvscope::app
