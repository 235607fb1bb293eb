#pragma once
// Ctrl+C, SIGTERM and SIGHUP. Whatever a command is doing, each ends it with 128 + the signal's number, as a shell says
// it: 130, 143, 129.

namespace kvscope::app {

/// From now on the first of these signals ends the process at once, with a line. To be called first in main(). A SIGHUP
/// that is ignored (nohup) stays so.
void end_on_interrupts();
/// From now on the first one sets a flag, for work that has something to finish; a second one ends the process.
void catch_interrupts();
/// From now on a signal ends the process at once again.
void release_interrupts();
bool interrupted();
/// From now on the end of the process takes at most so many seconds, whatever the disk, a thread or the work that should see
/// the flag may do: from the first signal on, or from begin_end().
void limit_end(unsigned seconds);
void begin_end();
/// What to exit with: `code`, but for work that was interrupted 128 + the signal's number. To be called last: from then on
/// a signal ends the process at once again.
int exit_code_of(int code);

}  // namespace kvscope::app
