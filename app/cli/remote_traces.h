#pragma once
// TRACE as [user@]host:path.h5, for every command that reads one.

#include "app/cli/arguments.h"

namespace kvscope::app {

/// Puts copies of this machine in the place of traces of other machines (app/catalog/remote_file.h), with progress on
/// stderr. Ctrl+C ends the copy. Throws Error.
void copy_remote_traces(Arguments& arguments);

}  // namespace kvscope::app
