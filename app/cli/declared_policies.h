#pragma once
// Policies that an engine declares, where a command line names one.

#include "app/cli/arguments.h"

namespace kvscope::app {

/// Starts the engine of --engine and asks what it declares, if an option or a sweep's recipe names a policy with a dot: its text
/// can only be read against that. What a model adds is asked with the model of the first positional. The command goes on with
/// this engine (Arguments::started_engine()). Throws Error, also for an engine that does not serve the command.
void learn_policies(Arguments& arguments);

}  // namespace kvscope::app
