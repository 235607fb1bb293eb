#pragma once
#include "app/cli/arguments.h"

namespace kvscope::app {

/// `doctor --conformance`: the suite for engines, a line per check as it ends. Returns the exit code.
int doctor_conformance(const Arguments& arguments);

}  // namespace kvscope::app
