#pragma once
// Ctrl+C, SIGTERM and SIGHUP as a flag that long work asks for.

namespace kvscope::app {

/// From now on the first of these signals sets the flag; a second one ends the process as if there was no handler.
void catch_interrupts();
bool interrupted();

}  // namespace kvscope::app
