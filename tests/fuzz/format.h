#pragma once
// A format that strangers' bytes come in, as the fuzzers and the replay of their corpus see it.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace kvscope::fuzz {

/// Reads bytes as the program would read them, and uses what comes of them. May throw Error.
struct Format {
  std::string name;  // of its file here and of its folder in corpus/
  void (*read)(std::string_view bytes);
};

/// Those that are linked: all in fuzz_tests, one in each fuzzer.
std::vector<Format>& formats();

/// `static const Registration registration("zip", read_zip);`
struct Registration {
  Registration(const char* name, void (*read)(std::string_view)) { formats().push_back({name, read}); }
};

/// Reads bytes that may be anything. What is wrong: "" if they were read or refused in one line with a code that says
/// whose fault it is; else what came instead.
std::string read_anything(const Format& format, std::string_view bytes);

/// A folder of this process in memory, made at first use: reading costs no disk.
const std::filesystem::path& memory_folder();
/// Puts bytes in it under a name and gives the path.
std::filesystem::path put(const std::string& name, std::string_view bytes);
/// Takes the bytes up to the first `mark` off the front, or all of them.
std::string_view take_part(std::string_view& bytes, char mark);

/// The most memory that this process had is from now on what it has.
void forget_peak();

}  // namespace kvscope::fuzz
