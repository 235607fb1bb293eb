#pragma once
// Long jobs of the engine on the command line.

#include <functional>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "app/cli/arguments.h"

namespace kvscope::app {

// Every job answers with rows and a result.
inline constexpr OptionSpec kRowsJsonOption = {"json", "", "one object per row, then the result"};

struct JobEnd {
  int code = 0;  // exit code
  nlohmann::json result;
};

/// Runs the job and prints its rows as they come; `take` may keep one from being printed by returning true.
JobEnd run_job(const Arguments& arguments, const std::string& name, const nlohmann::json& args,
               const std::function<bool(const nlohmann::json& row)>& take = {});
/// The last of --json; without it, the table that some results have.
void print_result(const Arguments& arguments, const nlohmann::json& result);

/// The options that were given, under their names: "--max-tokens 5" is {"max_tokens": 5}. Numbers go as numbers.
nlohmann::json given_options(const Arguments& arguments, std::initializer_list<const char*> names);

}  // namespace kvscope::app
