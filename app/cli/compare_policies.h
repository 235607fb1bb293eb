#pragma once
// The second half of kvscope compare: TRACE --policy SPEC.

#include "app/cli/arguments.h"

namespace kvscope::app {

/// Has the model score the tokens of TRACE's runs under their own policy and under --policy. Returns the exit code.
int compare_policies(const Arguments& arguments);

}  // namespace kvscope::app
