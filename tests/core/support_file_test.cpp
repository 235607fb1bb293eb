// Files: what is not a regular file, and what a crash or a full disk may leave.
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <set>

#include "engine/core/support/file.h"
#include "engine/core/support/json_file.h"
#include "engine/core/support/version.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace fs = std::filesystem;
using kvscope::read_file;
using kvscope::write_file_atomic;
using kvscope::test::error_of;
using kvscope::test::TempFolder;

TEST_CASE("A folder, FIFO, device, socket, dangling link and link loop are refused by name, without waiting") {
  const TempFolder folder;
  REQUIRE(::mkfifo((folder / "fifo").c_str(), 0600) == 0);
  fs::create_symlink("nowhere", folder / "dangling");
  fs::create_symlink("loop", folder / "loop");
  fs::create_symlink("/dev/zero", folder / "zero");
  const int listener = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  (folder / "socket").string().copy(address.sun_path, sizeof address.sun_path - 1);
  REQUIRE(::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  const auto read = [&](const char* name) { return error_of([&] { read_file(folder / name, 100); }); };
  CHECK(read("") == (folder / "").string() + ": a directory; expected a regular file");
  CHECK_THAT(read("fifo"), Catch::Contains("a FIFO"));
  CHECK_THAT(read("zero"), Catch::Contains("a character device"));
  CHECK_THAT(read("socket"), Catch::Contains("a socket"));
  CHECK_THAT(read("dangling"), Catch::Contains("No such file"));
  CHECK_THAT(read("loop"), Catch::Contains("symbolic links"));
  ::close(listener);
}

TEST_CASE("A file is read whole up to its cap") {
  const TempFolder folder;
  const std::string bytes = GENERATE(std::string(), std::string("x"), std::string(100, '\0'));
  const auto path = folder.write("f", bytes);
  CHECK(read_file(path, 100) == bytes);
  if (!bytes.empty()) CHECK_THAT(error_of([&] { read_file(path, bytes.size() - 1); }), Catch::Contains("at most"));
}

TEST_CASE("A file whose size the system does not tell is read to its end") {
  CHECK(read_file("/proc/self/status", 1 << 20).find("Pid:") != std::string::npos);
}

TEST_CASE("An atomic write replaces the file, keeps its mode and leaves nothing else behind") {
  const TempFolder folder;
  const auto path = folder.write("f", "old");
  ::chmod(path.c_str(), 0640);
  write_file_atomic(path, "new");
  CHECK(read_file(path, 10) == "new");
  CHECK((fs::status(path).permissions() & fs::perms::mask) == fs::perms(0640));
  CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("An atomic write to a link writes what the link points to") {
  const TempFolder folder;
  const auto path = folder.write("f", "old");
  fs::create_symlink("f", folder / "link");
  write_file_atomic(folder / "link", "new");
  CHECK(fs::is_symlink(folder / "link"));
  CHECK(read_file(path, 10) == "new");
}

TEST_CASE("An atomic write works for the longest name a file system takes") {
  const TempFolder folder;
  const auto path = folder / std::string(255, 'n');
  write_file_atomic(path, "x");
  CHECK(read_file(path, 1) == "x");
}

TEST_CASE("Writing that is given up leaves the old file and no other") {
  const TempFolder folder;
  const auto path = folder.write("f", "old");
  {
    kvscope::AtomicFile file(path);
    file.write("half");
  }
  CHECK(read_file(path, 10) == "old");
  CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE(
    "What a killed writer has left goes with the next file of the folder, and what is being written and others' stay") {
  const TempFolder folder;
  folder.write(".kvscope-a1B2c3", "half of a file");
  folder.write(".kvscope-of-somebody", "");
  kvscope::AtomicFile open(folder / "open"), synced(folder / "synced");
  open.write("1");
  synced.write("2");
  synced.sync();
  write_file_atomic(folder / "f", "3");
  CHECK_FALSE(fs::exists(folder / ".kvscope-a1B2c3"));
  CHECK(fs::exists(folder / ".kvscope-of-somebody"));
  open.commit();
  synced.commit();
  CHECK(read_file(folder / "open", 10) == "1");
  CHECK(read_file(folder / "synced", 10) == "2");
  CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 4);
}

TEST_CASE("A target that is a device, a folder or in no folder is refused and stays") {
  const TempFolder folder;
  CHECK_THAT(error_of([] { write_file_atomic("/dev/full", "x"); }), Catch::Contains("/dev/full: a character device"));
  CHECK(fs::is_character_file("/dev/full"));
  CHECK_THAT(error_of([&] { write_file_atomic(folder.path(), "x"); }), Catch::Contains("a directory"));
  CHECK_THAT(error_of([&] { write_file_atomic(folder / "none/f", "x"); }), Catch::Contains("no such folder"));
}

TEST_CASE("A file that exists is kept by whoever may not replace it, even if it came while the other was written") {
  const TempFolder folder;
  kvscope::AtomicFile file(folder / "f", false);
  file.write("new");
  folder.write("f", "old");
  CHECK_THAT(error_of([&] { file.commit(); }), Catch::Contains("another process has just created it"));
  CHECK_THAT(error_of([&] { write_file_atomic(folder / "f", "x", false); }), Catch::Contains("f: it exists"));
  CHECK(read_file(folder / "f", 10) == "old");
}

TEST_CASE("Files that belong together are written all or not at all") {
  const TempFolder folder;
  const kvscope::FileToWrite files[] = {{folder / "a", "1"}, {folder / "b", "2"}, {folder / "c", "3"}};
  folder.write("b", "old");
  CHECK_THAT(error_of([&] { write_files_atomic(files, false); }), Catch::Contains("b: it exists"));
  CHECK(read_file(folder / "b", 10) == "old");
  CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 1);
  const fs::path inputs[] = {folder / "b"};
  CHECK_THAT(error_of([&] { write_files_atomic(files, true, inputs); }), Catch::Contains("which is also an input"));
  write_files_atomic(files, true);
  CHECK(read_file(folder / "b", 10) == "2");
  write_files_atomic(files, false, inputs);  // nothing to change
  CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 3);
}

TEST_CASE("A full disk is a resource error that names the file") {
  try {
    kvscope::throw_errno(ENOSPC, "out.h5", "cannot be written");
  } catch (const kvscope::Error& error) {
    CHECK(error.code() == kvscope::ExitCode::resource);
    CHECK(error.what() == std::string("out.h5: cannot be written: No space left on device"));
    return;
  }
  FAIL("no error");
}

TEST_CASE("The version is three numbers and the revision a commit or unknown") {
  CHECK_THAT(std::string(kvscope::version()), Catch::Matches("[0-9]+\\.[0-9]+\\.[0-9]+"));
  CHECK_THAT(std::string(kvscope::git_revision()), Catch::Matches("unknown|[0-9a-f]{7,40}"));
}
