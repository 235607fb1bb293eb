#pragma once
// Options of every command that needs an engine.

#include <optional>

#include "app/cli/arguments.h"
#include "app/engine_client/engine_job.h"

namespace kvscope::app {

inline constexpr OptionSpec kEngineOption = {
    "engine", "COMMAND", "start this instead of kvscope-engine: \"ssh gpu01 kvscope-engine\", or hf for transformers"};
inline constexpr OptionSpec kGateOption = {
    "gate", "PATH|NAME", "scorer, gate, head directory (kvscope gates) or pipe:COMMAND; repeatable", true};
inline constexpr OptionSpec kOracleOption = {"oracle", "SPEC",
                                             "mass=mean|sum|rms|max,weight=,... (docs/explanation/oracle.md)"};
inline constexpr OptionSpec kOutputErrorOption = {"output-error", "",
                                                  "measure how eviction changes the attention output (one more pass)"};
inline constexpr OptionSpec kChunkOption = {"chunk", "N",
                                            "the policy acts after every N tokens, from the text's start (1)"};
inline constexpr OptionSpec kDeviceOption = {"device", "auto|cpu|cuda|cuda:N", "where to compute (auto)"};
inline constexpr OptionSpec kDevicesOption = {"device", "NAME",
                                              "auto, cpu, cuda, cuda:N; several: cuda:0,cuda:1 or cuda:all (auto)"};
inline constexpr OptionSpec kDtypeOption = {"dtype", "auto|float32|bfloat16",
                                            "number type of weights and cache (auto)"};
inline constexpr OptionSpec kQuietOption = {"quiet", "", "no progress on stderr"};

/// --engine, --device, --dtype, --gate and --quiet. A stdout that takes no more cancels as Ctrl+C does. Throws Error (usage).
EngineJobOptions engine_options(const Arguments& arguments);

}  // namespace kvscope::app
