// Trains from a recipe without the rest of the engine:
//
//     train_probe '{"recipe": "samples/recipes/smoke.json", "data": "CORPUS", "output": "OUT", "phase": "all"}'
//
// The argument is the JSON that `kvscope train` sends. Lines on stderr as they come, the result on stdout.

#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>

#include "engine/core/support/error.h"
#include "engine/jobs/job.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: train_probe '{\"recipe\": ..., \"data\": ..., \"output\": ...}'\n");
    return 1;
  }
  kvscope::engine::JobContext context;
  context.row = [](const std::string& text, const nlohmann::json&) { std::fprintf(stderr, "%s\n", text.c_str()); };
  try {
    const auto result = kvscope::engine::train_job(nlohmann::json::parse(argv[1]), context);
    std::printf("%s\n", result.dump(2).c_str());
    return 0;
  } catch (const kvscope::Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 4;
  }
}
