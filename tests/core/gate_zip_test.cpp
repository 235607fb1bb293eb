// Archives that are not what torch.save writes, each with the reason that its error must give.
#include <catch2/catch.hpp>
#include <functional>

#include "engine/core/files/gate/pt_reader.h"
#include "tests/core/gate_pt_support.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

using namespace kvscope;
using namespace kvscope::test;

namespace {

const std::string kPickle = pickle_dict({pickle_text("x"), pickle_tensor({})});

struct Case {
  const char* name;
  std::string bytes;
  const char* reason;
};

/// The small valid archive after a change to its parts.
std::string changed(const std::function<void(std::vector<ZipPart>&)>& change, const ZipShape& shape = {}) {
  std::vector<ZipPart> parts = small_parts(kPickle);
  change(parts);
  return zip_file(parts, shape);
}
std::string shaped(const ZipShape& shape) { return zip_file(small_parts(kPickle), shape); }
void add(std::vector<ZipPart>& parts, const std::string& name) { parts.push_back({.name = name, .data = "x"}); }

std::vector<Case> foreign_files() {
  std::string tar(512, '\0');
  tar.replace(257, 5, "ustar");
  const std::string good = small_file(kPickle);
  return {
      {"nothing", "", "empty file; expected a .pt file; hint: the download did not start"},
      {"text", "not a checkpoint", "not a ZIP archive; expected a .pt file as torch.save writes it"},
      {"a web page", "<!doctype html><html>404</html>", "HTML page"},
      {"a Git LFS pointer", "version https://git-lfs.github.com/spec/v1\noid sha256:3f2a8888deadbeef\nsize 49\n",
       "Git LFS pointer (oid 3f2a8888, 49 bytes); expected a .pt file; hint: run \"git lfs pull\""},
      {"a tar archive", tar, "tar archive (torch.save before 0.1.10)"},
      {"a bare pickle", kPickle, "a bare pickle (torch.save before 1.6)"},
      {"first bytes only", "PK\3\4", "4 bytes; expected a ZIP archive"},
      {"cut in half", good.substr(0, good.size() / 2),
       "no end record of a ZIP archive; expected one; hint: the file was"},
      {"cut by one byte", good.substr(0, good.size() - 1), "no end record of a ZIP archive"},
  };
}

std::vector<Case> end_records() {
  std::string two_disks = small_file(kPickle);
  two_disks[two_disks.size() - 18] = 1;
  return {
      {"a comment", shaped({.comment = "hello"}), "end record: 5 bytes of comment or foreign data after it"},
      {"bytes behind", shaped({.behind = "xx"}), "end record: 2 bytes of comment or foreign data after it"},
      {"a comment that hides behind its length",
       shaped({.wide = false}).substr(0, shaped({.wide = false}).size() - 2) + "\5" + std::string(1, '\0'),
       "end record: a comment of 5 bytes; expected none"},
      {"several files", two_disks, "end record: an archive of several files"},
      {"zip64 with other entries", shaped({.wide_entries = 5}), "zip64 end record: entries 5; expected 4 as in"},
      {"zip64 with another size", shaped({.wide_size = 1}), "zip64 end record: directory bytes 1; expected"},
      {"zip64 with another offset", shaped({.wide_begin = 1}), "zip64 end record: directory offset 1; expected"},
      {"a locator that points elsewhere", shaped({.locator = 3}), "zip64 locator: a record at byte 3; expected byte"},
      {"a directory past the end", shaped({.wide = false, .begin = 0xfffff}), "end record: a directory of"},
      {"a directory too short", shaped({.wide = false, .size = 46}), "end record: a directory of 46 bytes"},
      {"a gap behind the directory", shaped({.between = "gap"}), "end record: a directory of"},
      {"an entry too many", shaped({.wide_entries = 5, .n_entries = 5}), "directory: no entry at its byte"},
      {"an entry too few", shaped({.wide_entries = 3, .n_entries = 3}), "bytes after its last entry"},
      {"65,000 entries", shaped({.wide_entries = 65000, .n_entries = 65000}), "65000 entries; expected at most 4096"},
      {"no entries", zip_file({}, {.wide = false}), "an archive without entries"},
  };
}

std::vector<Case> entries() {
  const auto first = [](const std::function<void(ZipPart&)>& change) {
    return changed([&](auto& parts) { change(parts[2]); });
  };
  return {
      {"compressed", first([](auto& p) { p.method = 8; }),
       "a/data/0: compressed entry (method 8); expected stored data"},
      {"compressed by its local header", first([](auto& p) { p.local_method = 8; }),
       "a/data/0: compressed entry by its local header"},
      {"encrypted", first([](auto& p) { p.flags = 0x0809; }), "a/data/0: encrypted entry"},
      {"strongly encrypted", first([](auto& p) { p.flags = 0x0848; }), "a/data/0: encrypted entry"},
      {"unknown flags", first([](auto& p) { p.flags = 0x8808; }), "a/data/0: entry flags 34824"},
      {"twice", changed([](auto& parts) { add(parts, "a/data.pkl"); }), "a/data.pkl: two entries of this name"},
      {"../", changed([](auto& parts) { add(parts, "a/../../x"); }), "directory: entry name \"a/../../x\"; expected"},
      {"an absolute name", changed([](auto& parts) { add(parts, "/etc/x"); }), "directory: entry name \"/etc/x\""},
      {"a backslash", changed([](auto& parts) { add(parts, "a\\x"); }), "directory: entry name \"a\\x\""},
      {"an empty name", changed([](auto& parts) { add(parts, ""); }), "directory: entry name \"\""},
      {"a NUL in the name", changed([](auto& parts) { add(parts, std::string("a/\0x", 4)); }),
       "entry name \"a/\\x00x\""},
      {"another root folder", changed([](auto& parts) { add(parts, "b/x"); }),
       "b/x: a second root folder; expected a/"},
      {"outside of a folder", changed([](auto& parts) { add(parts, "x"); }), "x: an entry outside of a folder"},
      {"data past the end", first([](auto& p) { p.size = 100000; }), "a/data/0: data past the archive's directory"},
      {"a header past the end", first([](auto& p) { p.offset = 0xffffff; }), "data past the archive's directory"},
      {"no local header", first([](auto& p) { p.offset = 1; }), "a/data/0: no local header at byte 1"},
      {"another local name", first([](auto& p) { p.local_name = "a/data/1"; }),
       "a/data/0: a different name in the local header"},
      {"another local size", first([](auto& p) { p.local_size = 15; }),
       "a/data/0: 15 bytes by the local header; expected 16 as in the directory"},
      {"stored size of its own", first([](auto& p) { p.stored = 15; }), "a/data/0: 15 bytes stored for 16"},
      {"size of all ones", first([](auto& p) { p.size = 0xffffffff; }), "sizes of all ones without a zip64 field"},
      {"overlap", changed([](auto& parts) { parts[1].size = 80; }), "an overlap with a/byteorder"},
      {"wrong CRC", first([](auto& p) { p.crc = 1; }), "a/data/0: CRC-32 of the data is wrong"},
      {"wrong CRC of the pickle", changed([](auto& parts) { parts[0].crc = 1; }),
       "a/data.pkl: CRC-32 of the data is wrong"},
  };
}

std::vector<Case> archives() {
  return {
      {"no data.pkl", changed([](auto& parts) { parts.erase(parts.begin()); }), "no data.pkl in the archive"},
      {"TorchScript code", changed([](auto& parts) { add(parts, "a/code/__torch__.py"); }),
       "a/code/__torch__.py: a TorchScript archive, which is a program; expected a dict of tensors"},
      {"TorchScript constants", changed([](auto& parts) { add(parts, "a/constants.pkl"); }), "a TorchScript archive"},
      {"big-endian", changed([](auto& parts) { parts[1].data = "big"; }), "byteorder: \"big\"; expected \"little\""},
      {"byteorder of 1 MB", changed([](auto& parts) { parts[1].data.assign(1 << 20, 'x'); }), "byteorder: \"\""},
      {"data.pkl of 17 MiB", changed([](auto& parts) { parts[0].data.resize(17 << 20); }),
       "data.pkl: 17825792 bytes; expected at most 16777216"},
  };
}

/// The small archive with the byte that lies `behind` bytes before its end changed.
std::string edited(std::size_t behind, char byte = 1) {
  std::string bytes = small_file(kPickle);
  bytes[bytes.size() - behind] = byte;
  return bytes;
}

/// The small archive with byte `at` of the first entry of its directory changed.
std::string edited_entry(std::size_t at, char byte) {
  std::string bytes = small_file(kPickle);
  bytes[bytes.find("PK\1\2") + at] = byte;
  return bytes;
}

/// Every field that the format has and torch.save leaves at one value: found by taking its check away (tests/mutants). The
/// end record is the last 22 bytes, its locator the 20 before, the zip64 record the 56 before these.
std::vector<Case> fields() {
  constexpr std::size_t kEnd = 22, kLocator = kEnd + 20, kRecord = kLocator + 56;
  const std::string lone_locator =
      "PK\3\4" + std::string("PK\6\7") + std::string(16, '\0') + "PK\5\6" + std::string(18, '\0');
  return {
      {"the directory in another file", edited(kEnd - 6), "end record: an archive of several files"},
      {"entries of this file alone", edited(kEnd - 8, 9), "end record: 9 entries here; expected 4 as in all"},
      {"a locator of another file", edited(kLocator - 4), "zip64 locator: a record at byte"},
      {"a locator with nothing before it", lone_locator, "zip64 locator: a record at byte 0; expected one before it"},
      {"no record behind the locator", edited(kRecord, 'X'), "zip64 end record: no such record"},
      {"a record of another length", edited(kRecord - 4, 43), "zip64 end record: no such record"},
      {"a record of the second file", edited(kRecord - 16), "zip64 end record: an archive of several files"},
      {"its directory in the second file", edited(kRecord - 20), "zip64 end record: an archive of several files"},
      {"its entries here and in all", edited(kRecord - 24, 3), "zip64 end record: an archive of several files"},
      {"no header where an entry begins", edited_entry(0, 'X'), "directory: no entry at its byte 0"},
      {"a name past the directory", edited_entry(29, 'x'), "directory: an entry that runs past its end"},
      {"an entry in another file", edited_entry(34, 1), "a/data.pkl: an entry in another file of the archive"},
  };
}

/// Opens and reads everything.
std::vector<float> read(const std::filesystem::path& path) {
  const PtFile file = PtFile::open(path);
  return file.read(file.tensors().at("x"));
}

}  // namespace

TEST_CASE("gate zip: an archive that torch.save does not write is refused in one line with its reason",
          "[core][gate]") {
  const TempFolder folder;
  for (const auto& cases : {foreign_files(), end_records(), fields(), entries(), archives()}) {
    for (const Case& c : cases) {
      CAPTURE(c.name);
      const auto path = folder.write("a.pt", c.bytes);
      const std::string line = error_of([&] { read(path); });
      CHECK_THAT(line, Catch::StartsWith(path.string() + ": ") && Catch::Contains(c.reason));
      CHECK(line.find('\n') == line.npos);
    }
  }
}

TEST_CASE("gate zip: what torch.save writes, and what older ones left out, is read", "[core][gate]") {
  const std::vector<float> expected = {1, -2, 0.5f, 4};
  const auto ones = static_cast<std::int64_t>(0xffffffff);
  const auto c = GENERATE_COPY(values<std::pair<const char*, std::string>>({
      {"as today", small_file(kPickle)},
      {"without zip64 records", shaped({.wide = false})},
      {"with plain records of all ones", shaped({.n_entries = 0xffff, .size = ones, .begin = ones})},
      {"without byteorder", changed([](auto& parts) { parts.erase(parts.begin() + 1); })},
      {"with sizes in local headers", changed([](auto& parts) { parts[2].local_size = 16; })},
      {"with entries that we do not know", changed([](auto& parts) { add(parts, "a/.data/serialization_id"); })},
  }));
  CAPTURE(c.first);
  const TempFolder folder;
  const auto path = folder.write("a.pt", c.second);
  CHECK(read(path) == expected);
  CHECK(PtFile::open(path).warnings().empty());
}

TEST_CASE("gate zip: without checksums an archive is read, with a warning", "[core][gate]") {
  const TempFolder folder;
  const auto path = folder.write("a.pt", changed([](auto& parts) {
                                   for (ZipPart& part : parts) part.crc = 0;
                                 }));
  CHECK(read(path) == std::vector<float>{1, -2, 0.5f, 4});
  CHECK(PtFile::open(path).warnings().size() == 1);
}

TEST_CASE("gate zip: a FIFO, a directory and a missing file are refused without waiting", "[core][gate]") {
  const TempFolder folder;
  CHECK_THAT(error_of([&] { read(folder.path()); }), Catch::Contains("a directory; expected a regular file"));
  CHECK_THAT(error_of([&] { read(folder / "none.pt"); }), Catch::Contains("cannot be read: No such file"));
  CHECK_THAT(error_of([&] { read("/dev/zero"); }), Catch::Contains("a character device"));
}
