#pragma once
// Reading in a fork of the fuzzer: what libhdf5 does wrong ends there, what we do wrong is told, and what was reached
// counts as if it had been reached here.

#include <functional>
#include <string>

namespace kvscope::fuzz {

/// Reads in a fork. What is wrong, "" for nothing: an exception that is no Error, a report of a sanitizer or a signal
/// whose first frame of anybody is ours, 5 s of CPU, 1 GiB. A fault inside libhdf5, or 2 s in it, is not ours: counted, and
/// told when the fuzzer ends.
std::string read_in_fork(const std::function<void()>& read);

}  // namespace kvscope::fuzz
